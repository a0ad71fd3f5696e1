#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/cpu/kernels/gemm.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/math.h"
#include "runtime/cpu/kernels/operands.h"
#include "runtime/cpu/kernels/team.h"

namespace skirl::cpu {
namespace {

/// Queries that are worked on together: their scores stay in cache, and the keys that none of them sees are left out.
constexpr std::int64_t kBlock = 64;

/// Local sizes of q [b s n d], k [b t m d], v [b t m e], and which keys a query sees.
struct Sizes {
  std::int64_t b, s, n, d, t, m, e;
  bool causal;
  std::int64_t first;  // global position of local query 0

  explicit Sizes(const KernelCall& call) : causal(attrs_of<AttentionAttrs>(call).causal), first(operand_origin(call, 0, 1)) {
    const Shape& q = call.operands[0].shape;
    const Shape& v = call.operands[2].shape;
    b = q[0], s = q[1], n = q[2], d = q[3], t = v[1], m = v[2], e = v[3];
  }
  std::int64_t group() const { return n / m; }
  std::int64_t keys(std::int64_t query) const { return causal ? std::min(t, first + query + 1) : t; }
};

/// Calls f(batch, key head) for all pairs on `threads` threads. No two pairs write the same element.
template <class F>
void for_each_head(const Sizes& z, int threads, F f) {
  const std::int64_t pairs = z.b * z.m;
  if (threads <= 1 || pairs == 1) {
    for (std::int64_t i = 0; i < pairs; ++i) f(i / z.m, i % z.m);
    return;
  }
  in_parallel(threads, [&](int part) {
    for (std::int64_t i = pairs * part / threads; i < pairs * (part + 1) / threads; ++i) f(i / z.m, i % z.m);
  });
}

template <class T>
void forward(const KernelCall& call) {
  const Sizes z(call);
  const T scale = static_cast<T>(attrs_of<AttentionAttrs>(call).scale);
  const In<T> q(call.operands[0]), k(call.operands[1]), v(call.operands[2]);
  Out<T> o(call.results[0]), lse(call.results[1]);
  for_each_head(z, call.threads, [&](std::int64_t b, std::int64_t kv) {
    Scratch<T> scores(kBlock * z.t);
    const Matrix<const T> keys{k.data() + (b * z.t * z.m + kv) * z.d, z.m * z.d, 1};
    const Matrix<const T> keys_turned{keys.data, 1, z.m * z.d};
    const Matrix<const T> values{v.data() + (b * z.t * z.m + kv) * z.e, z.m * z.e, 1};
    for (std::int64_t head = kv * z.group(); head < (kv + 1) * z.group(); ++head)
      for (std::int64_t begin = 0; begin < z.s; begin += kBlock) {
        const std::int64_t rows = std::min(kBlock, z.s - begin);
        const std::int64_t seen = z.keys(begin + rows - 1);
        const std::int64_t query = (b * z.s + begin) * z.n + head;
        gemm(rows, seen, z.d, scale, Matrix<const T>{q.data() + query * z.d, z.n * z.d, 1}, keys_turned, T(0),
             Matrix<T>{scores.data(), z.t, 1}, 1);
        for (std::int64_t i = 0; i < rows; ++i) {
          T* __restrict row = scores.data() + i * z.t;
          const std::int64_t visible = z.keys(begin + i);
          T most = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : most)
          for (std::int64_t j = 0; j < visible; ++j) most = row[j] > most ? row[j] : most;
          T total = 0;
#pragma omp simd reduction(+ : total)
          for (std::int64_t j = 0; j < visible; ++j) {
            row[j] = fast_exp(row[j] - most);
            total += row[j];
          }
          const T factor = T(1) / total;
          for (std::int64_t j = 0; j < visible; ++j) row[j] *= factor;
          std::fill(row + visible, row + seen, T(0));
          lse[query + i * z.n] = most + std::log(total);
        }
        gemm(rows, z.e, seen, T(1), Matrix<const T>{scores.data(), z.t, 1}, values, T(0), Matrix<T>{o.data() + query * z.e, z.n * z.e, 1},
             1);
      }
  });
}

template <class T>
void backward(const KernelCall& call) {
  const Sizes z(call);
  const T scale = static_cast<T>(attrs_of<AttentionAttrs>(call).scale);
  const In<T> q(call.operands[0]), k(call.operands[1]), v(call.operands[2]), o(call.operands[3]), lse(call.operands[4]),
      grad(call.operands[5]);
  Out<T> dq(call.results[0]), dk(call.results[1]), dv(call.results[2]);
  std::fill_n(dk.data(), dk.size(), T(0));
  std::fill_n(dv.data(), dv.size(), T(0));
  for_each_head(z, call.threads, [&](std::int64_t b, std::int64_t kv) {
    Scratch<T> weights(kBlock * z.t), slopes(kBlock * z.t);
    const std::int64_t key = b * z.t * z.m + kv;
    const std::int64_t step_d = z.m * z.d, step_e = z.m * z.e;
    for (std::int64_t head = kv * z.group(); head < (kv + 1) * z.group(); ++head)
      for (std::int64_t begin = 0; begin < z.s; begin += kBlock) {
        const std::int64_t rows = std::min(kBlock, z.s - begin);
        const std::int64_t seen = z.keys(begin + rows - 1);
        const std::int64_t query = (b * z.s + begin) * z.n + head;
        const Matrix<const T> queries{q.data() + query * z.d, z.n * z.d, 1};
        const Matrix<const T> gradients{grad.data() + query * z.e, z.n * z.e, 1};
        gemm(rows, seen, z.d, scale, queries, {k.data() + key * z.d, 1, step_d}, T(0), Matrix<T>{weights.data(), z.t, 1}, 1);
        gemm(rows, seen, z.e, T(1), gradients, {v.data() + key * z.e, 1, step_e}, T(0), Matrix<T>{slopes.data(), z.t, 1}, 1);
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int64_t at = query + i * z.n;
          const T* __restrict result = o.data() + at * z.e;
          const T* __restrict g = grad.data() + at * z.e;
          T along = 0;
#pragma omp simd reduction(+ : along)
          for (std::int64_t j = 0; j < z.e; ++j) along += g[j] * result[j];
          T* __restrict weight = weights.data() + i * z.t;
          T* __restrict slope = slopes.data() + i * z.t;
          const std::int64_t visible = z.keys(begin + i);
          const T total = lse[at];
          for (std::int64_t j = 0; j < visible; ++j) {
            weight[j] = fast_exp(weight[j] - total);
            slope[j] = scale * weight[j] * (slope[j] - along);
          }
          std::fill(weight + visible, weight + seen, T(0));
          std::fill(slope + visible, slope + seen, T(0));
        }
        const Matrix<const T> weight_turned{weights.data(), 1, z.t};
        const Matrix<const T> slope{slopes.data(), z.t, 1}, slope_turned{slopes.data(), 1, z.t};
        gemm(seen, z.e, rows, T(1), weight_turned, gradients, T(1), Matrix<T>{dv.data() + key * z.e, step_e, 1}, 1);
        gemm(rows, z.d, seen, T(1), slope, {k.data() + key * z.d, step_d, 1}, T(0), Matrix<T>{dq.data() + query * z.d, z.n * z.d, 1}, 1);
        gemm(seen, z.d, rows, T(1), slope_turned, queries, T(1), Matrix<T>{dk.data() + key * z.d, step_d, 1}, 1);
      }
  });
}

}  // namespace

