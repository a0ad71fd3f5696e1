#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/cpu/kernels/gemm.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/math.h"
#include "runtime/cpu/kernels/operands.h"
#include "runtime/cpu/kernels/team.h"

namespace skirl::cpu {
namespace {

/// Queries that are worked on together: their scores stay in cache, and the keys that none of them sees are left out.
constexpr std::int64_t kBlock = 64;

/// Rows that are side by side in memory and in the whole sequence.
struct Run {
  std::int64_t begin;  // local row
  std::int64_t size;
  std::int64_t at;  // position of the first row in the whole
};

/// Queries side by side, and the keys that they see, but for the causal mask.
struct Sight {
  Run queries;
  std::vector<Run> keys;
};

/// The rows that a device holds of some intervals of the whole.
std::vector<Run> runs_within(const Positions& held, std::span<const Interval> wanted) {
  std::vector<Run> runs;
  std::int64_t before = 0;
  for (const Interval& own : held.intervals()) {
    for (const Interval& interval : wanted) {
      const std::int64_t begin = std::max(own.begin, interval.begin), end = std::min(own.end, interval.end);
      if (begin < end) runs.push_back({before + begin - own.begin, end - begin, begin});
    }
    before += own.size();
  }
  return runs;
}

/// Local sizes of q [b s n d], k [b t m d], v [b t m e], and which keys a query sees.
struct Sizes {
  std::int64_t b, s, n, d, t, m, e;
  bool causal;
  double scale;
  std::vector<Sight> sights;  // every query is in one

  explicit Sizes(const KernelCall& call) {
    const Shape& q = call.operands[0].shape;
    const Shape& v = call.operands[2].shape;
    b = q[0], s = q[1], n = q[2], d = q[3], t = v[1], m = v[2], e = v[3];
    const Positions queries = operand_positions(call, 0, 1), keys = operand_positions(call, 1, 1);
    if (const auto* attrs = std::get_if<AttentionPieceAttrs>(call.attrs)) {
      causal = attrs->causal, scale = attrs->scale;
      const std::size_t count = attrs->pieces.size();
      for (std::size_t c = 0; c < count; ++c)
        add(queries, attrs->pieces[c], keys, attrs->pieces[(c + static_cast<std::size_t>(attrs->turn)) % count]);
    } else {
      causal = attrs_of<AttentionAttrs>(call).causal, scale = attrs_of<AttentionAttrs>(call).scale;
      const Interval all{0, std::numeric_limits<std::int64_t>::max()};
      add(queries, {&all, 1}, keys, {&all, 1});
    }
  }
  std::int64_t group() const { return n / m; }
  /// How many keys of a run the query at this position sees.
  std::int64_t visible(const Run& keys, std::int64_t query) const {
    return causal ? std::clamp<std::int64_t>(query - keys.at + 1, 0, keys.size) : keys.size;
  }

