#include "ir/derivation.h"
#include "ir/error.h"
#include "ir/ops/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

/// Operand `labels` has an index for each row of operand `x`.
void expect_labels(const OpCall& call, std::size_t x, std::size_t labels) {
  expect_float(call, x);
  expect_rank_at_least(call, x, 1);
  expect_integer(call, labels);
  expect_shape(call, labels, leading(call.operands[x].shape));
}

TensorType row_type(const OpCall& call, std::size_t x) { return {wide(call.operands[x].dtype), leading(call.operands[x].shape)}; }
TensorType scalar_of(const TensorType& type) { return {wide(type.dtype), {}}; }

std::vector<TensorType> infer_softmax_xent(const OpCall& call) {
  expect_labels(call, 0, 1);
  return {scalar_of(call.operands[0]), row_type(call, 0)};
}
FactorRule softmax_xent_rule(const OpCall& call) {
  return costing(rule_from(call, "* v, * -> , *", {{"*", FactorKind::Sum}, {"v", FactorKind::Whole}}), 5);
}

void derive_softmax_xent(Derivation& d) {
  if (d.result_grad(1).valid())
    throw Error("differentiate: a loss depends on result 1 of " + describe(d.graph(), d.forward()) + ", expected on result 0 only");
  if (!d.needs(0)) return;
  const Attrs attrs = d.attrs();
  d.set_operand_grad(0, d.emit(d.phase(0), Op::SoftmaxXentBI, {d.operand(0), d.operand(1), d.result(1), d.result_grad()}, attrs));
}

/// (logits, labels, lse, dscale) → dlogits
std::vector<TensorType> infer_softmax_xent_bi(const OpCall& call) {
  expect_labels(call, 0, 1);
  const TensorType row = row_type(call, 0);
  expect_type(call, 2, row.dtype, row.shape);
  expect_type(call, 3, row.dtype, {});
  return {call.operands[0]};
}
/// Elementwise in the vocabulary too: each device answers for its own part of it.
FactorRule softmax_xent_bi_rule(const OpCall& call) { return costing(linear_in(rule_from(call, "* v, *, *, -> * v"), {3}), 4); }

std::vector<TensorType> infer_count_valid(const OpCall& call) {
  expect_integer(call, 0);
  return {{DType::F64, {}}};
}
FactorRule all_summed_rule(const OpCall& call) { return costing(rule_from(call, "* -> ", {{"*", FactorKind::Sum}}), 1); }

std::vector<TensorType> infer_row_max(const OpCall& call) {
  expect_float(call, 0);
  expect_rank_at_least(call, 0, 1);
  return {row_type(call, 0)};
}
FactorRule row_max_rule(const OpCall& call) { return costing(rule_from(call, "* v -> *", {{"v", FactorKind::Max}}), 1); }

std::vector<TensorType> infer_sum_exp(const OpCall& call) {
  const std::vector<TensorType> row = infer_row_max(call);
  expect_type(call, 1, row[0].dtype, row[0].shape);
  return row;
}
FactorRule sum_exp_rule(const OpCall& call) { return costing(rule_from(call, "* v, * -> *", {{"v", FactorKind::Sum}}), 3); }

std::vector<TensorType> infer_pick(const OpCall& call) {
  expect_labels(call, 0, 1);
  return {row_type(call, 0)};
}
FactorRule pick_rule(const OpCall& call) { return linear_in(rule_from(call, "* v, * -> *", {{"v", FactorKind::Picked}}), {0}); }

/// (maximum, sum of exponentials, picked logit, labels) → nll_sum, lse
std::vector<TensorType> infer_xent_merge(const OpCall& call) {
  expect_float(call, 0);
  const TensorType& row = call.operands[0];
  if (row.dtype != wide(row.dtype)) refuse_operand(call, 0, "f64 or f32");
  expect_type(call, 1, row.dtype, row.shape);
  expect_type(call, 2, row.dtype, row.shape);
  expect_integer(call, 3);
  expect_shape(call, 3, row.shape);
  return {{row.dtype, {}}, row};
}
FactorRule xent_merge_rule(const OpCall& call) { return costing(rule_from(call, "*, *, *, * -> , *", {{"*", FactorKind::Sum}}), 4); }

std::vector<TensorType> infer_sq_error(const OpCall& call) {
  expect_float(call, 0);
  expect_type(call, 1, call.operands[0].dtype, call.operands[0].shape);
  return {scalar_of(call.operands[0])};
}
FactorRule sq_error_rule(const OpCall& call) { return costing(rule_from(call, "*, * -> ", {{"*", FactorKind::Sum}}), 3); }

void derive_sq_error(Derivation& d) {
  for (std::size_t i = 0; i < 2; ++i)
    if (d.needs(i)) d.set_operand_grad(i, d.emit(d.phase(i), Op::SqErrorBI, {d.operand(i), d.operand(1 - i), d.result_grad()}));
}

