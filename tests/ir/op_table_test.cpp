#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <map>

#include "ir/builder.h"
#include "ir/rules.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

struct Sample {
  Op op;
  Attrs attrs;
  std::vector<TensorType> operands;
};

TensorType f32(Shape shape) { return {DType::F32, std::move(shape)}; }
TensorType f64(Shape shape) { return {DType::F64, std::move(shape)}; }
TensorType bf16(Shape shape) { return {DType::BF16, std::move(shape)}; }
TensorType i64(Shape shape) { return {DType::I64, std::move(shape)}; }

const IntervalTable kZigzag{{{0, 1}, {3, 4}}, {{1, 3}}};

/// Calls of every operator that computes or updates, with zero-sized and rank-0 values among them.
std::vector<Sample> samples() {
  return {
      {Op::Einsum, EinsumAttrs{"bsh,hf->bsf"}, {f32({2, 3, 4}), f32({4, 5})}},
      {Op::Einsum, EinsumAttrs{"bh,bf->hf"}, {f64({0, 4}), f64({0, 5})}},
      {Op::Einsum, EinsumAttrs{",->"}, {f64({}), f64({})}},
      {Op::Add, NoAttrs{}, {f32({2, 3, 4}), f32({4})}},
      {Op::Add, NoAttrs{}, {f32({1, 3}), f32({2, 1})}},
      {Op::Mul, NoAttrs{}, {f32({2, 3}), f32({})}},
      {Op::Mul, NoAttrs{}, {f32({1}), f32({0})}},
      {Op::Scale, ScaleAttrs{3}, {f32({2})}},
      {Op::Tanh, NoAttrs{}, {f32({2, 3})}},
      {Op::TanhGrad, NoAttrs{}, {f32({2, 3}), f32({2, 3})}},
      {Op::Gelu, NoAttrs{}, {bf16({2, 3})}},
      {Op::GeluGrad, NoAttrs{}, {f32({2, 3}), f32({2, 3})}},
      {Op::Silu, NoAttrs{}, {f32({})}},
      {Op::SiluGrad, NoAttrs{}, {f32({2, 3}), f32({2, 3})}},
      {Op::Swiglu, NoAttrs{}, {bf16({2, 3}), bf16({2, 3})}},
      {Op::SwigluGrad, NoAttrs{}, {f32({2, 3}), f32({2, 3}), f32({2, 3})}},
      {Op::SumTo, ShapeAttrs{{1, 3}}, {f32({4, 2, 3})}},
      {Op::SumTo, ShapeAttrs{{}}, {f32({4, 2, 3})}},
      {Op::LayerNorm, NormAttrs{}, {bf16({2, 3, 4}), bf16({4}), bf16({4})}},
      {Op::LayerNormBI, NoAttrs{}, {bf16({2, 3, 4}), bf16({2, 3, 4}), bf16({4}), f32({2, 3}), f32({2, 3})}},
      {Op::LayerNormBW, NoAttrs{}, {f64({2, 3, 4}), f64({2, 3, 4}), f64({2, 3}), f64({2, 3})}},
      {Op::RmsNorm, NormAttrs{}, {f32({4}), f32({4})}},
      {Op::RmsNormBI, NoAttrs{}, {f32({2, 4}), f32({2, 4}), f32({4}), f32({2})}},
      {Op::RmsNormBW, NoAttrs{}, {f32({2, 4}), f32({2, 4}), f32({2})}},
      {Op::RowSum, NoAttrs{}, {bf16({2, 3, 4})}},
      {Op::RowSumSq, NoAttrs{}, {f32({4})}},
      {Op::RowSumSq, NoAttrs{}, {bf16({2, 4}), f32({2})}},
      {Op::NormApply, NormAttrs{}, {bf16({2, 4}), bf16({4}), f32({2})}},
      {Op::NormApply, NormAttrs{}, {f32({2, 0}), f32({0}), f32({0}), f32({2}), f32({2})}},
      {Op::NormDots, NoAttrs{}, {f32({2, 4}), f32({2, 4}), f32({4}), f32({2})}},
      {Op::NormDots, NoAttrs{}, {bf16({2, 4}), bf16({2, 4}), bf16({4}), f32({2}), f32({2})}},
      {Op::NormBIApply, NoAttrs{}, {f32({2, 4}), f32({2, 4}), f32({4}), f32({2}), f32({2})}},
      {Op::NormBIApply, NoAttrs{}, {f64({2, 4}), f64({2, 4}), f64({4}), f64({2}), f64({2}), f64({2}), f64({2})}},
      {Op::Rope, RopeAttrs{}, {f32({2, 3, 4, 8})}},
      {Op::Attention, AttentionAttrs{}, {f32({2, 3, 6, 8}), f32({2, 3, 2, 8}), f32({2, 3, 2, 5})}},
      {Op::Attention, AttentionAttrs{false, 1}, {f32({2, 7, 6, 8}), f32({2, 3, 6, 8}), f32({2, 3, 6, 8})}},
      {Op::Attention, AttentionAttrs{}, {f32({2, 3, 0, 8}), f32({2, 3, 0, 8}), f32({2, 3, 0, 8})}},
      {Op::AttentionBI,
       AttentionAttrs{},
       {bf16({2, 3, 6, 8}), bf16({2, 3, 2, 8}), bf16({2, 3, 2, 5}), bf16({2, 3, 6, 5}), f32({2, 3, 6}), bf16({2, 3, 6, 5})}},
      {Op::AttentionPiece, AttentionPieceAttrs{true, 1, kZigzag, 1}, {f32({2, 4, 6, 8}), f32({2, 4, 2, 8}), f32({2, 4, 2, 5})}},
      {Op::AttentionPiece, AttentionPieceAttrs{true, 1, {{}, {}}, 1}, {f32({2, 0, 6, 8}), f32({2, 0, 2, 8}), f32({2, 0, 2, 5})}},
      {Op::AttentionPieceBI,
       AttentionPieceAttrs{false, 1, kZigzag, 0},
       {bf16({2, 4, 6, 8}), bf16({2, 4, 2, 8}), bf16({2, 4, 2, 5}), bf16({2, 4, 6, 5}), f32({2, 4, 6}), bf16({2, 4, 6, 5})}},
      {Op::AttentionMerge, NoAttrs{}, {bf16({2, 3, 6, 5}), f32({2, 3, 6})}},
      {Op::AttentionMerge, NoAttrs{}, {f64({2, 5}), f64({2}), f64({2, 5}), f64({2})}},
      {Op::Embedding, NoAttrs{}, {f32({10, 4}), i64({2, 3})}},
      {Op::EmbeddingBW, ShapeAttrs{{10, 4}}, {f32({2, 3, 4}), i64({2, 3})}},
      {Op::SoftmaxXent, LabelAttrs{-1}, {bf16({2, 3, 10}), i64({2, 3})}},
      {Op::SoftmaxXent, LabelAttrs{}, {f64({10}), i64({})}},
      {Op::SoftmaxXentBI, LabelAttrs{-1}, {bf16({2, 3, 10}), i64({2, 3}), f32({2, 3}), f32({})}},
      {Op::CountValid, LabelAttrs{-1}, {i64({2, 3})}},
      {Op::RowMax, NoAttrs{}, {f32({2, 10})}},
      {Op::SumExp, NoAttrs{}, {f32({2, 10}), f32({2})}},
      {Op::Pick, LabelAttrs{}, {f32({2, 10}), i64({2})}},
      {Op::XentMerge, LabelAttrs{}, {f32({2}), f32({2}), f32({2}), i64({2})}},
      {Op::SqError, NoAttrs{}, {f32({2, 3}), f32({2, 3})}},
      {Op::SqErrorBI, NoAttrs{}, {f32({2, 3}), f32({2, 3}), f32({})}},
      {Op::Loss, LossAttrs{2, 6}, {f32({})}},
      {Op::Loss, LossAttrs{}, {f32({}), f64({})}},
      {Op::LossScale, LossAttrs{2, 6}, {}},
      {Op::LossScale, LossAttrs{}, {f64({})}},
      {Op::Dropout, DropoutAttrs{0.5}, {f32({2, 3})}},
      {Op::Sum, SumAttrs{}, {f32({2, 3}), f32({2, 3}), f32({2, 3})}},
      {Op::Slice, SliceAttrs{1, 2, 0}, {i64({2, 3})}},
      {Op::Pad, PadAttrs{0, 1, 5}, {f32({2, 3})}},
      {Op::Concat, ConcatAttrs{1}, {f32({2, 3}), f32({2, 0}), f32({2, 4})}},
      {Op::Cast, CastAttrs{DType::F32}, {i64({2, 3})}},
      {Op::Fill, FillAttrs{{2, 3}, DType::F32, 1}, {}},
      {Op::Iota, ShapeAttrs{{5}}, {}},
      {Op::SumSq, NoAttrs{}, {f32({2, 3})}},
      {Op::ClipCoef, ClipAttrs{}, {f64({})}},
      {Op::Sgd, SgdAttrs{}, {f32({2, 3}), f32({2, 3})}},
      {Op::Sgd, SgdAttrs{0.1, 0.9, 0}, {bf16({2, 3}), bf16({2, 3}), f32({2, 3})}},
      {Op::AdamW, AdamWAttrs{}, {f32({2, 3}), f32({2, 3}), f32({2, 3}), f32({2, 3})}},
      {Op::AllReduce, NoAttrs{}, {f32({2, 3}), f32({4})}},
      {Op::View, NoAttrs{}, {f32({2, 3})}},
      {Op::Join, NoAttrs{}, {f32({2, 3}), f32({2, 3})}},
  };
}

