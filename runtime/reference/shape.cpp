#include "runtime/reference/kernels.h"
#include "runtime/reference/operands.h"
#include "runtime/tiles.h"

namespace skirl::reference {
namespace {

void add_up(const Shape& shape, const Shape& strides, std::size_t dim, const double*& x, double* y) {
  if (dim == shape.size()) {
    *y += *x++;
    return;
  }
  for (std::int64_t i = 0; i < shape[dim]; ++i) add_up(shape, strides, dim + 1, x, y + i * strides[dim]);
}

}  // namespace

void sum_to(const KernelCall& call) {
  const Shape& from = call.operands[0].shape;
  const Shape& to = call.results[0].shape;
  Shape strides(from.size(), 0);  // of the result along the dimensions of the operand; 0 where they are summed
  std::int64_t step = 1;
  for (std::size_t d = to.size(); d-- > 0; step *= to[d]) strides[from.size() - to.size() + d] = to[d] == 1 ? 0 : step;
  const Doubles x(call.operands[0]);
  DoubleResult y(call.results[0]);
  const double* at = x.data();
  if (x.size() > 0) add_up(from, strides, 0, at, y.data());
}

void slice(const KernelCall& call) {
  const SliceAttrs& attrs = attrs_of<SliceAttrs>(call);
  Shape start(call.operands[0].shape.size(), 0);
  start[static_cast<std::size_t>(attrs.dim)] = attrs.start;
  copy_tile(call.operands[0], start, call.results[0], Shape(start.size(), 0), call.results[0].shape);
}

void pad(const KernelCall& call) {
  const PadAttrs& attrs = attrs_of<PadAttrs>(call);
  Shape start(call.operands[0].shape.size(), 0);
  start[static_cast<std::size_t>(attrs.dim)] = attrs.start;
  for (std::int64_t i = 0; i < elems(call.results[0].shape); ++i) store_element(call.results[0].dtype, call.results[0].data, i, 0);
  copy_tile(call.operands[0], Shape(start.size(), 0), call.results[0], start, call.operands[0].shape);
}

void concat(const KernelCall& call) {
  const std::size_t dim = static_cast<std::size_t>(attrs_of<ConcatAttrs>(call).dim);
  Shape start(call.results[0].shape.size(), 0);
  for (const TensorView& operand : call.operands) {
    copy_tile(operand, Shape(start.size(), 0), call.results[0], start, operand.shape);
    start[dim] += operand.shape[dim];
  }
}

}  // namespace skirl::reference
