#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "ir/error.h"
#include "runtime/kernel.h"
#include "runtime/reference/kernels.h"
#include "tests/support/kernel_cases.h"

using namespace skirl;
using namespace skirl::test;

namespace {

/// How wrong a result of this dtype may be, relative to the largest magnitude of the tensor: a few roundings of what it is computed in.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return 1e-13;
    case DType::F32:
      return 3e-6;
    case DType::BF16:
      return 1.0 / 128;
    case DType::F16:
      return 1.0 / 1024;
    default:
      return 0;
  }
}

Tensor random_tensor(const TensorType& type, const KernelCase& c, bool positive, Random& random) {
  Tensor tensor(type.dtype, type.shape);
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < tensor.elems(); ++i) {
    const double x = is_float(type.dtype) ? normal(random) : static_cast<double>(whole(random, 0, c.range - 1));
    tensor.set(i, positive ? std::abs(x) + 0.1 : x);
  }
  return tensor;
}

/// A call set up: the operand tensors, the result types, and the rule at these types.
struct Prepared {
  KernelCase c;
  FactorRule rule;
  std::optional<NodePositions> positions;  // none: all that there is
  std::vector<Tensor> operands;
  std::vector<TensorType> result_types;

  Prepared(KernelCase made, Random& random) : c(std::move(made)) {
    result_types = info(c.op).infer({c.op, c.attrs, c.operands});
    rule = info(c.op).rule({c.op, c.attrs, c.operands, result_types});
    for (std::size_t i = 0; i < c.operands.size(); ++i)
      operands.push_back(random_tensor(c.operands[i], c, std::find(c.positive.begin(), c.positive.end(), i) != c.positive.end(), random));
  }

  /// Dimension `dim` of operand `operand`, and of result 0 if it is as long there, stands at these places of a longer whole.
  void stand_at(std::size_t operand, std::size_t dim, std::vector<Interval> intervals) {
    const auto all = [](const std::vector<TensorType>& types) {
      std::vector<std::vector<std::vector<Interval>>> held;
      for (const TensorType& type : types) {
        held.emplace_back();
        for (const std::int64_t size : type.shape) held.back().push_back({{0, size}});
      }
      return held;
    };
    if (!positions) positions = {all(c.operands), all(result_types)};
    if (dim < result_types[0].shape.size() && result_types[0].shape[dim] == c.operands[operand].shape[dim])
      positions->results[0][dim] = intervals;
    positions->operands[operand][dim] = std::move(intervals);
  }

  /// The results, which held NaN (integers: 77) before.
  std::vector<Tensor> run(const std::function<void(const KernelCall&)>& kernel, int threads = 1) {
    std::vector<Tensor> results;
    for (const TensorType& type : result_types) {
      results.emplace_back(type.dtype, type.shape);
      for (std::int64_t i = 0; i < results.back().elems(); ++i)
        results.back().set(i, is_float(type.dtype) ? std::numeric_limits<double>::quiet_NaN() : 77);
    }
    std::vector<TensorView> operand_views, result_views;
    for (Tensor& tensor : operands) operand_views.push_back(tensor.view());
    for (Tensor& tensor : results) result_views.push_back(tensor.view());
    KernelCall call;
    call.op = c.op;
    call.attrs = &c.attrs;
    call.operands = operand_views;
    call.results = result_views;
    call.name = "node";
    call.seed = 3;
    call.step = 2;
    call.positions = positions ? &*positions : nullptr;
    call.rule = &rule;
    call.threads = threads;
    kernel(call);
    return results;
  }
};

/// The largest difference of two tensors, relative to the largest magnitude of the first; NaN where only one is finite.
double deviation(const Tensor& expected, const Tensor& got) {
  double largest = 1e-30, difference = 0;
  for (std::int64_t i = 0; i < expected.elems(); ++i) {
    if (std::isfinite(expected.get(i))) largest = std::max(largest, std::abs(expected.get(i)));
    if (expected.get(i) == got.get(i)) continue;
    if (!std::isfinite(expected.get(i)) || !std::isfinite(got.get(i))) return std::numeric_limits<double>::quiet_NaN();
    difference = std::max(difference, std::abs(expected.get(i) - got.get(i)));
  }
  return difference / largest;
}

