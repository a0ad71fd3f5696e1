#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/cpu/kernels/gemm.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/operands.h"

namespace skirl::cpu {
namespace {

enum Tensor : std::size_t { A, B, C };

/// A letter of the spec: its size, and its stride in a, b and the result (0 where it does not stand).
struct Letter {
  std::int64_t size = 1;
  std::array<std::int64_t, 3> stride{};
};
using Letters = std::vector<Letter>;

/// The spec as one batch of products: c[batch, rows, columns] = Σ a[batch, rows, inner] b[batch, inner, columns].
struct Product {
  Letters batch, rows, columns, inner;
};

std::int64_t count(const Letters& letters) {
  std::int64_t n = 1;
  for (const Letter& letter : letters) n *= letter.size;
  return n;
}

Product read(const KernelCall& call) {
  const std::string_view spec = attrs_of<EinsumAttrs>(call).spec;
  const std::size_t comma = spec.find(','), arrow = spec.find("->");
  const std::array<std::string_view, 3> parts = {spec.substr(0, comma), spec.substr(comma + 1, arrow - comma - 1), spec.substr(arrow + 2)};
  const auto letter = [&](char c) {
    Letter result;
    for (std::size_t t = A; t <= C; ++t) {
      const std::size_t at = parts[t].find(c);
      if (at == std::string_view::npos) continue;
      const Shape& shape = t == C ? call.results[0].shape : call.operands[t].shape;
      result.size = shape[at];
      result.stride[t] = 1;
      for (std::size_t d = at + 1; d < shape.size(); ++d) result.stride[t] *= shape[d];
    }
    return result;
  };
  Product product;
  for (const char c : parts[C]) {
    const bool in_a = parts[A].find(c) != std::string_view::npos;
    const bool in_b = parts[B].find(c) != std::string_view::npos;
    (in_a && in_b ? product.batch : in_a ? product.rows : product.columns).push_back(letter(c));
  }
  for (const char c : parts[A])
    if (parts[C].find(c) == std::string_view::npos) product.inner.push_back(letter(c));
  for (Letters* letters : {&product.batch, &product.rows, &product.columns, &product.inner})
    std::erase_if(*letters, [](const Letter& l) { return l.size == 1; });
  return product;
}

/// The one stride of a group of letters that lie in one another, innermost last; 0 where they do not. A group of no letters has stride 1.
std::int64_t stride_of(const Letters& letters, std::size_t tensor) {
  if (letters.empty()) return 1;
  for (std::size_t i = 1; i < letters.size(); ++i)
    if (letters[i - 1].stride[tensor] != letters[i].stride[tensor] * letters[i].size) return 0;
  return letters.back().stride[tensor];
}

/// Offsets of all points of a group, in order.
std::vector<std::int64_t> offsets(const Letters& letters, std::size_t tensor) {
  std::vector<std::int64_t> all = {0};
  for (const Letter& letter : letters) {
    std::vector<std::int64_t> next;
    next.reserve(all.size() * static_cast<std::size_t>(letter.size));
    for (const std::int64_t offset : all)
      for (std::int64_t i = 0; i < letter.size; ++i) next.push_back(offset + i * letter.stride[tensor]);
    all = std::move(next);
  }
  return all;
}

/// Whether a matrix of these two groups can be given to gemm as it lies.
bool lies_well(const Letters& outer, const Letters& inner, std::size_t tensor) {
  const std::int64_t row = stride_of(outer, tensor), column = stride_of(inner, tensor);
  if (row == 0 || column == 0) return false;
  if (outer.empty() || inner.empty()) return tensor != C || inner.empty() || column == 1;
  return column == 1 || (tensor != C && row == 1);
}

template <class T>
void copy_points(const T* __restrict from, T* __restrict to, const std::vector<std::int64_t>& outer, const std::vector<std::int64_t>& inner,
                 bool pack) {
  const auto n = static_cast<std::int64_t>(inner.size());
  for (std::size_t o = 0; o < outer.size(); ++o)
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t packed = static_cast<std::int64_t>(o) * n + i;
      const std::int64_t loose = outer[o] + inner[static_cast<std::size_t>(i)];
      if (pack)
        to[packed] = from[loose];
      else
        to[loose] = from[packed];
    }
}

/// An operand's matrices: as they lie, or packed one after another.
template <class T>
struct Source {
  Matrix<const T> matrix;
  std::vector<std::int64_t> starts;

