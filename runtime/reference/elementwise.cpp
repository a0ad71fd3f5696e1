#include <cmath>
#include <numbers>

#include "ir/random.h"
#include "runtime/reference/kernels.h"
#include "runtime/reference/operands.h"

namespace skirl::reference {
namespace {

/// result = f(x)
template <class F>
void map(const KernelCall& call, F&& f) {
  const Doubles x(call.operands[0]);
  DoubleResult y(call.results[0]);
  for (std::int64_t i = 0; i < y.size(); ++i) y[i] = f(x[i]);
}

/// result = f(x, y) of equal shapes
template <class F>
void zip(const KernelCall& call, F&& f) {
  const Doubles x(call.operands[0]);
  const Doubles y(call.operands[1]);
  DoubleResult z(call.results[0]);
  for (std::int64_t i = 0; i < z.size(); ++i) z[i] = f(x[i], y[i]);
}

/// Strides of an operand along the dimensions of the result: 0 where it is broadcast.
Shape broadcast_strides(const Shape& operand, const Shape& result) {
  Shape strides(result.size(), 0);
  const std::size_t missing = result.size() - operand.size();
  std::int64_t step = 1;
  for (std::size_t d = operand.size(); d-- > 0; step *= operand[d])
    if (operand[d] != 1) strides[missing + d] = step;
  return strides;
}

template <class F>
void broadcast(const Shape& shape, const Shape& stride_x, const Shape& stride_y, std::size_t dim, const double* x, const double* y,
               double*& z, F&& f) {
  if (shape.empty()) {
    *z++ = f(*x, *y);
    return;
  }
  if (dim + 1 < shape.size()) {
    for (std::int64_t i = 0; i < shape[dim]; ++i)
      broadcast(shape, stride_x, stride_y, dim + 1, x + i * stride_x[dim], y + i * stride_y[dim], z, f);
    return;
  }
  const std::int64_t sx = stride_x[dim], sy = stride_y[dim];
  for (std::int64_t i = 0; i < shape[dim]; ++i) z[i] = f(x[i * sx], y[i * sy]);
  z += shape[dim];
}

template <class F>
void broadcast(const KernelCall& call, F&& f) {
  if (call.operands[0].shape == call.operands[1].shape) return zip(call, f);
  const Shape& shape = call.results[0].shape;
  const Doubles x(call.operands[0]);
  const Doubles y(call.operands[1]);
  DoubleResult z(call.results[0]);
  if (z.size() == 0) return;
  double* at = z.data();
  broadcast(shape, broadcast_strides(call.operands[0].shape, shape), broadcast_strides(call.operands[1].shape, shape), 0, x.data(),
            y.data(), at, f);
}

const double kGeluScale = std::sqrt(2 / std::numbers::pi);
constexpr double kGeluCubic = 0.044715;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void drop(const KernelCall& call, std::size_t dim, std::uint64_t key, const double*& x, double*& y) {
  const Shape& shape = call.results[0].shape;
  const double p = attrs_of<DropoutAttrs>(call).p;
  if (dim == shape.size()) {
    *y++ = uniform(key) < p ? 0 : *x / (1 - p);
    ++x;
    return;
  }
  const Positions at = result_positions(call, 0, dim);
  for (std::int64_t i = 0; i < shape[dim]; ++i) drop(call, dim + 1, fold(key, at[i]), x, y);
}

}  // namespace

void add(const KernelCall& call) {
  broadcast(call, [](double x, double y) { return x + y; });
}

void mul(const KernelCall& call) {
  broadcast(call, [](double x, double y) { return x * y; });
}

void scale(const KernelCall& call) {
  map(call, [factor = attrs_of<ScaleAttrs>(call).factor](double x) { return factor * x; });
}

void tanh(const KernelCall& call) {
  map(call, [](double x) { return std::tanh(x); });
}

void tanh_grad(const KernelCall& call) {
  zip(call, [](double y, double dy) { return (1 - y * y) * dy; });
}

void gelu(const KernelCall& call) {
  map(call, [](double x) { return 0.5 * x * (1 + std::tanh(kGeluScale * (x + kGeluCubic * x * x * x))); });
}

void gelu_grad(const KernelCall& call) {
  zip(call, [](double x, double dy) {
    const double t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCubic * x * x));
  });
}

void silu(const KernelCall& call) {
  map(call, [](double x) { return x * sigmoid(x); });
}

void silu_grad(const KernelCall& call) {
  zip(call, [](double x, double dy) { return dy * sigmoid(x) * (1 + x * (1 - sigmoid(x))); });
}

void swiglu(const KernelCall& call) {
  zip(call, [](double a, double b) { return a * sigmoid(a) * b; });
}

void swiglu_grad(const KernelCall& call) {
  const Doubles a(call.operands[0]), b(call.operands[1]), dy(call.operands[2]);
  DoubleResult da(call.results[0]), db(call.results[1]);
  for (std::int64_t i = 0; i < da.size(); ++i) {
    const double s = sigmoid(a[i]);
    da[i] = dy[i] * b[i] * s * (1 + a[i] * (1 - s));
    db[i] = dy[i] * a[i] * s;
  }
}

void dropout(const KernelCall& call) {
  const Doubles x(call.operands[0]);
  DoubleResult y(call.results[0]);
  const double* from = x.data();
  double* to = y.data();
  drop(call, 0, random_key(call.name, call.seed, call.step), from, to);
}

void sum(const KernelCall& call) {
  const DType accumulate = attrs_of<SumAttrs>(call).accumulate;
  DoubleResult total(call.results[0]);
  for (std::size_t n = 0; n < call.operands.size(); ++n) {
    const Doubles x(call.operands[n]);
    if (accumulate == DType::F64)
      for (std::int64_t i = 0; i < total.size(); ++i) total[i] = n == 0 ? x[i] : total[i] + x[i];
    else
      for (std::int64_t i = 0; i < total.size(); ++i) total[i] = rounded(accumulate, n == 0 ? x[i] : total[i] + x[i]);
  }
}

void cast(const KernelCall& call) {
  map(call, [](double x) { return x; });
}

void fill(const KernelCall& call) {
  DoubleResult y(call.results[0]);
  for (std::int64_t i = 0; i < y.size(); ++i) y[i] = attrs_of<FillAttrs>(call).value;
}

void iota(const KernelCall& call) {
  const Positions at = result_positions(call, 0, 0);
  DoubleResult y(call.results[0]);
  for (std::int64_t i = 0; i < y.size(); ++i) y[i] = static_cast<double>(at[i]);
}

void sq_error(const KernelCall& call) {
  const Doubles x(call.operands[0]);
  const Doubles y(call.operands[1]);
  DoubleResult total(call.results[0]);
  for (std::int64_t i = 0; i < x.size(); ++i) total[0] += (x[i] - y[i]) * (x[i] - y[i]);
}

void sq_error_bi(const KernelCall& call) {
  const double scale = load_element(call.operands[2].dtype, call.operands[2].data, 0);
  zip(call, [scale](double x, double y) { return 2 * (x - y) * scale; });
}

}  // namespace skirl::reference