bool has_elements(const Prepared& p) {
  const auto empty = [](const TensorType& type) { return elems(type.shape) == 0; };
  return std::none_of(p.c.operands.begin(), p.c.operands.end(), empty) && !std::all_of(p.result_types.begin(), p.result_types.end(), empty);
}

std::vector<Op> computing_ops() {
  std::vector<Op> ops;
  for (int i = 0; i < kOpCount; ++i)
    if (is_compute(static_cast<Op>(i))) ops.push_back(static_cast<Op>(i));
  return ops;
}

void check_against_reference(Op op, DType dtype, std::int64_t least_dim, int tries, bool with_empty) {
  for (int seed = 0; seed < tries; ++seed) {
    Random random(static_cast<std::uint32_t>(seed) * 100 + static_cast<std::uint32_t>(op));
    Prepared p(kernel_case(op, dtype, least_dim, random), random);
    if (!with_empty && !has_elements(p)) continue;
    const std::vector<Tensor> expected = p.run(reference::run_kernel);
    const std::vector<Tensor> got = p.run(cpu_kernel(op));
    for (std::size_t r = 0; r < expected.size(); ++r) {
      std::string what = std::string(info(op).name) + " seed " + std::to_string(seed) + ", result " + std::to_string(r) + " " +
                         to_string(p.result_types[r]) + " of";
      for (const TensorType& type : p.c.operands) what += " " + to_string(type);
      if (op == Op::Einsum) what += " " + std::get<EinsumAttrs>(p.c.attrs).spec;
      INFO(what);
      CHECK(deviation(expected[r], got[r]) <= std::max(tolerance(dtype), tolerance(p.result_types[r].dtype)));
    }
  }
}

}  // namespace

TEST_CASE("every operator that computes, and no other, has a kernel on the host") {
  for (int i = 0; i < kOpCount; ++i) {
    INFO(info(static_cast<Op>(i)).name);
    CHECK((cpu_kernel(static_cast<Op>(i)) != nullptr) == is_compute(static_cast<Op>(i)));
  }
}

TEST_CASE("kernels of the host equal those of the reference in every float type") {
  for (const Op op : computing_ops())
    for (const DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16})
      check_against_reference(op, dtype, 1, op == Op::Einsum ? 120 : 25, false);
}

TEST_CASE("kernels take tensors with an empty dimension") {
  for (const Op op : computing_ops()) {
    if (op == Op::RowMax || op == Op::LayerNorm || op == Op::Attention || op == Op::AttentionBI)
      continue;  // of no elements there is no maximum and no mean
    for (const DType dtype : {DType::F64, DType::F32, DType::BF16}) check_against_reference(op, dtype, 0, 20, true);
  }
}

TEST_CASE("einsum of an empty contraction is zero") {
  for (const DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    Random random(1);
    Prepared p({Op::Einsum, EinsumAttrs{"ab,bc->ac"}, {{dtype, {3, 0}}, {dtype, {0, 2}}}}, random);
    const Tensor result = p.run(cpu_kernel(Op::Einsum))[0];
    for (std::int64_t i = 0; i < 6; ++i) CHECK(result.get(i) == 0);
  }
}

TEST_CASE("a product of real sizes equals the reference, transposed or not, on one thread and on two") {
  const std::map<std::string, Shape> shapes = {{"bsh", {3, 37, 65}}, {"hf", {65, 131}}, {"bsf", {3, 37, 131}}};
  for (const auto& [a, b, c] : std::vector<std::array<std::string, 3>>{{"bsh", "hf", "bsf"}, {"bsf", "hf", "bsh"}, {"bsh", "bsf", "hf"}})
    for (const DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
      Random random(5);
      Prepared p({Op::Einsum, EinsumAttrs{a + "," + b + "->" + c}, {{dtype, shapes.at(a)}, {dtype, shapes.at(b)}}}, random);
      INFO(a << "," << b << "->" << c << " " << name(dtype));
      const Tensor expected = p.run(reference::run_kernel)[0];
      CHECK(deviation(expected, p.run(cpu_kernel(Op::Einsum), 1)[0]) <= tolerance(dtype));
      CHECK(deviation(expected, p.run(cpu_kernel(Op::Einsum), 2)[0]) <= tolerance(dtype));
    }
}

