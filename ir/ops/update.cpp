#include <cmath>

#include "ir/ops/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

std::vector<TensorType> infer_sum_sq(const OpCall& call) {
  expect_float(call, 0);
  return {{DType::F64, {}}};
}
FactorRule sum_sq_rule(const OpCall& call) { return costing(rule_from(call, "* -> ", {{"*", FactorKind::Sum}}), 2); }

std::vector<TensorType> infer_clip_coef(const OpCall& call) {
  const ClipAttrs& attrs = attrs_of<ClipAttrs>(call);
  expect_not_negative(call, "max_norm", attrs.max_norm);
  expect_not_negative(call, "eps", attrs.eps);
  expect_type(call, 0, DType::F64, {});
  return {call.operands[0], call.operands[0]};
}
FactorRule clip_coef_rule(const OpCall& call) { return costing(rule_from(call, "-> "), 4); }

void expect_decay(const OpCall& call, std::string_view attr, double value) {
  if (!(value >= 0 && value < 1)) refuse_attr(call, attr, to_text(value), "a number from 0 up to, not including, 1");
}

/// (parameter, gradient, states…) → the parameter and the states updated. Only the shapes must agree: gradients and states may be kept
/// in another precision.
std::vector<TensorType> updated(const OpCall& call) {
  std::vector<TensorType> results;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    expect_float(call, i);
    expect_shape(call, i, call.operands[0].shape);
    if (i != 1) results.push_back(call.operands[i]);
  }
  return results;
}

std::vector<TensorType> infer_sgd(const OpCall& call) {
  const SgdAttrs& attrs = attrs_of<SgdAttrs>(call);
  expect_not_negative(call, "lr", attrs.lr);
  expect_decay(call, "momentum", attrs.momentum);
  expect_not_negative(call, "weight_decay", attrs.weight_decay);
  if ((attrs.momentum > 0) != (call.operands.size() == 3))
    refuse_attr(call, "momentum", to_text(attrs.momentum),
                call.operands.size() == 3 ? "a number above 0 where there is a state operand" : "0 where there is no state operand");
  return updated(call);
}

std::vector<TensorType> infer_adamw(const OpCall& call) {
  const AdamWAttrs& attrs = attrs_of<AdamWAttrs>(call);
  expect_not_negative(call, "lr", attrs.lr);
  expect_decay(call, "beta1", attrs.beta1);
  expect_decay(call, "beta2", attrs.beta2);
  expect_not_negative(call, "eps", attrs.eps);
  expect_not_negative(call, "weight_decay", attrs.weight_decay);
  return updated(call);
}

FactorRule sgd_rule(const OpCall& call) { return costing(rule_from(call, "* -> *"), 6); }
FactorRule adamw_rule(const OpCall& call) { return costing(rule_from(call, "* -> *"), 16); }

const OpInfo kOps[] = {
    {Op::SumSq, "sum_sq", "sum of the squares of all elements, in f64", OpClass::Update, 1, 1, attrs_index<NoAttrs>(), infer_sum_sq,
     sum_sq_rule, nullptr},
    {Op::ClipCoef, "clip_coef", "min(1, max_norm / (norm + eps)) of a sum of squares; also the norm", OpClass::Update, 1, 1,
     attrs_index<ClipAttrs>(), infer_clip_coef, clip_coef_rule, nullptr},
    {Op::Sgd, "sgd", "stochastic gradient descent with momentum: parameter, gradient and momentum", OpClass::Update, 2, 3,
     attrs_index<SgdAttrs>(), infer_sgd, sgd_rule, nullptr},
    {Op::AdamW, "adamw", "AdamW: parameter, gradient and both moments", OpClass::Update, 4, 4, attrs_index<AdamWAttrs>(), infer_adamw,
     adamw_rule, nullptr},
};

}  // namespace

std::span<const OpInfo> update_ops() { return kOps; }

}  // namespace skirl