std::vector<TensorType> infer(Op op, const Attrs& attrs, const std::vector<TensorType>& operands) {
  return info(op).infer({op, attrs, operands});
}

FactorRule rule(Op op, const Attrs& attrs, const std::vector<TensorType>& operands) {
  const std::vector<TensorType> results = infer(op, attrs, operands);
  return info(op).rule({op, attrs, operands, results});
}

/// The rule covers each dimension of these tensors with factors whose sizes multiply to it.
void check_cover(const FactorRule& rule, const std::vector<std::vector<DimFactors>>& dims, const std::vector<TensorType>& tensors) {
  REQUIRE(dims.size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    REQUIRE(dims[i].size() == tensors[i].shape.size());
    for (std::size_t d = 0; d < dims[i].size(); ++d) {
      std::int64_t size = 1;
      for (const std::uint16_t f : dims[i][d]) size *= rule.factors.at(f).size;
      CHECK(size == tensors[i].shape[d]);
    }
  }
}

std::string factor_words(const FactorRule& rule) {
  static const char* const kKinds[] = {"free", "sum", "max", "whole", "picked", "prefix"};
  std::string text;
  for (const Factor& f : rule.factors)
    text += (text.empty() ? "" : " ") + f.name + "=" + std::to_string(f.size) + ":" + kKinds[static_cast<std::size_t>(f.kind)];
  return text;
}

}  // namespace