void rope(const KernelCall& call) {
  const RopeAttrs& attrs = attrs_of<RopeAttrs>(call);
  const Shape& shape = call.operands[0].shape;
  const std::int64_t half = shape[3] / 2;
  const std::int64_t first = operand_origin(call, 0, 1);
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> x(call.operands[0]);
    Out<T> y(call.results[0]);
    Scratch<T> table(2 * half);
    T* __restrict cosine = table.data();
    T* __restrict sine = table.data() + half;
    for (std::int64_t s = 0; s < shape[1]; ++s) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(first + s) * rope_speed(attrs, i, half);
        cosine[i] = static_cast<T>(std::cos(angle));
        sine[i] = static_cast<T>(attrs.inverse ? -std::sin(angle) : std::sin(angle));
      }
      for (std::int64_t b = 0; b < shape[0]; ++b)
        for (std::int64_t n = 0; n < shape[2]; ++n) {
          const std::int64_t at = ((b * shape[1] + s) * shape[2] + n) * shape[3];
          const T* __restrict from = x.data() + at;
          T* __restrict to = y.data() + at;
          for (std::int64_t i = 0; i < half; ++i) {
            to[i] = from[i] * cosine[i] - from[i + half] * sine[i];
            to[i + half] = from[i + half] * cosine[i] + from[i] * sine[i];
          }
        }
    }
  });
}

void attention(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() { forward<T>(call); });
}

void attention_bi(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() { backward<T>(call); });
}

}  // namespace skirl::cpu
