#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/reference/kernels.h"
#include "runtime/reference/operands.h"

namespace skirl::reference {
namespace {

/// Local sizes of q [b s n d], k [b t m d], v [b t m e].
struct Sizes {
  std::int64_t b, s, n, d, t, m, e;

  explicit Sizes(const KernelCall& call) {
    const Shape& q = call.operands[0].shape;
    const Shape& v = call.operands[2].shape;
    b = q[0], s = q[1], n = q[2], d = q[3], t = v[1], m = v[2], e = v[3];
  }
};

double dot(const double* __restrict x, const double* __restrict y, std::int64_t size) {
  double total = 0;
  for (std::int64_t i = 0; i < size; ++i) total += x[i] * y[i];
  return total;
}

void add_scaled(double* __restrict to, double factor, const double* __restrict x, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) to[i] += factor * x[i];
}

/// Keys that the query in local row i sees: all, or those up to its own position.
std::int64_t visible_keys(const KernelCall& call, std::int64_t i, std::int64_t t) {
  if (!attrs_of<AttentionAttrs>(call).causal) return t;
  return std::min(t, operand_origin(call, 0, 1) + i + 1);
}

}  // namespace

void rope(const KernelCall& call) {
  const RopeAttrs& attrs = attrs_of<RopeAttrs>(call);
  const Shape& shape = call.operands[0].shape;
  const std::int64_t half = shape[3] / 2;
  const std::int64_t first = operand_origin(call, 0, 1);
  const Doubles x(call.operands[0]);
  DoubleResult y(call.results[0]);
  for (std::int64_t s = 0; s < shape[1]; ++s)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(first + s) * rope_speed(attrs, i, half);
      const double cosine = std::cos(angle);
      const double sine = attrs.inverse ? -std::sin(angle) : std::sin(angle);
      for (std::int64_t b = 0; b < shape[0]; ++b)
        for (std::int64_t n = 0; n < shape[2]; ++n) {
          const std::int64_t at = ((b * shape[1] + s) * shape[2] + n) * shape[3] + i;
          y[at] = x[at] * cosine - x[at + half] * sine;
          y[at + half] = x[at + half] * cosine + x[at] * sine;
        }
    }
}

void attention(const KernelCall& call) {
  const Sizes z(call);
  const double scale = attrs_of<AttentionAttrs>(call).scale;
  const Doubles q(call.operands[0]), k(call.operands[1]), v(call.operands[2]);
  DoubleResult o(call.results[0]), lse(call.results[1]);
  const std::int64_t group = z.m == 0 ? 1 : z.n / z.m;
  std::vector<double> weight(static_cast<std::size_t>(z.t));
  for (std::int64_t b = 0; b < z.b; ++b)
    for (std::int64_t i = 0; i < z.s; ++i)
      for (std::int64_t n = 0; n < z.n; ++n) {
        const std::int64_t query = (b * z.s + i) * z.n + n;
        const std::int64_t keys = visible_keys(call, i, z.t);
        const auto key = [&](std::int64_t j) { return (b * z.t + j) * z.m + n / group; };
        double most = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = 0; j < keys; ++j) {
          weight[static_cast<std::size_t>(j)] = scale * dot(q.data() + query * z.d, k.data() + key(j) * z.d, z.d);
          most = std::max(most, weight[static_cast<std::size_t>(j)]);
        }
        double total = 0;
        for (std::int64_t j = 0; j < keys; ++j)
          total += weight[static_cast<std::size_t>(j)] = std::exp(weight[static_cast<std::size_t>(j)] - most);
        for (std::int64_t j = 0; j < keys; ++j)
          add_scaled(o.data() + query * z.e, weight[static_cast<std::size_t>(j)] / total, v.data() + key(j) * z.e, z.e);
        lse[query] = most + std::log(total);
      }
}

void attention_bi(const KernelCall& call) {
  const Sizes z(call);
  const double scale = attrs_of<AttentionAttrs>(call).scale;
  const Doubles q(call.operands[0]), k(call.operands[1]), v(call.operands[2]), o(call.operands[3]), lse(call.operands[4]),
      grad(call.operands[5]);
  DoubleResult dq(call.results[0]), dk(call.results[1]), dv(call.results[2]);
  const std::int64_t group = z.m == 0 ? 1 : z.n / z.m;
  for (std::int64_t b = 0; b < z.b; ++b)
    for (std::int64_t i = 0; i < z.s; ++i)
      for (std::int64_t n = 0; n < z.n; ++n) {
        const std::int64_t query = (b * z.s + i) * z.n + n;
        const double* g = grad.data() + query * z.e;
        const double along = dot(g, o.data() + query * z.e, z.e);
        for (std::int64_t j = 0; j < visible_keys(call, i, z.t); ++j) {
          const std::int64_t key = (b * z.t + j) * z.m + n / group;
          const double weight = std::exp(scale * dot(q.data() + query * z.d, k.data() + key * z.d, z.d) - lse[query]);
          const double slope = scale * weight * (dot(g, v.data() + key * z.e, z.e) - along);
          add_scaled(dv.data() + key * z.e, weight, g, z.e);
          add_scaled(dq.data() + query * z.d, slope, k.data() + key * z.d, z.d);
          add_scaled(dk.data() + key * z.d, slope, q.data() + query * z.d, z.d);
        }
      }
}

}  // namespace skirl::reference
