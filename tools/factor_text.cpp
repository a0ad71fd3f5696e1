#include "tools/factor_text.h"

#include <vector>

namespace skirl {
namespace {

constexpr DType kF = DType::F32;
constexpr DType kI = DType::I32;

struct Example {
  Op op;
  std::vector<TensorType> operands;
  Attrs attrs = NoAttrs{};
};

const TensorType kX{kF, {2, 3, 4}};  // b s h
const TensorType kRow{kF, {4}};      // h
const TensorType kStat{kF, {2, 3}};  // b s
const TensorType kScalar{kF, {}};
const TensorType kTotal{DType::F64, {}};
const TensorType kLogits{kF, {2, 3, 7}};  // b s v
const TensorType kIds{kI, {2, 3}};
const TensorType kW{kF, {4, 5}};        // h f
const TensorType kQ{kF, {2, 3, 4, 6}};  // b s n d
const TensorType kK{kF, {2, 3, 2, 6}};  // b t m d
const TensorType kV{kF, {2, 3, 2, 8}};  // b t m e
const TensorType kO{kF, {2, 3, 4, 8}};
const TensorType kLse{kF, {2, 3, 4}};

const std::vector<Example>& examples() {
  static const std::vector<Example> table = {
      {Op::Einsum, {kX, kW}, EinsumAttrs{"bsh,hf->bsf"}},
      {Op::Add, {kX, kRow}},
      {Op::Mul, {kX, kRow}},
      {Op::Scale, {kX}, ScaleAttrs{}},
      {Op::Tanh, {kX}},
      {Op::TanhGrad, {kX, kX}},
      {Op::Gelu, {kX}},
      {Op::GeluGrad, {kX, kX}},
      {Op::Silu, {kX}},
      {Op::SiluGrad, {kX, kX}},
      {Op::Swiglu, {kX, kX}},
      {Op::SwigluGrad, {kX, kX, kX}},
      {Op::SumTo, {kX}, ShapeAttrs{{4}}},
      {Op::LayerNorm, {kX, kRow, kRow}, NormAttrs{}},
      {Op::LayerNormBI, {kX, kX, kRow, kStat, kStat}, NormAttrs{}},
      {Op::LayerNormBW, {kX, kX, kStat, kStat}, NormAttrs{}},
      {Op::RmsNorm, {kX, kRow}, NormAttrs{}},
      {Op::RmsNormBI, {kX, kX, kRow, kStat}, NormAttrs{}},
      {Op::RmsNormBW, {kX, kX, kStat}, NormAttrs{}},
      {Op::RowSum, {kX}},
      {Op::RowSumSq, {kX, kStat}},
      {Op::NormApply, {kX, kRow, kRow, kStat, kStat}, NormAttrs{}},
      {Op::NormDots, {kX, kX, kRow, kStat, kStat}},
      {Op::NormBIApply, {kX, kX, kRow, kStat, kStat, kStat, kStat}},
      {Op::Rope, {kQ}, RopeAttrs{}},
      {Op::Attention, {kQ, kK, kV}, AttentionAttrs{}},
      {Op::AttentionBI, {kQ, kK, kV, kO, kLse, kO}, AttentionAttrs{}},
      {Op::AttentionPiece, {kQ, {kF, {2, 3, 2, 6}}, {kF, {2, 3, 2, 8}}}, AttentionPieceAttrs{true, 1, {{{0, 2}}, {{2, 3}}}, 1}},
      {Op::AttentionPieceBI,
       {kQ, {kF, {2, 3, 2, 6}}, {kF, {2, 3, 2, 8}}, kO, kLse, kO},
       AttentionPieceAttrs{true, 1, {{{0, 2}}, {{2, 3}}}, 1}},
      {Op::AttentionMerge, {kO, kLse, kO, kLse}},
      {Op::Embedding, {{kF, {7, 4}}, kIds}},
      {Op::EmbeddingBW, {kX, kIds}, ShapeAttrs{{7, 4}}},
      {Op::SoftmaxXent, {kLogits, kIds}, LabelAttrs{}},
      {Op::SoftmaxXentBI, {kLogits, kIds, kStat, kScalar}, LabelAttrs{}},
      {Op::CountValid, {kIds}, LabelAttrs{}},
      {Op::RowMax, {kLogits}},
      {Op::SumExp, {kLogits, kStat}},
      {Op::Pick, {kLogits, kIds}, LabelAttrs{}},
      {Op::XentMerge, {kStat, kStat, kStat, kIds}, LabelAttrs{}},
      {Op::SqError, {kX, kX}},
      {Op::SqErrorBI, {kX, kX, kScalar}},
      {Op::Loss, {kScalar, kTotal}, LossAttrs{}},
      {Op::LossScale, {kTotal}, LossAttrs{}},
      {Op::Dropout, {kX}, DropoutAttrs{}},
      {Op::Sum, {kX, kX}, SumAttrs{}},
      {Op::Slice, {kX}, SliceAttrs{0, 0, 1}},
      {Op::Pad, {kX}, PadAttrs{0, 0, 3}},
      {Op::Concat, {kX, kX}, ConcatAttrs{0}},
      {Op::Cast, {kX}, CastAttrs{}},
      {Op::Fill, {}, FillAttrs{{2, 3}, kF, 0}},
      {Op::Iota, {}, ShapeAttrs{{3}}},
      {Op::SumSq, {kX}},
      {Op::ClipCoef, {kTotal}, ClipAttrs{}},
      {Op::Sgd, {kW, kW}, SgdAttrs{}},
      {Op::AdamW, {kW, kW, kW, kW}, AdamWAttrs{}},
  };
  return table;
}

const char* name_of(FactorKind kind) {
  switch (kind) {
    case FactorKind::Free:
      return "free";
    case FactorKind::Sum:
      return "sum";
    case FactorKind::Max:
      return "max";
    case FactorKind::Whole:
      return "whole";
    case FactorKind::Picked:
      return "picked";
    case FactorKind::Prefix:
      return "prefix";
  }
  return "";
}

std::string tensors(const FactorRule& rule, const std::vector<std::vector<DimFactors>>& list) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string dims;
    for (const DimFactors& dim : list[i]) {
      std::string product;
      for (const std::uint16_t factor : dim) product += (product.empty() ? "" : " ") + rule.factors[factor].name;
      dims += (dims.empty() ? "" : " ") + (dim.empty() ? "1" : dim.size() == 1 ? product : "(" + product + ")");
    }
    text += (i == 0 ? "" : ", ") + (dims.empty() ? "()" : dims);
  }
  return text;
}

}  // namespace