 private:
  void add(const Positions& queries, std::span<const Interval> own, const Positions& keys, std::span<const Interval> other) {
    const std::vector<Run> seen = runs_within(keys, other);
    for (const Run& run : runs_within(queries, own)) sights.push_back({run, seen});
  }
};

/// A block of queries, and what it sees of each run of keys: as columns of its scores, one run after another.
struct Block {
  struct Columns {
    std::int64_t first;  // column
    std::int64_t size;   // what the last query of the block sees; 0: left out
    Run keys;
  };
  std::int64_t begin;  // local row
  std::int64_t rows;
  std::int64_t at;  // position of the first query
  std::vector<Columns> columns;
};

/// Calls f(block) for blocks that have each query once.
template <class F>
void for_each_block(const Sizes& z, F f) {
  Block block;
  for (const Sight& sight : z.sights)
    for (std::int64_t first = 0; first < sight.queries.size; first += kBlock) {
      block.begin = sight.queries.begin + first;
      block.rows = std::min(kBlock, sight.queries.size - first);
      block.at = sight.queries.at + first;
      block.columns.clear();
      std::int64_t column = 0;
      for (const Run& keys : sight.keys) {
        const std::int64_t seen = z.visible(keys, block.at + block.rows - 1);
        if (seen > 0) block.columns.push_back({column, seen, keys});
        column += seen;
      }
      f(block);
    }
}

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

/// Rows of zeros in a matrix.
template <class T>
void clear_rows(Matrix<T> to, std::int64_t rows, std::int64_t width) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(to.data + i * to.row, width, T(0));
}

/// Turns the scores of a row into weights that sum to 1, and what it does not see of the block's columns into 0; gives the log of the sum
/// of the exponentials, −inf where it sees nothing.
template <class T>
T softmax(const Sizes& z, const Block& block, T* scores, std::int64_t query) {
  T most = -std::numeric_limits<T>::infinity();
  for (const Block::Columns& columns : block.columns) {
    const T* __restrict row = scores + columns.first;
    const std::int64_t visible = z.visible(columns.keys, query);
#pragma omp simd reduction(max : most)
    for (std::int64_t j = 0; j < visible; ++j) most = row[j] > most ? row[j] : most;
  }
  T total = 0;
  for (const Block::Columns& columns : block.columns) {
    T* __restrict row = scores + columns.first;
    const std::int64_t visible = z.visible(columns.keys, query);
#pragma omp simd reduction(+ : total)
    for (std::int64_t j = 0; j < visible; ++j) {
      row[j] = fast_exp(row[j] - most);
      total += row[j];
    }
    std::fill(row + visible, row + columns.size, T(0));
  }
  if (total == T(0)) return -std::numeric_limits<T>::infinity();
  const T factor = T(1) / total;
  for (const Block::Columns& columns : block.columns) {
    T* __restrict row = scores + columns.first;
    const std::int64_t visible = z.visible(columns.keys, query);
    for (std::int64_t j = 0; j < visible; ++j) row[j] *= factor;
  }
  return most + std::log(total);
}

template <class T>
void forward(const KernelCall& call) {
  const Sizes z(call);
  const T scale = static_cast<T>(z.scale);
  const In<T> q(call.operands[0]), k(call.operands[1]), v(call.operands[2]);
  Out<T> o(call.results[0]), lse(call.results[1]);
  for_each_head(z, call.threads, [&](std::int64_t b, std::int64_t kv) {
    Scratch<T> scores(kBlock * z.t);
    const std::int64_t key = b * z.t * z.m + kv;
    const std::int64_t step_d = z.m * z.d, step_e = z.m * z.e;
    for (std::int64_t head = kv * z.group(); head < (kv + 1) * z.group(); ++head)
      for_each_block(z, [&](const Block& block) {
        const std::int64_t query = (b * z.s + block.begin) * z.n + head;
        const Matrix<const T> queries{q.data() + query * z.d, z.n * z.d, 1};
        const Matrix<T> result{o.data() + query * z.e, z.n * z.e, 1};
        for (const auto& [first, size, keys] : block.columns)
          gemm(block.rows, size, z.d, scale, queries, {k.data() + (key + keys.begin * z.m) * z.d, 1, step_d}, T(0),
               Matrix<T>{scores.data() + first, z.t, 1}, 1);
        for (std::int64_t i = 0; i < block.rows; ++i) lse[query + i * z.n] = softmax(z, block, scores.data() + i * z.t, block.at + i);
        if (block.columns.empty()) clear_rows(result, block.rows, z.e);
        for (const auto& [first, size, keys] : block.columns)
          gemm(block.rows, z.e, size, T(1), Matrix<const T>{scores.data() + first, z.t, 1},
               Matrix<const T>{v.data() + (key + keys.begin * z.m) * z.e, step_e, 1}, first == 0 ? T(0) : T(1), result, 1);
      });
  });
}

template <class T>
void backward(const KernelCall& call) {
  const Sizes z(call);
  const T scale = static_cast<T>(z.scale);
  const In<T> q(call.operands[0]), k(call.operands[1]), v(call.operands[2]), o(call.operands[3]), lse(call.operands[4]),
      grad(call.operands[5]);
  Out<T> dq(call.results[0]), dk(call.results[1]), dv(call.results[2]);
  std::fill_n(dk.data(), dk.size(), T(0));
  std::fill_n(dv.data(), dv.size(), T(0));
  for_each_head(z, call.threads, [&](std::int64_t b, std::int64_t kv) {
    Scratch<T> weights(kBlock * z.t), slopes(kBlock * z.t);
    const std::int64_t step_d = z.m * z.d, step_e = z.m * z.e;
    for (std::int64_t head = kv * z.group(); head < (kv + 1) * z.group(); ++head)
      for_each_block(z, [&](const Block& block) {
        const std::int64_t query = (b * z.s + block.begin) * z.n + head;
        const Matrix<const T> queries{q.data() + query * z.d, z.n * z.d, 1};
        const Matrix<const T> gradients{grad.data() + query * z.e, z.n * z.e, 1};
        const Matrix<T> dqueries{dq.data() + query * z.d, z.n * z.d, 1};
        if (block.columns.empty()) clear_rows(dqueries, block.rows, z.d);
        for (const auto& columns : block.columns) {
          const std::int64_t rows = block.rows, seen = columns.size;
          const std::int64_t key = (b * z.t + columns.keys.begin) * z.m + kv;
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
            const std::int64_t visible = z.visible(columns.keys, block.at + i);
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
          gemm(rows, z.d, seen, T(1), slope, {k.data() + key * z.d, step_d, 1}, columns.first == 0 ? T(0) : T(1), dqueries, 1);
          gemm(seen, z.d, rows, T(1), slope_turned, queries, T(1), Matrix<T>{dk.data() + key * z.d, step_d, 1}, 1);
        }
      });
  });
}

template <class T>
void merge(const KernelCall& call) {
  const std::int64_t width = last_dim(call.results[0]);
  Out<T> o(call.results[0]), lse(call.results[1]);
  const std::int64_t rows = lse.size();
  constexpr T kInfinite = std::numeric_limits<T>::infinity();
  Scratch<T> totals(rows);
  std::fill_n(lse.data(), rows, -kInfinite);
  std::fill_n(totals.data(), rows, T(0));
  std::fill_n(o.data(), o.size(), T(0));
  for (std::size_t i = 1; i < call.operands.size(); i += 2) {
    const In<T> part(call.operands[i]);
    for (std::int64_t r = 0; r < rows; ++r) lse[r] = std::max(lse[r], part[r]);
  }
  for (std::size_t i = 0; i < call.operands.size(); i += 2) {
    const In<T> values(call.operands[i]), part(call.operands[i + 1]);
    for (std::int64_t r = 0; r < rows; ++r) {
      if (part[r] == -kInfinite) continue;
      const T weight = std::exp(part[r] - lse[r]);
      totals[r] += weight;
      const T* __restrict from = values.data() + r * width;
      T* __restrict to = o.data() + r * width;
      for (std::int64_t c = 0; c < width; ++c) to[c] += weight * from[c];
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    if (totals[r] == T(0)) continue;  // no piece sees a key
    const T factor = T(1) / totals[r];
    T* __restrict to = o.data() + r * width;
    for (std::int64_t c = 0; c < width; ++c) to[c] *= factor;
    lse[r] += std::log(totals[r]);
  }
}

}  // namespace

void rope(const KernelCall& call) {
  const RopeAttrs& attrs = attrs_of<RopeAttrs>(call);
  const Shape& shape = call.operands[0].shape;
  const std::int64_t half = shape[3] / 2;
  const Positions position = operand_positions(call, 0, 1);
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> x(call.operands[0]);
    Out<T> y(call.results[0]);
    Scratch<T> table(2 * half);
    T* __restrict cosine = table.data();
    T* __restrict sine = table.data() + half;
    for (std::int64_t s = 0; s < shape[1]; ++s) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position[s]) * rope_speed(attrs, i, half);
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

void attention_merge(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() { merge<T>(call); });
}

}  // namespace skirl::cpu
