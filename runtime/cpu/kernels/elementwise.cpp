#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/random.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/math.h"
#include "runtime/cpu/kernels/operands.h"

namespace skirl::cpu {
namespace {

/// result = f(x)
template <class F>
void map(const KernelCall& call, F f) {
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> x(call.operands[0]);
    Out<T> y(call.results[0]);
    const T* __restrict from = x.data();
    T* __restrict to = y.data();
    for (std::int64_t i = 0; i < y.size(); ++i) to[i] = f(from[i]);
  });
}

/// result = f(x, y) of equal shapes
template <class F>
void zip(const KernelCall& call, F f) {
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> x(call.operands[0]);
    const In<T> y(call.operands[1]);
    Out<T> z(call.results[0]);
    const T* __restrict left = x.data();
    const T* __restrict right = y.data();
    T* __restrict to = z.data();
    for (std::int64_t i = 0; i < z.size(); ++i) to[i] = f(left[i], right[i]);
  });
}

struct BroadcastDim {
  std::int64_t size, stride_x, stride_y;
};

/// Dimensions of the result with the strides of both operands (0 where broadcast); neighbours that go on in one another are one.
std::vector<BroadcastDim> broadcast_dims(const Shape& x, const Shape& y, const Shape& result) {
  std::vector<BroadcastDim> dims;
  std::int64_t step_x = 1, step_y = 1;
  for (std::size_t d = 0; d < result.size(); ++d) {  // counted from the last
    const std::int64_t size = result[result.size() - 1 - d];
    const std::int64_t size_x = d < x.size() ? x[x.size() - 1 - d] : 1;
    const std::int64_t size_y = d < y.size() ? y[y.size() - 1 - d] : 1;
    const BroadcastDim dim{size, size_x == 1 ? 0 : step_x, size_y == 1 ? 0 : step_y};
    step_x *= size_x;
    step_y *= size_y;
    if (size == 1) continue;
    const auto goes_on = [&](std::int64_t BroadcastDim::*stride) {
      return dims.back().*stride * dims.back().size == dim.*stride && (dims.back().*stride != 0 || dim.*stride == 0);
    };
    if (!dims.empty() && goes_on(&BroadcastDim::stride_x) && goes_on(&BroadcastDim::stride_y))
      dims.back().size *= size;
    else
      dims.push_back(dim);
  }
  return dims;  // innermost first
}

template <class T, class F>
void broadcast_loop(const std::vector<BroadcastDim>& dims, std::size_t level, const T* x, const T* y, T* __restrict& to, F f) {
  const BroadcastDim& dim = dims[level];
  if (level > 0) {
    for (std::int64_t i = 0; i < dim.size; ++i) broadcast_loop(dims, level - 1, x + i * dim.stride_x, y + i * dim.stride_y, to, f);
    return;
  }
  if (dim.stride_x == 0) {
    for (std::int64_t i = 0; i < dim.size; ++i) to[i] = f(*x, y[i * dim.stride_y]);
  } else if (dim.stride_y == 0) {
    for (std::int64_t i = 0; i < dim.size; ++i) to[i] = f(x[i], *y);
  } else {
    for (std::int64_t i = 0; i < dim.size; ++i) to[i] = f(x[i], y[i]);
  }
  to += dim.size;
}

template <class F>
void broadcast(const KernelCall& call, F f) {
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> x(call.operands[0]);
    const In<T> y(call.operands[1]);
    Out<T> z(call.results[0]);
    if (z.size() == 0) return;
    const std::vector<BroadcastDim> dims = broadcast_dims(call.operands[0].shape, call.operands[1].shape, call.results[0].shape);
    T* to = z.data();
    if (dims.empty())
      *to = f(x[0], y[0]);
    else
      broadcast_loop(dims, dims.size() - 1, x.data(), y.data(), to, f);
  });
}

const double kGeluScale = std::sqrt(2 / std::numbers::pi);
constexpr double kGeluCubic = 0.044715;

/// Adds `x` to the sums of a result: `kept` dimensions stay, the others are added up. Innermost first.
struct SumDim {
  std::int64_t size;
  std::int64_t stride;  // in the result; 0 where it is summed
};

template <class T>
void add_up(const std::vector<SumDim>& dims, std::size_t level, const T*& x, double* to) {
  const SumDim& dim = dims[level];
  if (level > 0) {
    for (std::int64_t i = 0; i < dim.size; ++i) add_up(dims, level - 1, x, to + i * dim.stride);
    return;
  }
  const T* __restrict from = x;
  if (dim.stride == 0) {
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < dim.size; ++i) total += from[i];
    *to += total;
  } else {
    double* __restrict sums = to;
    for (std::int64_t i = 0; i < dim.size; ++i) sums[i] += from[i];
  }
  x += dim.size;
}

constexpr std::int64_t kChunk = 2048;

template <class T>
void sum_in(const KernelCall& call) {
  const DType accumulate = attrs_of<SumAttrs>(call).accumulate;
  const bool rounds = accumulate == DType::BF16 || accumulate == DType::F16;
  const TensorView& result = call.results[0];
  const std::int64_t size = elems(result);
  const std::int64_t width = size_bytes(result.dtype);
  Scratch<T> total(kChunk), term(kChunk);
  Scratch<std::uint16_t> narrow(kChunk);
  for (std::int64_t begin = 0; begin < size; begin += kChunk) {
    const std::int64_t n = std::min(kChunk, size - begin);
    T* __restrict sums = total.data();
    T* __restrict terms = term.data();
    for (std::size_t o = 0; o < call.operands.size(); ++o) {
      const TensorView& operand = call.operands[o];
      load(operand.dtype, operand.as<std::byte>() + begin * size_bytes(operand.dtype), n, o == 0 ? sums : terms);
      if (o > 0)
        for (std::int64_t i = 0; i < n; ++i) sums[i] += terms[i];
      if (!rounds) continue;
      store(sums, n, accumulate, narrow.data());
      load(accumulate, narrow.data(), n, sums);
    }
    store(sums, n, result.dtype, result.as<std::byte>() + begin * width);
  }
}