  Source(const T* data, const Product& p, const Letters& outer, const Letters& inner, std::size_t tensor, Scratch<T>& packed)
      : matrix{data, stride_of(outer, tensor), stride_of(inner, tensor)}, starts(offsets(p.batch, tensor)) {
    if (lies_well(outer, inner, tensor)) return;
    Letters all = p.batch;
    all.insert(all.end(), outer.begin(), outer.end());
    copy_points(data, packed.data(), offsets(all, tensor), offsets(inner, tensor), true);
    matrix = {packed.data(), count(inner), 1};
    for (std::size_t i = 0; i < starts.size(); ++i) starts[i] = static_cast<std::int64_t>(i) * count(outer) * count(inner);
  }
};

template <class T>
void multiply(const KernelCall& call) {
  Product p = read(call);
  // c is not taken transposed; c' = b' a' is the same product
  const bool swap = !lies_well(p.rows, p.columns, C) && lies_well(p.columns, p.rows, C);
  const std::size_t left = swap ? B : A, right = swap ? A : B;
  if (swap) std::swap(p.rows, p.columns);
  // the inner letters may stand in any order: that of the operand of which more would have to be packed
  if (stride_of(p.inner, right) == 0) {
    Letters other = p.inner;
    std::sort(other.begin(), other.end(), [&](const Letter& x, const Letter& y) { return x.stride[right] > y.stride[right]; });
    if (!lies_well(p.rows, p.inner, left) || (count(p.columns) > count(p.rows) && lies_well(other, p.columns, right))) p.inner = other;
  }
  const std::int64_t m = count(p.rows), n = count(p.columns), k = count(p.inner), batch = count(p.batch);

  const In<T> a(call.operands[left]), b(call.operands[right]);
  Out<T> c(call.results[0]);
  if (c.size() == 0) return;
  Scratch<T> packed_a(lies_well(p.rows, p.inner, left) ? 0 : a.size()), packed_b(lies_well(p.inner, p.columns, right) ? 0 : b.size());
  const Source<T> from_a(a.data(), p, p.rows, p.inner, left, packed_a);
  const Source<T> from_b(b.data(), p, p.inner, p.columns, right, packed_b);
  const bool in_place = lies_well(p.rows, p.columns, C);
  Scratch<T> packed_c(in_place ? 0 : c.size());
  T* to = in_place ? c.data() : packed_c.data();
  const std::vector<std::int64_t> starts = offsets(p.batch, C);
  const std::int64_t row = in_place ? std::max(stride_of(p.rows, C), n) : n;
  for (std::int64_t i = 0; i < batch; ++i) {
    const auto at = static_cast<std::size_t>(i);
    gemm(m, n, k, T(1), {from_a.matrix.data + from_a.starts[at], from_a.matrix.row, from_a.matrix.column},
         {from_b.matrix.data + from_b.starts[at], from_b.matrix.row, from_b.matrix.column}, T(0),
         {to + (in_place ? starts[at] : i * m * n), row, 1}, call.threads);
  }
  if (in_place) return;
  Letters outer = p.batch;
  outer.insert(outer.end(), p.rows.begin(), p.rows.end());
  copy_points<T>(packed_c.data(), c.data(), offsets(outer, C), offsets(p.columns, C), false);
}

}  // namespace

void einsum(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() { multiply<T>(call); });
}

}  // namespace skirl::cpu
