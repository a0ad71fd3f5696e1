#include <array>
#include <cstring>
#include <string>

#include "runtime/reference/kernels.h"
#include "runtime/reference/operands.h"

namespace skirl::reference {
namespace {

/// A letter of the spec: its size, and its stride in each operand and in the result (0 where it does not occur).
struct Letter {
  std::int64_t size = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_result = 0;
};

/// A loop nest over some letters, outermost first, reading or writing one tensor with these strides.
struct Loops {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;

  std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::int64_t s : sizes) n *= s;
    return n;
  }
  bool contiguous() const {
    std::int64_t expected = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      if (sizes[i] != 1 && strides[i] != expected) return false;
      expected *= sizes[i];
    }
    return true;
  }
};

/// Calls f(offset) for each point of the nest, in order.
template <class F>
void run(const Loops& loops, std::size_t level, std::int64_t offset, F&& f) {
  if (level == loops.sizes.size()) return f(offset);
  for (std::int64_t i = 0; i < loops.sizes[level]; ++i) run(loops, level + 1, offset + i * loops.strides[level], f);
}

/// c[m, n] += a[m, k] · b[k, n], adding in the order of k. Four rows of b at a time, so that a row of c is read and written less often.
void multiply(const double* __restrict a, const double* __restrict b, double* __restrict c, std::int64_t m, std::int64_t k, std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i) {
    double* __restrict row = c + i * n;
    const double* __restrict left = a + i * k;
    std::int64_t l = 0;
    for (; l + 4 <= k; l += 4) {
      const double* __restrict b0 = b + l * n;
      const double* __restrict b1 = b0 + n;
      const double* __restrict b2 = b1 + n;
      const double* __restrict b3 = b2 + n;
      const double a0 = left[l], a1 = left[l + 1], a2 = left[l + 2], a3 = left[l + 3];
      for (std::int64_t j = 0; j < n; ++j) row[j] = (((row[j] + a0 * b0[j]) + a1 * b1[j]) + a2 * b2[j]) + a3 * b3[j];
    }
    for (; l < k; ++l)
      for (std::int64_t j = 0; j < n; ++j) row[j] += left[l] * b[l * n + j];
  }
}

/// The letters of one kind as nests over the three tensors.
struct Group {
  Loops a, b, result;
  void add(const Letter& letter) {
    a.sizes.push_back(letter.size);
    a.strides.push_back(letter.stride_a);
    b.sizes.push_back(letter.size);
    b.strides.push_back(letter.stride_b);
    result.sizes.push_back(letter.size);
    result.strides.push_back(letter.stride_result);
  }
};

Loops joined(const Loops& x, const Loops& y, const Loops& z) {
  Loops all = x;
  for (const Loops* more : {&y, &z}) {
    all.sizes.insert(all.sizes.end(), more->sizes.begin(), more->sizes.end());
    all.strides.insert(all.strides.end(), more->strides.begin(), more->strides.end());
  }
  return all;
}

/// `from` in the order of `kept` and summed over `summed`; in place where it already lies so.
const double* packed(const double* from, const Loops& kept, const Loops& summed, std::vector<double>& storage) {
  if (summed.sizes.empty() && kept.contiguous()) return from;
  storage.resize(static_cast<std::size_t>(kept.count()));
  std::size_t at = 0;
  run(kept, 0, 0, [&](std::int64_t offset) {
    if (summed.sizes.empty()) {
      storage[at++] = from[offset];
      return;
    }
    double total = 0;
    run(summed, 0, offset, [&](std::int64_t inner) { total += from[inner]; });
    storage[at++] = total;
  });
  return storage.data();
}

}  // namespace

void einsum(const KernelCall& call) {
  const std::string& spec = attrs_of<EinsumAttrs>(call).spec;
  const std::size_t comma = spec.find(',');
  const std::size_t arrow = spec.find("->");
  const std::string in_a = spec.substr(0, comma);
  const std::string in_b = spec.substr(comma + 1, arrow - comma - 1);
  const std::string out = spec.substr(arrow + 2);

  std::array<Letter, 128> letters;
  const auto set_strides = [&](const std::string& text, const Shape& shape, std::int64_t Letter::*stride) {
    std::int64_t step = 1;
    for (std::size_t d = text.size(); d-- > 0; step *= shape[d]) {
      letters[static_cast<std::size_t>(text[d])].size = shape[d];
      letters[static_cast<std::size_t>(text[d])].*stride = step;
    }
  };
  set_strides(in_a, call.operands[0].shape, &Letter::stride_a);
  set_strides(in_b, call.operands[1].shape, &Letter::stride_b);
  set_strides(out, call.results[0].shape, &Letter::stride_result);

  Group batch, rows, columns, inner, only_a, only_b;
  for (const char c : out) {
    const bool a = in_a.find(c) != std::string::npos;
    const bool b = in_b.find(c) != std::string::npos;
    (a && b ? batch : a ? rows : columns).add(letters[static_cast<std::size_t>(c)]);
  }
  for (const char c : in_a)
    if (out.find(c) == std::string::npos) (in_b.find(c) != std::string::npos ? inner : only_a).add(letters[static_cast<std::size_t>(c)]);
  for (const char c : in_b)
    if (out.find(c) == std::string::npos && in_a.find(c) == std::string::npos) only_b.add(letters[static_cast<std::size_t>(c)]);

  const Doubles a(call.operands[0]);
  const Doubles b(call.operands[1]);
  DoubleResult result(call.results[0]);
  if (result.size() == 0) return;
  std::vector<double> storage_a, storage_b, storage_c;
  const double* left = packed(a.data(), joined(batch.a, rows.a, inner.a), only_a.a, storage_a);
  const double* right = packed(b.data(), joined(batch.b, inner.b, columns.b), only_b.b, storage_b);
  const Loops order = joined(batch.result, rows.result, columns.result);
  const bool in_place = order.contiguous();
  if (!in_place) storage_c.resize(static_cast<std::size_t>(result.size()));
  double* c = in_place ? result.data() : storage_c.data();

  const std::int64_t m = rows.a.count(), k = inner.a.count(), n = columns.b.count();
  for (std::int64_t i = 0; i < batch.a.count(); ++i) multiply(left + i * m * k, right + i * k * n, c + i * m * n, m, k, n);
  if (in_place) return;
  std::size_t at = 0;
  run(order, 0, 0, [&](std::int64_t offset) { result[offset] = storage_c[at++]; });
}

}  // namespace skirl::reference