/// Folds the coordinates of dimension `dim` and the inner ones into `key`; an element lives where its number is at least `least`.
template <class T>
void drop(const std::vector<Positions>& positions, std::size_t dim, std::uint64_t key, std::uint64_t least, T factor, const T*& x, T*& y) {
  for (const Interval& held : positions[dim].intervals()) {
    if (dim + 1 < positions.size()) {
      for (std::int64_t at = held.begin; at < held.end; ++at) drop(positions, dim + 1, fold(key, at), least, factor, x, y);
      continue;
    }
    for (std::int64_t i = 0; i < held.size(); ++i) y[i] = (fold(key, held.begin + i) >> 11) < least ? T(0) : x[i] * factor;
    x += held.size();
    y += held.size();
  }
}

}  // namespace

void add(const KernelCall& call) {
  broadcast(call, [](auto x, auto y) { return x + y; });
}

void mul(const KernelCall& call) {
  broadcast(call, [](auto x, auto y) { return x * y; });
}

void scale(const KernelCall& call) {
  map(call, [factor = attrs_of<ScaleAttrs>(call).factor](auto x) { return static_cast<decltype(x)>(factor) * x; });
}

void tanh(const KernelCall& call) {
  map(call, [](auto x) { return fast_tanh(x); });
}

void tanh_grad(const KernelCall& call) {
  zip(call, [](auto y, auto dy) { return (1 - y * y) * dy; });
}

void gelu(const KernelCall& call) {
  map(call, [scale = kGeluScale](auto x) {
    using T = decltype(x);
    return T(0.5) * x * (1 + fast_tanh(T(scale) * (x + T(kGeluCubic) * x * x * x)));
  });
}

void gelu_grad(const KernelCall& call) {
  zip(call, [scale = kGeluScale](auto x, auto dy) {
    using T = decltype(x);
    const T t = fast_tanh(T(scale) * (x + T(kGeluCubic) * x * x * x));
    return dy * (T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * T(scale) * (1 + T(3 * kGeluCubic) * x * x));
  });
}

void silu(const KernelCall& call) {
  map(call, [](auto x) { return x * sigmoid(x); });
}

void silu_grad(const KernelCall& call) {
  zip(call, [](auto x, auto dy) {
    const auto s = sigmoid(x);
    return dy * s * (1 + x * (1 - s));
  });
}

void swiglu(const KernelCall& call) {
  zip(call, [](auto a, auto b) { return a * sigmoid(a) * b; });
}

void swiglu_grad(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> left(call.operands[0]), right(call.operands[1]), gradient(call.operands[2]);
    Out<T> dleft(call.results[0]), dright(call.results[1]);
    const T* __restrict a = left.data();
    const T* __restrict b = right.data();
    const T* __restrict dy = gradient.data();
    T* __restrict da = dleft.data();
    T* __restrict db = dright.data();
    for (std::int64_t i = 0; i < dleft.size(); ++i) {
      const T s = sigmoid(a[i]);
      da[i] = dy[i] * b[i] * s * (1 + a[i] * (1 - s));
      db[i] = dy[i] * a[i] * s;
    }
  });
}

void dropout(const KernelCall& call) {
  const double p = attrs_of<DropoutAttrs>(call).p;
  const auto least = static_cast<std::uint64_t>(std::ceil(p * 0x1.0p53));  // uniform(key) < p as integers
  const std::uint64_t key = random_key(call.name, call.seed, call.step);
  const Shape& shape = call.results[0].shape;
  std::vector<Positions> positions;
  for (std::size_t d = 0; d < shape.size(); ++d) positions.push_back(result_positions(call, 0, d));
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> x(call.operands[0]);
    Out<T> y(call.results[0]);
    const T factor = static_cast<T>(1 / (1 - p));
    const T* from = x.data();
    T* to = y.data();
    if (shape.empty())
      *to = (key >> 11) < least ? T(0) : *from * factor;
    else
      drop(positions, 0, key, least, factor, from, to);
  });
}

void sum(const KernelCall& call) {
  if (attrs_of<SumAttrs>(call).accumulate == DType::F64)
    sum_in<double>(call);
  else
    sum_in<float>(call);
}

void sum_to(const KernelCall& call) {
  const Shape& from = call.operands[0].shape;
  const Shape& to = call.results[0].shape;
  std::vector<SumDim> dims;
  std::int64_t step = 1;
  for (std::size_t d = 0; d < from.size(); ++d) {  // counted from the last
    const std::int64_t size = from[from.size() - 1 - d];
    const std::int64_t kept = d < to.size() ? to[to.size() - 1 - d] : 1;
    const std::int64_t stride = kept == 1 ? 0 : step;
    step *= kept;
    if (size == 1) continue;
    if (!dims.empty() && dims.back().stride * dims.back().size == stride && (stride != 0) == (dims.back().stride != 0))
      dims.back().size *= size;
    else
      dims.push_back({size, stride});
  }
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> x(call.operands[0]);
    const std::int64_t size = elems(call.results[0]);
    Scratch<double> total(size);
    std::fill_n(total.data(), size, 0.0);
    const T* at = x.data();
    if (dims.empty() && x.size() == 1) total[0] = *at;
    if (!dims.empty() && x.size() > 0) add_up(dims, dims.size() - 1, at, total.data());
    store(total.data(), size, call.results[0].dtype, call.results[0].data);
  });
}

}  // namespace skirl::cpu