TEST_CASE("rope and dropout of some rows are those rows of the whole") {
  Random random(11);
  for (const Op op : {Op::Rope, Op::Dropout})
    for (const std::vector<Interval>& held : std::vector<std::vector<Interval>>{{{4, 6}}, {{1, 2}, {4, 5}}, {{0, 1}, {2, 3}, {5, 6}}}) {
      Prepared all({op, op == Op::Rope ? Attrs{RopeAttrs{}} : Attrs{DropoutAttrs{0.5}}, {{DType::F32, {1, 6, 2, 4}}}}, random);
      const Tensor expected = all.run(cpu_kernel(op))[0];
      std::vector<std::int64_t> rows;
      for (const Interval& interval : held)
        for (std::int64_t row = interval.begin; row < interval.end; ++row) rows.push_back(row);
      Prepared part({op, all.c.attrs, {{DType::F32, {1, static_cast<std::int64_t>(rows.size()), 2, 4}}}}, random);
      part.stand_at(0, 1, held);
      for (std::size_t r = 0; r < rows.size(); ++r)
        for (std::int64_t i = 0; i < 8; ++i)
          part.operands[0].set(static_cast<std::int64_t>(r) * 8 + i, all.operands[0].get(rows[r] * 8 + i));
      for (const Tensor& got : {part.run(cpu_kernel(op))[0], part.run(reference::run_kernel)[0]})
        for (std::size_t r = 0; r < rows.size(); ++r)
          for (std::int64_t i = 0; i < 8; ++i)
            CHECK(got.get(static_cast<std::int64_t>(r) * 8 + i) == Approx(expected.get(rows[r] * 8 + i)).margin(1e-6));
    }
}

TEST_CASE("causal attention of the last queries sees all keys up to them") {
  Random random(12);
  Prepared all(
      {Op::Attention, AttentionAttrs{true, 0.5}, {{DType::F64, {1, 6, 2, 3}}, {DType::F64, {1, 6, 1, 3}}, {DType::F64, {1, 6, 1, 2}}}},
      random);
  const Tensor expected = all.run(cpu_kernel(Op::Attention))[0];
  Prepared part({Op::Attention, all.c.attrs, {{DType::F64, {1, 2, 2, 3}}, all.c.operands[1], all.c.operands[2]}}, random);
  part.stand_at(0, 1, {{4, 6}});
  for (std::int64_t i = 0; i < 12; ++i) part.operands[0].set(i, all.operands[0].get(24 + i));
  part.operands[1] = all.operands[1];
  part.operands[2] = all.operands[2];
  const Tensor got = part.run(cpu_kernel(Op::Attention))[0];
  for (std::int64_t i = 0; i < 8; ++i) CHECK(std::abs(got.get(i) - expected.get(16 + i)) < 1e-14);
}

TEST_CASE("attention of rows from several places, to keys from several places, is the same on both backends") {
  Random random(13);
  const std::vector<TensorType> forward{{DType::F64, {2, 70, 4, 3}}, {DType::F64, {2, 90, 2, 3}}, {DType::F64, {2, 90, 2, 5}}};
  std::vector<TensorType> backward = forward;
  backward.insert(backward.end(), {{DType::F64, {2, 70, 4, 5}}, {DType::F64, {2, 70, 4}}, {DType::F64, {2, 70, 4, 5}}});
  for (const bool causal : {true, false})
    for (const Op op : {Op::Attention, Op::AttentionBI}) {
      INFO(info(op).name << (causal ? ", causal" : ""));
      Prepared p({op, AttentionAttrs{causal, 0.5}, op == Op::Attention ? forward : backward, 5, {4}}, random);
      p.stand_at(0, 1, {{3, 8}, {20, 80}, {90, 95}});
      p.stand_at(1, 1, {{0, 40}, {60, 110}});
      const std::vector<Tensor> expected = p.run(reference::run_kernel), got = p.run(cpu_kernel(op));
      for (std::size_t r = 0; r < expected.size(); ++r) CHECK(deviation(expected[r], got[r]) <= 1e-13);
    }
}

