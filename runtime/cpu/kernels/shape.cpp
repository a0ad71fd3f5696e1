#include <algorithm>
#include <cstring>

#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/operands.h"

namespace skirl::cpu {
namespace {

/// A tensor as outer rows of one dimension and what is inside of it, in bytes.
struct Rows {
  std::int64_t count;       // product of the dimensions outside
  std::int64_t step_bytes;  // one index of the dimension
  std::int64_t size_bytes;  // one row
  std::byte* data;

  Rows(const TensorView& view, std::int64_t dim) : count(1), step_bytes(skirl::size_bytes(view.dtype)), data(view.as<std::byte>()) {
    const auto at = static_cast<std::size_t>(dim);
    for (std::size_t d = 0; d < at; ++d) count *= view.shape[d];
    for (std::size_t d = at + 1; d < view.shape.size(); ++d) step_bytes *= view.shape[d];
    size_bytes = step_bytes * view.shape[at];
  }
};

void copy_bytes(void* to, const void* from, std::int64_t size_bytes) {
  if (size_bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(size_bytes));
}

}  // namespace

void slice(const KernelCall& call) {
  const SliceAttrs& attrs = attrs_of<SliceAttrs>(call);
  const Rows from(call.operands[0], attrs.dim), to(call.results[0], attrs.dim);
  for (std::int64_t r = 0; r < to.count; ++r)
    copy_bytes(to.data + r * to.size_bytes, from.data + r * from.size_bytes + attrs.start * from.step_bytes, to.size_bytes);
}

void pad(const KernelCall& call) {
  const PadAttrs& attrs = attrs_of<PadAttrs>(call);
  const Rows from(call.operands[0], attrs.dim), to(call.results[0], attrs.dim);
  if (to.count * to.size_bytes > 0)
    std::memset(to.data, 0, static_cast<std::size_t>(to.count * to.size_bytes));  // zero bits are 0 in every dtype
  for (std::int64_t r = 0; r < to.count; ++r)
    copy_bytes(to.data + r * to.size_bytes + attrs.start * to.step_bytes, from.data + r * from.size_bytes, from.size_bytes);
}

void concat(const KernelCall& call) {
  const std::int64_t dim = attrs_of<ConcatAttrs>(call).dim;
  const Rows to(call.results[0], dim);
  std::int64_t start_bytes = 0;
  for (const TensorView& operand : call.operands) {
    const Rows from(operand, dim);
    for (std::int64_t r = 0; r < to.count; ++r)
      copy_bytes(to.data + r * to.size_bytes + start_bytes, from.data + r * from.size_bytes, from.size_bytes);
    start_bytes += from.size_bytes;
  }
}

void cast(const KernelCall& call) {
  const TensorView& from = call.operands[0];
  const TensorView& to = call.results[0];
  const std::int64_t size = elems(to);
  if (from.dtype == to.dtype)
    copy_bytes(to.data, from.data, size * size_bytes(to.dtype));
  else if (from.dtype == DType::F32)
    store(from.as<float>(), size, to.dtype, to.data);
  else if (to.dtype == DType::F32)
    load(from.dtype, from.data, size, to.as<float>());
  else
    for (std::int64_t i = 0; i < size; ++i) store_element(to.dtype, to.data, i, load_element(from.dtype, from.data, i));
}

void iota(const KernelCall& call) {
  auto* to = call.results[0].as<std::int64_t>();
  const Positions positions = result_positions(call, 0, 0);
  for (const Interval& held : positions.intervals())
    for (std::int64_t at = held.begin; at < held.end; ++at) *to++ = at;
}

void fill(const KernelCall& call) {
  const TensorView& to = call.results[0];
  const std::int64_t size = elems(to);
  const std::int64_t width = size_bytes(to.dtype);
  if (size == 0) return;
  store_element(to.dtype, to.data, 0, attrs_of<FillAttrs>(call).value);
  for (std::int64_t done = 1; done < size; done *= 2)
    copy_bytes(to.as<std::byte>() + done * width, to.data, std::min(done, size - done) * width);
}

}  // namespace skirl::cpu