TEST_CASE("every operator has an entry of its own, a name that is found again, and a line of help") {
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    CHECK(info(op).op == op);
    CHECK(op_named(info(op).name) == op);
    CHECK(std::string(info(op).help).size() > 5);
    CHECK(info(op).attrs_index < std::variant_size_v<Attrs>);
  }
  CHECK(!op_named("matmull"));
  CHECK(op_names().size() == static_cast<std::size_t>(kOpCount));
}

TEST_CASE("an operator's rule covers the dimensions of its operands and results") {
  std::map<Op, int> seen;
  for (const Sample& sample : samples()) {
    INFO(info(sample.op).name);
    ++seen[sample.op];
    REQUIRE(sample.attrs.index() == info(sample.op).attrs_index);
    const std::vector<TensorType> results = infer(sample.op, sample.attrs, sample.operands);
    const OpCall call{sample.op, sample.attrs, sample.operands, results};
    const FactorRule rule = info(sample.op).rule(call);
    check_cover(rule, rule.operands, sample.operands);
    check_cover(rule, rule.results, results);
    CHECK(rule.linear_operands.size() == sample.operands.size());
    CHECK(localized(call) == sample.attrs);
    CHECK(flops(rule) >= 0);
  }
  for (int i = static_cast<int>(Op::Output) + 1; i < static_cast<int>(Op::AllReduce); ++i) {
    INFO(info(static_cast<Op>(i)).name);
    CHECK(seen[static_cast<Op>(i)] > 0);
  }
}

