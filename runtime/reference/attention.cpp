#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/reference/kernels.h"
#include "runtime/reference/operands.h"

namespace skirl::reference {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

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

/// Which keys a query sees: all, or those up to its own position; of attention_piece, those of one piece.
class Sight {
 public:
  explicit Sight(const KernelCall& call) {
    if (const auto* piece = std::get_if<AttentionPieceAttrs>(call.attrs)) {
      causal_ = piece->causal;
      scale_ = piece->scale;
      queries_ = rows(call, 0, piece->pieces);
      keys_ = rows(call, 1, piece->pieces);
      const std::size_t count = piece->pieces.size();
      for (Row& query : queries_) query.piece = (query.piece + static_cast<std::size_t>(piece->turn)) % count;  // where it looks
    } else {
      causal_ = attrs_of<AttentionAttrs>(call).causal;
      scale_ = attrs_of<AttentionAttrs>(call).scale;
      queries_ = rows(call, 0, {});
      keys_ = rows(call, 1, {});
    }
  }

  double scale() const { return scale_; }
  /// Of local rows.
  bool sees(std::int64_t query, std::int64_t key) const {
    const Row& q = queries_[static_cast<std::size_t>(query)];
    const Row& k = keys_[static_cast<std::size_t>(key)];
    return q.piece == k.piece && (!causal_ || k.at <= q.at);
  }

 private:
  struct Row {
    std::int64_t at;  // position in the whole
    std::size_t piece;
  };

  static std::vector<Row> rows(const KernelCall& call, std::size_t operand, const IntervalTable& pieces) {
    const Positions held = operand_positions(call, operand, 1);
    std::vector<Row> rows;
    for (std::int64_t i = 0; i < call.operands[operand].shape[1]; ++i) {
      Row row{held[i], 0};
      while (row.piece < pieces.size() && Positions(std::span<const Interval>(pieces[row.piece])).local(row.at) < 0) ++row.piece;
      rows.push_back(row);
    }
    return rows;
  }

  std::vector<Row> queries_;
  std::vector<Row> keys_;
  bool causal_ = false;
  double scale_ = 1;
};

}  // namespace

void rope(const KernelCall& call) {
  const RopeAttrs& attrs = attrs_of<RopeAttrs>(call);
  const Shape& shape = call.operands[0].shape;
  const std::int64_t half = shape[3] / 2;
  const Positions position = operand_positions(call, 0, 1);
  const Doubles x(call.operands[0]);
  DoubleResult y(call.results[0]);
  for (std::int64_t s = 0; s < shape[1]; ++s)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position[s]) * rope_speed(attrs, i, half);
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
  const Sight sight(call);
  const double scale = sight.scale();
  const Doubles q(call.operands[0]), k(call.operands[1]), v(call.operands[2]);
  DoubleResult o(call.results[0]), lse(call.results[1]);
  const std::int64_t group = z.m == 0 ? 1 : z.n / z.m;
  std::vector<double> weight(static_cast<std::size_t>(z.t));
  for (std::int64_t b = 0; b < z.b; ++b)
    for (std::int64_t i = 0; i < z.s; ++i)
      for (std::int64_t n = 0; n < z.n; ++n) {
        const std::int64_t query = (b * z.s + i) * z.n + n;
        const auto key = [&](std::int64_t j) { return (b * z.t + j) * z.m + n / group; };
        double most = -kInfinite;
        for (std::int64_t j = 0; j < z.t; ++j) {
          double& w = weight[static_cast<std::size_t>(j)];
          w = sight.sees(i, j) ? scale * dot(q.data() + query * z.d, k.data() + key(j) * z.d, z.d) : -kInfinite;
          most = std::max(most, w);
        }
        lse[query] = most;
        if (most == -kInfinite) continue;  // sees no key
        double total = 0;
        for (double& w : weight) total += w = std::exp(w - most);
        for (std::int64_t j = 0; j < z.t; ++j)
          add_scaled(o.data() + query * z.e, weight[static_cast<std::size_t>(j)] / total, v.data() + key(j) * z.e, z.e);
        lse[query] += std::log(total);
      }
}

void attention_bi(const KernelCall& call) {
  const Sizes z(call);
  const Sight sight(call);
  const double scale = sight.scale();
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
        for (std::int64_t j = 0; j < z.t; ++j) {
          if (!sight.sees(i, j)) continue;
          const std::int64_t key = (b * z.t + j) * z.m + n / group;
          const double weight = std::exp(scale * dot(q.data() + query * z.d, k.data() + key * z.d, z.d) - lse[query]);
          const double slope = scale * weight * (dot(g, v.data() + key * z.e, z.e) - along);
          add_scaled(dv.data() + key * z.e, weight, g, z.e);
          add_scaled(dq.data() + query * z.d, slope, k.data() + key * z.d, z.d);
          add_scaled(dk.data() + key * z.d, slope, q.data() + query * z.d, z.d);
        }
      }
}

void attention_merge(const KernelCall& call) {
  const std::int64_t e = last_dim(call.results[0]);
  DoubleResult o(call.results[0]), lse(call.results[1]);
  std::vector<double> most(static_cast<std::size_t>(lse.size()), -kInfinite);
  for (std::size_t i = 1; i < call.operands.size(); i += 2) {
    const Doubles part(call.operands[i]);
    for (std::int64_t r = 0; r < lse.size(); ++r) most[static_cast<std::size_t>(r)] = std::max(most[static_cast<std::size_t>(r)], part[r]);
  }
  for (std::size_t i = 0; i < call.operands.size(); i += 2) {
    const Doubles values(call.operands[i]), part(call.operands[i + 1]);
    for (std::int64_t r = 0; r < lse.size(); ++r) {
      if (part[r] == -kInfinite) continue;
      const double weight = std::exp(part[r] - most[static_cast<std::size_t>(r)]);
      lse[r] += weight;
      add_scaled(o.data() + r * e, weight, values.data() + r * e, e);
    }
  }
  for (std::int64_t r = 0; r < lse.size(); ++r) {
    if (lse[r] > 0)
      for (std::int64_t i = 0; i < e; ++i) o[r * e + i] /= lse[r];
    lse[r] = most[static_cast<std::size_t>(r)] + (lse[r] > 0 ? std::log(lse[r]) : 0);
  }
}

}  // namespace skirl::reference
