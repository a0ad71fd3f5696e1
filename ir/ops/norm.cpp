#include "ir/derivation.h"
#include "ir/error.h"
#include "ir/ops/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

void expect_eps(const OpCall& call) { expect_not_negative(call, "eps", attrs_of<NormAttrs>(call).eps); }

/// The type of a statistic of each row of operand `x`.
TensorType row_type(const OpCall& call, std::size_t x) { return {wide(call.operands[x].dtype), leading(call.operands[x].shape)}; }

/// Operand x has rows; gives the type of a weight for each column.
TensorType column_type(const OpCall& call, std::size_t x) {
  expect_float(call, x);
  expect_rank_at_least(call, x, 1);
  return {call.operands[x].dtype, {call.operands[x].shape.back()}};
}

void expect_type(const OpCall& call, std::size_t operand, const TensorType& type) {
  skirl::expect_type(call, operand, type.dtype, type.shape);
}

std::vector<TensorType> infer_layer_norm(const OpCall& call) {
  expect_eps(call);
  const TensorType column = column_type(call, 0);
  expect_type(call, 1, column);
  expect_type(call, 2, column);
  return {call.operands[0], row_type(call, 0), row_type(call, 0)};
}

std::vector<TensorType> infer_rms_norm(const OpCall& call) {
  expect_eps(call);
  expect_type(call, 1, column_type(call, 0));
  return {call.operands[0], row_type(call, 0)};
}

/// (dy, x, gamma, statistics…) → dx
std::vector<TensorType> infer_norm_bi(const OpCall& call) {
  const TensorType column = column_type(call, 0);
  expect_type(call, 1, call.operands[0]);
  expect_type(call, 2, column);
  for (std::size_t i = 3; i < call.operands.size(); ++i) expect_type(call, i, row_type(call, 0));
  return {call.operands[0]};
}

/// (dy, x, statistics…) → dgamma and, of layer_norm, dbeta
std::vector<TensorType> infer_norm_bw(const OpCall& call) {
  const TensorType column = column_type(call, 0);
  expect_type(call, 1, call.operands[0]);
  for (std::size_t i = 2; i < call.operands.size(); ++i) expect_type(call, i, row_type(call, 0));
  return std::vector<TensorType>(call.op == Op::LayerNormBW ? 2 : 1, column);
}

FactorRule layer_norm_rule(const OpCall& call) { return costing(rule_from(call, "* h, h -> * h, *", {{"h", FactorKind::Whole}}), 8); }
FactorRule rms_norm_rule(const OpCall& call) { return costing(rule_from(call, "* h, h -> * h, *", {{"h", FactorKind::Whole}}), 5); }
FactorRule norm_bi_rule(const OpCall& call) {
  return costing(linear_in(rule_from(call, "* h, * h, h, * -> * h", {{"h", FactorKind::Whole}}), {0}), 10);
}
/// Each column stands alone once the rows' statistics are known.
FactorRule norm_bw_rule(const OpCall& call) {
  return costing(linear_in(rule_from(call, "* h, * h, * -> h", {{"*", FactorKind::Sum}}), {0}), 5);
}

// ---- norms in two steps: sums over a row, which may be cut, and what is then done to each element

std::vector<TensorType> infer_row_sum(const OpCall& call) {
  expect_float(call, 0);
  expect_rank_at_least(call, 0, 1);
  return {row_type(call, 0)};
}
/// (x[, sum]) → Σ (x − sum/h)²
std::vector<TensorType> infer_row_sum_sq(const OpCall& call) {
  const std::vector<TensorType> row = infer_row_sum(call);
  if (call.operands.size() == 2) expect_type(call, 1, row[0]);
  return row;
}
FactorRule row_sum_rule(const OpCall& call) { return costing(linear_in(rule_from(call, "* h -> *", {{"h", FactorKind::Sum}}), {0}), 1); }
FactorRule row_sum_sq_rule(const OpCall& call) { return costing(rule_from(call, "* h, * -> *", {{"h", FactorKind::Sum}}), 3); }

/// Whether the node has the operands of layer_norm, which are more than those of rms_norm.
void expect_count(const OpCall& call, std::size_t rms, std::size_t layer) {
  if (call.operands.size() != rms && call.operands.size() != layer)
    throw Error(std::string(info(call.op).name) + ": got " + std::to_string(call.operands.size()) + " operands, expected " +
                std::to_string(rms) + " (rms_norm) or " + std::to_string(layer) + " (layer_norm)");
}

/// rms_norm: (x, gamma, sum of squares) → y, 1/rms; layer_norm: (x, gamma, beta, sum, sum of squares) → y, mean, 1/deviation
std::vector<TensorType> infer_norm_apply(const OpCall& call) {
  expect_eps(call);
  expect_count(call, 3, 5);
  const TensorType column = column_type(call, 0), row = row_type(call, 0);
  const bool layer = call.operands.size() == 5;
  for (std::size_t i = 1; i < call.operands.size(); ++i) expect_type(call, i, i == 1 || (layer && i == 2) ? column : row);
  return layer ? std::vector<TensorType>{call.operands[0], row, row} : std::vector<TensorType>{call.operands[0], row};
}
FactorRule norm_apply_rule(const OpCall& call) {
  return costing(rule_from(call, call.operands.size() == 5 ? "* h, h, h, *, * -> * h, *" : "* h, h, * -> * h, *"), 4);
}