TEST_CASE("rules state what a cut makes of the result") {
  CHECK(factor_words(rule(Op::Einsum, EinsumAttrs{"bsh,hf->bsf"}, {f32({2, 3, 4}), f32({4, 5})})) == "b=2:free s=3:free h=4:sum f=5:free");
  const FactorRule heads = rule(Op::Attention, AttentionAttrs{}, {f32({2, 3, 6, 8}), f32({2, 3, 2, 8}), f32({2, 3, 2, 5})});
  CHECK(factor_words(heads) == "b=2:free s=3:prefix g=2:free r=3:free d=8:whole t=3:whole e=5:free");
  CHECK(heads.operand_factor(0, 2) == heads.operand_factor(1, 2));
  CHECK(heads.operand_dim(1, heads.operand_factor(0, 2)) == 2);
  CHECK(factor_words(rule(Op::RowSumSq, NoAttrs{}, {f32({2, 4}), f32({2})})) == "d0=2:free h=4:sum");
  CHECK(factor_words(rule(Op::NormApply, NormAttrs{}, {f32({2, 4}), f32({4}), f32({2})})) == "d0=2:free h=4:free");
  CHECK(factor_words(rule(Op::NormDots, NoAttrs{}, {f32({2, 4}), f32({2, 4}), f32({4}), f32({2})})) == "d0=2:free h=4:sum");
  CHECK(factor_words(rule(Op::SoftmaxXent, LabelAttrs{}, {f32({2, 10}), i64({2})})) == "d0=2:sum v=10:whole");
  CHECK(factor_words(rule(Op::Embedding, NoAttrs{}, {f32({10, 4}), i64({2})})) == "v=10:picked h=4:free d0=2:free");
  CHECK(factor_words(rule(Op::SumTo, ShapeAttrs{{1, 3}}, {f32({4, 2, 3})})) == "d0=4:sum d1=2:sum d2=3:free");
  CHECK(factor_words(rule(Op::Concat, ConcatAttrs{1}, {f32({2, 3}), f32({2, 4})})) == "d0=2:free to=7:whole from0=3:whole from1=4:whole");
}

TEST_CASE("a piece of attention has one sequence, cut into its pieces, with the keys turned") {
  const AttentionPieceAttrs attrs{true, 1, {{{0, 3}}, {{3, 4}}, {{4, 6}}}, 2};
  const std::vector<TensorType> forward{f32({2, 6, 6, 8}), f32({2, 6, 2, 8}), f32({2, 6, 2, 5})};
  const FactorRule piece = rule(Op::AttentionPiece, attrs, forward);
  CHECK(factor_words(piece) == "b=2:free s=6:free g=2:free r=3:free d=8:whole e=5:free");
  CHECK(piece.ring.factor == piece.operand_factor(0, 1));
  CHECK(piece.ring.factor == piece.operand_factor(1, 1));
  CHECK(piece.ring.pieces == attrs.pieces);
  CHECK(piece.ring.operand_turn == std::vector<std::int32_t>{0, 2, 2});
  CHECK(piece.ring.result_turn == std::vector<std::int32_t>{0, 0});
  std::vector<TensorType> backward = forward;
  backward.insert(backward.end(), {f32({2, 6, 6, 5}), f32({2, 6, 6}), f32({2, 6, 6, 5})});
  const FactorRule bi = rule(Op::AttentionPieceBI, attrs, backward);
  CHECK(factor_words(bi) == "b=2:free s=6:free g=2:free r=3:sum d=8:whole e=5:sum");
  CHECK(bi.ring.operand_turn == std::vector<std::int32_t>{0, 2, 2, 0, 0, 0});
  CHECK(bi.ring.result_turn == std::vector<std::int32_t>{0, 2, 2});
  CHECK(rule(Op::Attention, AttentionAttrs{}, forward).ring.factor == -1);
}