std::vector<TensorType> infer_sq_error_bi(const OpCall& call) {
  const TensorType scalar = infer_sq_error(call)[0];
  expect_type(call, 2, scalar.dtype, {});
  return {call.operands[0]};
}
FactorRule sq_error_bi_rule(const OpCall& call) { return costing(linear_in(rule_from(call, "*, *, -> *"), {2}), 3); }

/// The count is an attribute or operand `count`, and not both.
void expect_count(const OpCall& call, std::size_t count) {
  const LossAttrs& attrs = attrs_of<LossAttrs>(call);
  expect_finite(call, "weight", attrs.weight);
  const bool operand = call.operands.size() > count;
  if (attrs.count && operand) refuse_attr(call, "count", std::to_string(*attrs.count), "none where an operand states it");
  if (!attrs.count && !operand) refuse_attr(call, "count", "none", "an integer, or an operand that states it");
  if (attrs.count && *attrs.count < 0) refuse_attr(call, "count", std::to_string(*attrs.count), "an integer that is not negative");
  if (operand) expect_type(call, count, DType::F64, {});
}

std::vector<TensorType> infer_loss(const OpCall& call) {
  expect_float(call, 0);
  expect_shape(call, 0, {});
  expect_count(call, 1);
  return {call.operands[0]};
}
FactorRule loss_rule(const OpCall& call) { return costing(linear_in(rule_from(call, "-> "), {0}), 2); }

/// The gradient that enters a loss is 1.
void derive_loss(Derivation& d) {
  const bool counted = d.graph()[d.forward()].operand_count > 1;
  if (counted && d.needs(1))
    throw Error("differentiate: the count of " + describe(d.graph(), d.forward()) +
                " depends on a trainable parameter, expected on inputs alone");
  const LossAttrs attrs = std::get<LossAttrs>(d.attrs());
  const ValueId scale = counted ? d.emit(Phase::BI, Op::LossScale, {d.operand(1)}, attrs) : d.emit(Phase::BI, Op::LossScale, {}, attrs);
  const DType dtype = d.graph().type(d.operand(0)).dtype;
  d.set_operand_grad(0, dtype == DType::F64 ? scale : d.emit(Phase::BI, Op::Cast, {scale}, CastAttrs{dtype}));
}

std::vector<TensorType> infer_loss_scale(const OpCall& call) {
  expect_count(call, 0);
  return {{DType::F64, {}}};
}
FactorRule loss_scale_rule(const OpCall& call) { return costing(rule_from(call, "-> "), 1); }

constexpr auto kNone = attrs_index<NoAttrs>();
constexpr auto kLabel = attrs_index<LabelAttrs>();
constexpr auto kLoss = attrs_index<LossAttrs>();
const OpInfo kOps[] = {
    {Op::SoftmaxXent, "softmax_xent", "sum of the cross-entropies of logits[...,v] with labels[...]; also each row's log-sum-exp",
     OpClass::Compute, 2, 2, kLabel, infer_softmax_xent, softmax_xent_rule, derive_softmax_xent},
    {Op::SoftmaxXentBI, "softmax_xent_bi",
     "gradient of softmax_xent for the logits, from logits, labels, log-sum-exp and the gradient of the sum", OpClass::Compute, 4, 4,
     kLabel, infer_softmax_xent_bi, softmax_xent_bi_rule, nullptr},
    {Op::CountValid, "count_valid", "number of labels that are not ignored", OpClass::Compute, 1, 1, kLabel, infer_count_valid,
     all_summed_rule, nullptr},
    {Op::RowMax, "row_max", "maximum of each row", OpClass::Compute, 1, 1, kNone, infer_row_max, row_max_rule, nullptr},
    {Op::SumExp, "sum_exp", "sum of exp(x - m) of each row", OpClass::Compute, 2, 2, kNone, infer_sum_exp, sum_exp_rule, nullptr},
    {Op::Pick, "pick", "the element of each row that its label picks, 0 where it is ignored", OpClass::Compute, 2, 2, kLabel, infer_pick,
     pick_rule, nullptr},
    {Op::XentMerge, "xent_merge", "softmax_xent from each row's maximum, sum of exponentials and picked logit", OpClass::Compute, 4, 4,
     kLabel, infer_xent_merge, xent_merge_rule, nullptr},
    {Op::SqError, "sq_error", "sum of the squares of x - y", OpClass::Compute, 2, 2, kNone, infer_sq_error, sq_error_rule, derive_sq_error},
    {Op::SqErrorBI, "sq_error_bi", "gradient of sq_error for x, from x, y and the gradient of the sum", OpClass::Compute, 3, 3, kNone,
     infer_sq_error_bi, sq_error_bi_rule, nullptr},
    {Op::Loss, "loss", "weight * sum / count: the only place where a scale is stated", OpClass::Compute, 1, 2, kLoss, infer_loss, loss_rule,
     derive_loss},
    {Op::LossScale, "loss_scale", "weight / count: where backward starts", OpClass::Compute, 0, 1, kLoss, infer_loss_scale, loss_scale_rule,
     nullptr},
};

}  // namespace

std::span<const OpInfo> loss_ops() { return kOps; }

}  // namespace skirl