/// (dy, x, gamma[, mean], 1/rms) → Σ gamma·dy·x̂ and, of layer_norm, Σ gamma·dy
std::vector<TensorType> infer_norm_dots(const OpCall& call) {
  expect_count(call, 4, 5);
  infer_norm_bi(call);
  return std::vector<TensorType>(call.operands.size() - 3, row_type(call, 0));
}
FactorRule norm_dots_rule(const OpCall& call) {
  return costing(linear_in(rule_from(call, "* h, * h, h, * -> *", {{"h", FactorKind::Sum}}), {0}), 6);
}

/// What norm_dots reads, and then what it gives → dx
std::vector<TensorType> infer_norm_bi_apply(const OpCall& call) {
  expect_count(call, 5, 7);
  return infer_norm_bi(call);
}
FactorRule norm_bi_apply_rule(const OpCall& call) { return costing(rule_from(call, "* h, * h, h, * -> * h"), 6); }

void refuse_statistics(Derivation& d, std::size_t count) {
  const NodeId node = d.forward();
  for (std::size_t i = 1; i <= count; ++i)
    if (d.result_grad(i).valid())
      throw Error("differentiate: a loss depends on result " + std::to_string(i) + " of " + describe(d.graph(), node) +
                  ", expected on result 0 only");
}

void derive_layer_norm(Derivation& d) {
  refuse_statistics(d, 2);
  if (d.needs(0))
    d.set_operand_grad(0, d.emit(d.phase(0), Op::LayerNormBI, {d.result_grad(), d.operand(0), d.operand(1), d.result(1), d.result(2)}));
  if (!d.needs(1) && !d.needs(2)) return;
  const Phase phase = (!d.needs(1) || d.phase(1) == Phase::BW) && (!d.needs(2) || d.phase(2) == Phase::BW) ? Phase::BW : Phase::BI;
  const NodeId sums = d.emit_node(phase, Op::LayerNormBW, {d.result_grad(), d.operand(0), d.result(1), d.result(2)});
  if (d.needs(1)) d.set_operand_grad(1, d.graph().result(sums, 0));
  if (d.needs(2)) d.set_operand_grad(2, d.graph().result(sums, 1));
}

void derive_rms_norm(Derivation& d) {
  refuse_statistics(d, 1);
  if (d.needs(0)) d.set_operand_grad(0, d.emit(d.phase(0), Op::RmsNormBI, {d.result_grad(), d.operand(0), d.operand(1), d.result(1)}));
  if (d.needs(1)) d.set_operand_grad(1, d.emit(d.phase(1), Op::RmsNormBW, {d.result_grad(), d.operand(0), d.result(1)}));
}

constexpr auto kNone = attrs_index<NoAttrs>();
constexpr auto kNorm = attrs_index<NormAttrs>();
const OpInfo kOps[] = {
    {Op::LayerNorm, "layer_norm", "rows of mean 0 and variance 1, times gamma plus beta; also each row's mean and 1/deviation",
     OpClass::Compute, 3, 3, kNorm, infer_layer_norm, layer_norm_rule, derive_layer_norm},
    {Op::LayerNormBI, "layer_norm_bi", "gradient of layer_norm for x, from dy, x, gamma, mean and 1/deviation", OpClass::Compute, 5, 5,
     kNone, infer_norm_bi, norm_bi_rule, nullptr},
    {Op::LayerNormBW, "layer_norm_bw", "gradients of layer_norm for gamma and beta, from dy, x, mean and 1/deviation", OpClass::Compute, 4,
     4, kNone, infer_norm_bw, norm_bw_rule, nullptr},
    {Op::RmsNorm, "rms_norm", "rows of root mean square 1, times gamma; also each row's 1/rms", OpClass::Compute, 2, 2, kNorm,
     infer_rms_norm, rms_norm_rule, derive_rms_norm},
    {Op::RmsNormBI, "rms_norm_bi", "gradient of rms_norm for x, from dy, x, gamma and 1/rms", OpClass::Compute, 4, 4, kNone, infer_norm_bi,
     norm_bi_rule, nullptr},
    {Op::RmsNormBW, "rms_norm_bw", "gradient of rms_norm for gamma, from dy, x and 1/rms", OpClass::Compute, 3, 3, kNone, infer_norm_bw,
     norm_bw_rule, nullptr},
    {Op::RowSum, "row_sum", "sum of each row", OpClass::Compute, 1, 1, kNone, infer_row_sum, row_sum_rule, nullptr},
    {Op::RowSumSq, "row_sum_sq", "sum of the squares of each row, less its mean where its sum is given", OpClass::Compute, 1, 2, kNone,
     infer_row_sum_sq, row_sum_sq_rule, nullptr},
    {Op::NormApply, "norm_apply", "rms_norm from each row's sum of squares; layer_norm from its sum and the sum of squares less the mean",
     OpClass::Compute, 3, 5, kNorm, infer_norm_apply, norm_apply_rule, nullptr},
    {Op::NormDots, "norm_dots", "sums over each row that rms_norm_bi and layer_norm_bi need, from what these read", OpClass::Compute, 4, 5,
     kNone, infer_norm_dots, norm_dots_rule, nullptr},
    {Op::NormBIApply, "norm_bi_apply", "rms_norm_bi and layer_norm_bi from what these read and the sums of norm_dots", OpClass::Compute, 5,
     7, kNone, infer_norm_bi_apply, norm_bi_apply_rule, nullptr},
};

}  // namespace

std::span<const OpInfo> norm_ops() { return kOps; }

}  // namespace skirl