TEST_CASE("a broadcast dimension has no factor in the operand that repeats it") {
  const FactorRule add = rule(Op::Add, NoAttrs{}, {f32({1, 3}), f32({2, 1})});
  CHECK(add.operands[0][0].empty());
  CHECK(add.operands[1][1].empty());
  CHECK(add.operand_factor(0, 0) == -1);
  CHECK(add.operand_factor(0, 1) == 1);
  CHECK(add.linear == Linear::Together);
  CHECK(rule(Op::Add, NoAttrs{}, {f32({1}), f32({1})}).operand_factor(0, 0) == 0);
}

TEST_CASE("flops follow from the rule") {
  CHECK(flops(rule(Op::Einsum, EinsumAttrs{"bh,hf->bf"}, {f32({2, 3}), f32({3, 5})})) == 2 * 2 * 3 * 5);
  CHECK(flops(rule(Op::Attention, AttentionAttrs{false, 1}, {f32({2, 3, 6, 8}), f32({2, 3, 2, 8}), f32({2, 3, 2, 5})})) ==
        Approx(2 * 2 * 3 * 3 * 6 * (8 + 5)));
  // pieces cost what their queries see: 3 + 2 + 1 keys of their own, and those before them
  const auto piece_flops = [](bool causal, std::int64_t turn) {
    const std::vector<TensorType> operands{f32({1, 6, 1, 2}), f32({1, 6, 1, 2}), f32({1, 6, 1, 3})};
    return flops(rule(Op::AttentionPiece, AttentionPieceAttrs{causal, 1, {{{0, 1}, {5, 6}}, {{1, 2}, {4, 5}}, {{2, 4}}}, turn}, operands));
  };
  CHECK(piece_flops(true, 0) == Approx(2 * (2 + 3) * (3 + 3 + 3)));
  CHECK(piece_flops(true, 1) + piece_flops(true, 2) == Approx(2 * (2 + 3) * (21 - 9)));
  CHECK(piece_flops(false, 2) == Approx(2 * (2 + 3) * 12));
  CHECK(flops(rule(Op::Slice, SliceAttrs{0, 0, 1}, {f32({2, 3})})) == 0);
}

TEST_CASE("half-width values keep sums, statistics and log-sum-exp in f32") {
  CHECK(infer(Op::SoftmaxXent, LabelAttrs{}, {bf16({2, 10}), i64({2})}) == std::vector<TensorType>{f32({}), f32({2})});
  CHECK(infer(Op::LayerNorm, NormAttrs{}, {bf16({2, 4}), bf16({4}), bf16({4})}) ==
        std::vector<TensorType>{bf16({2, 4}), f32({2}), f32({2})});
}

TEST_CASE("localized attributes give the results again") {
  const std::vector<TensorType> rows{f32({5, 3, 4}), i64({5, 3})};
  const std::vector<TensorType> piece{f32({3, 4})};
  CHECK(localized({Op::EmbeddingBW, ShapeAttrs{{10, 4}}, rows, piece}) == Attrs{ShapeAttrs{{3, 4}}});
  CHECK(localized({Op::Fill, FillAttrs{{10, 4}, DType::F32, 2}, {}, piece}) == Attrs{FillAttrs{{3, 4}, DType::F32, 2}});
}