TEST_CASE("a query that sees no key gets nothing, and its log-sum-exp is that of nothing") {
  const double infinite = std::numeric_limits<double>::infinity();
  const TensorType q{DType::F64, {1, 4, 1, 2}}, row{DType::F64, {1, 4, 1}};
  for (const bool host : {false, true}) {
    const auto kernel = [&](Op op) { return host ? std::function<void(const KernelCall&)>(cpu_kernel(op)) : reference::run_kernel; };
    Random random(14);
    Prepared piece({Op::AttentionPiece, AttentionPieceAttrs{true, 1, {{{0, 1}, {3, 4}}, {{1, 3}}}, 1}, {q, q, q}}, random);
    const std::vector<Tensor> results = piece.run(kernel(Op::AttentionPiece));
    CHECK(results[1].get(0) == -infinite);  // query 0 looks for keys in 1..3, which come later
    CHECK(results[0].get(0) == 0);
    CHECK(results[0].get(1) == 0);
    for (std::int64_t i = 1; i < 4; ++i) CHECK(std::isfinite(results[1].get(i)));  // queries 1 and 2 see key 0, query 3 keys 1 and 2
    Prepared merge({Op::AttentionMerge, NoAttrs{}, {q, row, q, row}}, random);
    for (std::int64_t i = 0; i < 2; ++i) merge.operands[1].set(i, -infinite);  // rows 0 and 1 see nothing in the first piece
    merge.operands[3].set(0, -infinite);                                       // and row 0 nothing in the second
    const std::vector<Tensor> merged = merge.run(kernel(Op::AttentionMerge));
    CHECK(merged[1].get(0) == -infinite);
    CHECK(merged[0].get(0) == 0);
    CHECK(merged[0].get(1) == 0);
    CHECK(merged[1].get(1) == merge.operands[3].get(1));
    CHECK(merged[0].get(2) == merge.operands[2].get(2));
    CHECK(std::isfinite(merged[0].get(4)));
  }
}

TEST_CASE("keys that no query of a piece sees are not touched") {
  Random random(15);
  const TensorType q{DType::F64, {1, 100, 2, 3}}, row{DType::F64, {1, 100, 2}};
  const AttentionPieceAttrs attrs{true, 1, {{{0, 50}}, {{50, 100}}}, 1};  // the first half looks for keys in the second, in vain
  Prepared forward({Op::AttentionPiece, attrs, {q, q, q}}, random);
  Prepared backward({Op::AttentionPieceBI, attrs, {q, q, q, q, row, q}, 5, {4}}, random);
  for (Prepared* p : {&forward, &backward})
    for (const std::size_t operand : {1, 2})
      for (std::int64_t i = 300; i < 600; ++i) p->operands[operand].set(i, std::numeric_limits<double>::quiet_NaN());
  for (const Tensor& result : forward.run(cpu_kernel(Op::AttentionPiece)))
    for (std::int64_t i = 0; i < result.elems(); ++i) CHECK(!std::isnan(result.get(i)));
  const std::vector<Tensor> gradients = backward.run(cpu_kernel(Op::AttentionPieceBI));
  for (std::int64_t i = 0; i < 300; ++i) CHECK(gradients[0].get(i) == 0);
  for (std::int64_t i = 300; i < 600; ++i) CHECK((gradients[1].get(i) == 0 && gradients[2].get(i) == 0));
}

TEST_CASE("an index outside its range is refused, with the range") {
  for (const Op op : {Op::Embedding, Op::EmbeddingBW, Op::SoftmaxXent, Op::SoftmaxXentBI, Op::Pick}) {
    Random random(7);
    Prepared p(kernel_case(op, DType::F32, 1, random), random);
    for (const int index : {5, -3}) {
      p.operands[1].set(0, index);
      INFO(info(op).name);
      CHECK_THROWS_WITH(p.run(cpu_kernel(op)), "index " + std::to_string(index) + " is outside [0, 5)");
      CHECK_THROWS_AS(p.run(cpu_kernel(op)), RunError);
    }
  }
}

TEST_CASE("a sum adds in its accumulate type, in order") {
  Random random(2);
  Prepared p({Op::Sum, SumAttrs{DType::F32}, {{DType::BF16, {1}}, {DType::BF16, {1}}, {DType::BF16, {1}}}}, random);
  p.operands[0].set(0, 256);
  p.operands[1].set(0, 1);
  p.operands[2].set(0, 1);
  CHECK(p.run(cpu_kernel(Op::Sum))[0].get(0) == 258);
  p.c.attrs = SumAttrs{DType::BF16};
  CHECK(p.run(cpu_kernel(Op::Sum))[0].get(0) == 256);  // 257 is rounded away, twice
}