std::string to_string(const FactorRule& rule) {
  std::string text = tensors(rule, rule.operands) + " -> " + tensors(rule, rule.results);
  for (const Factor& factor : rule.factors)
    if (factor.kind != FactorKind::Free) text += "   " + factor.name + ": " + name_of(factor.kind);
  if (rule.ring.factor >= 0) {
    text += "   " + rule.factors[static_cast<std::size_t>(rule.ring.factor)].name + ": ring, turned by";
    for (const std::int32_t turn : rule.ring.operand_turn) text += " " + std::to_string(turn);
    text += " ->";
    for (const std::int32_t turn : rule.ring.result_turn) text += " " + std::to_string(turn);
  }
  if (rule.linear != Linear::None) {
    std::string operands;
    for (std::size_t i = 0; i < rule.linear_operands.size(); ++i)
      if (rule.linear_operands[i] != 0) operands += (operands.empty() ? "" : ", ") + std::to_string(i);
    text += std::string("   linear in ") + (rule.linear == Linear::Together ? "all together: " : "each alone: ") + operands;
  }
  return text;
}

std::string example_rule(Op op) {
  const OpInfo& entry = info(op);
  if (is_communication(op)) return "the identity of the global value: every dimension is a free factor";
  for (const Example& example : examples()) {
    if (example.op != op) continue;
    const std::vector<TensorType> results = entry.infer({op, example.attrs, example.operands});
    return to_string(entry.rule({op, example.attrs, example.operands, results}));
  }
  return "";
}

}  // namespace skirl