TEST_CASE("operators refuse operands of the wrong type") {
  CHECK_ERROR(infer(Op::Einsum, EinsumAttrs{"bh,hf->bf"}, {f32({2, 3}), f32({4, 5})}),
              "einsum: operand 1 is f32[4,5], expected size 3 along 'h', dimension 1 of operand 0 (3)");
  CHECK_ERROR(infer(Op::Einsum, EinsumAttrs{"bh,hf->bf"}, {f32({2, 3}), f64({3, 5})}),
              "einsum: operand 1 is f64[3,5], expected the element type of operand 0, f32");
  CHECK_ERROR(infer(Op::Einsum, EinsumAttrs{"bh,hf->bf"}, {f32({2, 3, 1}), f32({3, 5})}),
              "einsum: operand 0 is f32[2,3,1], expected 2 dimensions (\"bh\")");
  CHECK_ERROR(
      infer(Op::Add, NoAttrs{}, {f32({2, 3}), f32({2})}),
      "add: operand 1 is f32[2], expected the element type of operand 0, f32[2,3], and dimensions that equal its own, counted from the "
      "last, or are 1");
  CHECK_ERROR(infer(Op::Tanh, NoAttrs{}, {i64({2})}), "tanh: operand 0 is i64[2], expected a float type (f64, f32, bf16, f16)");
  CHECK_ERROR(infer(Op::LayerNorm, NormAttrs{}, {f32({2, 3}), f32({2}), f32({3})}), "layer_norm: operand 1 is f32[2], expected f32[3]");
  CHECK_ERROR(infer(Op::LayerNorm, NormAttrs{}, {f32({}), f32({}), f32({})}),
              "layer_norm: operand 0 is f32[], expected at least 1 dimension");
  CHECK_ERROR(infer(Op::Rope, RopeAttrs{}, {f32({2, 3, 4, 5})}),
              "rope: operand 0 is f32[2,3,4,5], expected an even last dimension, for it is turned in pairs");
  CHECK_ERROR(infer(Op::Rope, RopeAttrs{10, false, 8}, {f32({2, 3, 4, 8})}),
              "rope: only some of factor, low, high and original are given, expected all or none");
  CHECK_ERROR(infer(Op::Rope, RopeAttrs{10, false, 8, 4, 4, 64}, {f32({2, 3, 4, 8})}), "rope: high is 4, expected a number above low, 4");
  CHECK_ERROR(
      infer(Op::Attention, AttentionAttrs{}, {f32({2, 3, 6, 8}), f32({2, 3, 4, 8}), f32({2, 3, 4, 8})}),
      "attention: operand 1 is f32[2,3,4,8], expected a number of heads that divides the 6 of the queries, dimension 2 of operand 0 (6)");
  CHECK_ERROR(
      infer(Op::Attention, AttentionAttrs{}, {f32({2, 5, 6, 8}), f32({2, 3, 2, 8}), f32({2, 3, 2, 8})}),
      "attention: operand 1 is f32[2,3,2,8], expected at least as many keys as queries for causal attention, dimension 1 of operand 0 (5)");
  CHECK_ERROR(
      infer(Op::AttentionPiece, AttentionPieceAttrs{false, 1, {{{0, 4}}}, 0}, {f32({2, 4, 6, 8}), f32({2, 5, 2, 8}), f32({2, 5, 2, 8})}),
      "attention_piece: operand 1 is f32[2,5,2,8], expected as many keys as queries, dimension 1 of operand 0 (4)");
  CHECK_ERROR(infer(Op::AttentionMerge, NoAttrs{}, {f32({2, 5}), f32({2}), f32({2, 5})}),
              "attention_merge: got 3 operands, expected a log-sum-exp after each o");
  CHECK_ERROR(infer(Op::AttentionMerge, NoAttrs{}, {bf16({2, 5}), bf16({2})}), "attention_merge: operand 1 is bf16[2], expected f32[2]");
  CHECK_ERROR(infer(Op::NormApply, NormAttrs{}, {f32({2, 4}), f32({4}), f32({2}), f32({2})}),
              "norm_apply: got 4 operands, expected 3 (rms_norm) or 5 (layer_norm)");
  CHECK_ERROR(infer(Op::NormBIApply, NoAttrs{}, {f32({2, 4}), f32({2, 4}), f32({4}), f32({2}), f32({4})}),
              "norm_bi_apply: operand 4 is f32[4], expected f32[2]");
  CHECK_ERROR(infer(Op::Swiglu, NoAttrs{}, {f32({2}), f32({3})}), "swiglu: operand 1 is f32[3], expected f32[2]");
  CHECK_ERROR(infer(Op::Embedding, NoAttrs{}, {f32({10, 4}), f32({2})}), "embedding: operand 1 is f32[2], expected integers (i32, i64)");
  CHECK_ERROR(infer(Op::SoftmaxXent, LabelAttrs{}, {f32({2, 10}), i64({3})}), "softmax_xent: operand 1 is i64[3], expected i64[2]");
  CHECK_ERROR(infer(Op::Sum, SumAttrs{}, {f32({2}), f32({2}), f32({3})}), "sum: operand 2 is f32[3], expected f32[2]");
  CHECK_ERROR(infer(Op::Concat, ConcatAttrs{0}, {f32({2, 3}), f32({2, 4})}), "concat: operand 1 is f32[2,4], expected f32[2,3]");
  CHECK_ERROR(infer(Op::AdamW, AdamWAttrs{}, {f32({2}), f32({2}), f32({3}), f32({2})}), "adamw: operand 2 is f32[3], expected f32[2]");
}

TEST_CASE("operators refuse attributes that cannot be") {
  const std::string once = "letters, each at most once in an operand or the result, like \"bsh,hf->bsf\"";
  const auto einsum = [](const std::string& spec) { return infer(Op::Einsum, EinsumAttrs{spec}, {f32({2, 3}), f32({3, 5})}); };
  CHECK_ERROR(einsum("bh->b"), "einsum: spec is \"bh->b\", expected two operands and a result, like \"bsh,hf->bsf\"");
  CHECK_ERROR(einsum(""), "einsum: spec is \"\", expected two operands and a result, like \"bsh,hf->bsf\"");
  CHECK_ERROR(einsum("bb,hf->bf"), "einsum: spec is \"bb,hf->bf\", expected " + once);
  CHECK_ERROR(einsum("b ,hf->bf"), "einsum: spec is \"b ,hf->bf\", expected " + once);
  CHECK_ERROR(einsum("bh,hf,f->bf"), "einsum: spec is \"bh,hf,f->bf\", expected " + once);
  CHECK_ERROR(einsum("bh,hf->bx"), "einsum: spec is \"bh,hf->bx\", expected letter 'x' of the result in an operand");
  CHECK_ERROR(
      einsum("bh,hf->b"),
      "einsum: spec is \"bh,hf->b\", expected letter 'f' of operand 1 in the other operand or the result (sum_to sums a dimension of one)");
  const auto pieces = [](const IntervalTable& table, std::int64_t turn = 0) {
    return infer(Op::AttentionPiece, AttentionPieceAttrs{true, 1, table, turn}, {f32({2, 4, 6, 8}), f32({2, 4, 2, 8}), f32({2, 4, 2, 8})});
  };
  const std::string each = "expected each of the 4 positions in one piece";
  CHECK_ERROR(pieces({}), "attention_piece: pieces is {}, expected at least one piece");
  CHECK_ERROR(pieces({{{0, 2}}, {{1, 4}}}), "attention_piece: pieces is a table with pieces that do not have position 1 once, " + each);
  CHECK_ERROR(pieces({{{0, 2}}, {{3, 4}}}), "attention_piece: pieces is a table with pieces that do not have position 2 once, " + each);
  CHECK_ERROR(pieces({{{0, 2}}, {{2, 5}}}), "attention_piece: pieces is a table with pieces of 5 positions, " + each);
  CHECK_ERROR(pieces({{{3, 4}, {0, 1}}, {{1, 3}}}),
              "attention_piece: pieces is a table with intervals of a piece that are not sorted, " + each);
  CHECK_ERROR(pieces(kZigzag, 2), "attention_piece: turn is 2, expected 0 to 1 for 2 pieces");
  CHECK_ERROR(pieces(kZigzag, -1), "attention_piece: turn is -1, expected 0 to 1 for 2 pieces");
  CHECK_ERROR(infer(Op::Iota, ShapeAttrs{{2, 3}}, {}), "iota: shape is of 2 dimensions, expected one dimension, like [16]");
  CHECK_ERROR(infer(Op::Dropout, DropoutAttrs{1}, {f32({2})}), "dropout: p is 1, expected a probability, 0 <= p < 1");
  CHECK_ERROR(infer(Op::Dropout, DropoutAttrs{std::nan("")}, {f32({2})}), "dropout: p is nan, expected a probability, 0 <= p < 1");
  CHECK_ERROR(infer(Op::Slice, SliceAttrs{0, 1, 2}, {f32({2, 3})}), "slice: size is 2, expected 0 to 1, for it starts at 1 of 2");
  CHECK_ERROR(infer(Op::Slice, SliceAttrs{0, INT64_MAX, INT64_MAX}, {f32({2, 3})}), "slice: start is 9223372036854775807, expected 0 to 2");
  CHECK_ERROR(infer(Op::Slice, SliceAttrs{2, 0, 0}, {f32({2, 3})}), "slice: dim is 2, expected a dimension from 0 to 1");
  CHECK_ERROR(infer(Op::Slice, SliceAttrs{0, 0, 0}, {f32({})}), "slice: dim is 0, expected an operand that has dimensions");
  CHECK_ERROR(infer(Op::Pad, PadAttrs{0, 1, INT64_MAX}, {f32({2, 3})}),
              "pad: the result is f32[9223372036854775807,3], expected at most 2^48 elements");
  CHECK_ERROR(infer(Op::Fill, FillAttrs{{-1}, DType::F32, 0}, {}), "fill: the result is f32[-1], expected no negative dimension");
  CHECK_ERROR(infer(Op::Fill, FillAttrs{{1 << 20, 1 << 20, 1 << 20, 1 << 20}, DType::F32, 0}, {}),
              "fill: the result is f32[1048576,1048576,1048576,1048576], expected at most 2^48 elements");
  CHECK_ERROR(
      infer(Op::SumTo, ShapeAttrs{{2}}, {f32({2, 3})}),
      "sum_to: operand 0 is f32[2,3], expected dimensions that equal those of shape f32[2], counted from the last, where those are not 1");
  CHECK_ERROR(infer(Op::Loss, LossAttrs{1, {}}, {f32({})}), "loss: count is none, expected an integer, or an operand that states it");
  CHECK_ERROR(infer(Op::Loss, LossAttrs{1, 4}, {f32({}), f64({})}), "loss: count is 4, expected none where an operand states it");
  CHECK_ERROR(infer(Op::Sgd, SgdAttrs{-0.1, 0, 0}, {f32({2}), f32({2})}), "sgd: lr is -0.1, expected a finite number that is not negative");
  CHECK_ERROR(infer(Op::Sgd, SgdAttrs{0.1, 0.9, 0}, {f32({2}), f32({2})}),
              "sgd: momentum is 0.9, expected 0 where there is no state operand");
}

TEST_CASE("a builder refuses sources that cannot be") {
  Graph g;
  Builder b(g);
  CHECK_ERROR(b.source(Op::Input, "x", f32({2}), InputAttrs{1, {}}), "input: cut is 1, expected a dimension of f32[2]");
  CHECK_ERROR(b.source(Op::Input, "x", f32({2}), InputAttrs{0, {}, 1}), "input: sequence is 1, expected a dimension of f32[2]");
  CHECK_ERROR(b.source(Op::Input, "x", f32({2, 3}), InputAttrs{1, {}, 1}),
              "input: sequence is 1, expected another dimension than cut, the batch");
  CHECK_ERROR(b.source(Op::Input, "x", f32({2}), InputAttrs{{}, 5}), "input: range is 5, expected none for f32[2]");
  CHECK_ERROR(b.source(Op::Param, "w", f32({2}), ParamAttrs{"norml", 1, true}),
              "param: init is \"norml\", expected one of normal, uniform, constant");
  CHECK_ERROR(b.source(Op::Param, "w", i64({2}), ParamAttrs{}), "param: the result is i64[2], expected a float type (f64, f32, bf16, f16)");
}
