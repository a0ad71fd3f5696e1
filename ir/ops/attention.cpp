#include <cmath>

#include "ir/derivation.h"
#include "ir/error.h"
#include "ir/ops/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

std::vector<TensorType> infer_rope(const OpCall& call) {
  const RopeAttrs& attrs = attrs_of<RopeAttrs>(call);
  const auto positive = [&](const char* field, double value) {
    if (!std::isfinite(value) || value <= 0) refuse_attr(call, field, to_text(value), "a finite number above zero");
  };
  positive("base", attrs.base);
  if (attrs.factor.has_value() != attrs.low.has_value() || attrs.factor.has_value() != attrs.high.has_value() ||
      attrs.factor.has_value() != attrs.original.has_value())
    throw Error("rope: only some of factor, low, high and original are given, expected all or none");
  if (attrs.factor) {
    positive("factor", *attrs.factor);
    positive("low", *attrs.low);
    positive("high", *attrs.high);
    if (*attrs.high <= *attrs.low) refuse_attr(call, "high", to_text(*attrs.high), "a number above low, " + to_text(*attrs.low));
    if (*attrs.original <= 0) refuse_attr(call, "original", std::to_string(*attrs.original), "a number above zero");
  }
  expect_float(call, 0);
  expect_rank(call, 0, 4);
  if (call.operands[0].shape[3] % 2 != 0) refuse_operand(call, 0, "an even last dimension, for it is turned in pairs");
  return infer_same(call);
}

FactorRule rope_rule(const OpCall& call) {
  return costing(linear_in(rule_from(call, "b s n d -> b s n d", {{"d", FactorKind::Whole}}), {0}), 3);
}

void derive_rope(Derivation& d) {
  RopeAttrs attrs = std::get<RopeAttrs>(d.attrs());
  attrs.inverse = !attrs.inverse;
  d.set_operand_grad(0, d.emit(d.phase(0), Op::Rope, {d.result_grad()}, attrs, true));
}

/// Checks q[b s n d], k[b t m d], v[b t m e]; gives the types of o[b s n e] and of lse[b s n].
std::vector<TensorType> infer_attention(const OpCall& call) {
  const AttentionAttrs& attrs = attrs_of<AttentionAttrs>(call);
  expect_finite(call, "scale", attrs.scale);
  for (std::size_t i = 0; i < 3; ++i) {
    expect_float(call, i);
    expect_rank(call, i, 4);
    if (call.operands[i].dtype != call.operands[0].dtype)
      refuse_operand(call, i, "the element type of operand 0, " + std::string(name(call.operands[0].dtype)));
  }
  const Shape& q = call.operands[0].shape;
  const Shape& k = call.operands[1].shape;
  const Shape& v = call.operands[2].shape;
  if (k[0] != q[0]) refuse_operand(call, 1, "a batch of " + std::to_string(q[0]) + ", " + dim_text(0, 0, q[0]));
  if (k[3] != q[3]) refuse_operand(call, 1, "heads of width " + std::to_string(q[3]) + ", " + dim_text(0, 3, q[3]));
  if (k[2] == 0 ? q[2] != 0 : q[2] % k[2] != 0)
    refuse_operand(call, 1, "a number of heads that divides the " + std::to_string(q[2]) + " of the queries, " + dim_text(0, 2, q[2]));
  if (attrs.causal && k[1] < q[1])
    refuse_operand(call, 1, "at least as many keys as queries for causal attention, " + dim_text(0, 1, q[1]));
  if (v[0] != k[0] || v[1] != k[1] || v[2] != k[2])
    refuse_operand(call, 2, "the first three dimensions of the keys, " + to_string(call.operands[1]));
  return {legal(call, {call.operands[0].dtype, {q[0], q[1], q[2], v[3]}}), {wide(call.operands[0].dtype), {q[0], q[1], q[2]}}};
}

/// FLOPs of `qk` products over d and `pv` products over e for each pair of query and key, as a cost a point of all factors.
double attention_cost(const OpCall& call, double qk, double pv) {
  const double d = static_cast<double>(call.operands[0].shape[3]);
  const double e = static_cast<double>(call.operands[2].shape[3]);
  const double seen = attrs_of<AttentionAttrs>(call).causal ? 0.5 : 1;
  return d > 0 && e > 0 ? seen * 2 * (qk * d + pv * e) / (d * e) : 0;
}

FactorRule attention_rule(const OpCall& call) {
  const FactorKind rows = attrs_of<AttentionAttrs>(call).causal ? FactorKind::Prefix : FactorKind::Free;
  return costing(rule_from(call, "b s (g r) d, b t g d, b t g e -> b s (g r) e, b s (g r)",
                           {{"s", rows}, {"t", FactorKind::Whole}, {"d", FactorKind::Whole}}),
                 attention_cost(call, 1, 1));
}

void derive_attention(Derivation& d) {
  if (d.result_grad(1).valid())
    throw Error("differentiate: a loss depends on result 1 of " + describe(d.graph(), d.forward()) + ", expected on result 0 only");
  const AttentionAttrs attrs = std::get<AttentionAttrs>(d.attrs());
  const NodeId all = d.emit_node(Phase::BI, Op::AttentionBI,
                                 {d.operand(0), d.operand(1), d.operand(2), d.result(0), d.result(1), d.result_grad()}, attrs, true);
  for (std::size_t i = 0; i < 3; ++i)
    if (d.needs(i)) d.set_operand_grad(i, d.graph().result(all, i));
}

std::vector<TensorType> infer_attention_bi(const OpCall& call) {
  const std::vector<TensorType> forward = infer_attention(call);
  expect_type(call, 3, forward[0].dtype, forward[0].shape);
  expect_type(call, 4, forward[1].dtype, forward[1].shape);
  expect_type(call, 5, forward[0].dtype, forward[0].shape);
  return {call.operands[0], call.operands[1], call.operands[2]};
}

/// Queries and their repeats add up in dk and dv; the value width adds up in dq and dk.
FactorRule attention_bi_rule(const OpCall& call) {
  return costing(
      linear_in(
          rule_from(
              call, "b s (g r) d, b t g d, b t g e, b s (g r) e, b s (g r), b s (g r) e -> b s (g r) d, b t g d, b t g e",
              {{"s", FactorKind::Sum}, {"r", FactorKind::Sum}, {"e", FactorKind::Sum}, {"t", FactorKind::Whole}, {"d", FactorKind::Whole}}),
          {5}),
      attention_cost(call, 3, 2));
}

constexpr auto kAttention = attrs_index<AttentionAttrs>();
const OpInfo kOps[] = {
    {Op::Rope, "rope", "rotary positions: turns the pairs (i, i+d/2) of x[b,s,n,d] by the position along s", OpClass::Compute, 1, 1,
     attrs_index<RopeAttrs>(), infer_rope, rope_rule, derive_rope},
    {Op::Attention, "attention", "softmax(scale q k') v for q[b,s,n,d], k[b,t,m,d], v[b,t,m,e], heads of q grouped; also the log-sum-exp",
     OpClass::Compute, 3, 3, kAttention, infer_attention, attention_rule, derive_attention},
    {Op::AttentionBI, "attention_bi", "gradients of attention for q, k and v, from q, k, v, its two results and do", OpClass::Compute, 6, 6,
     kAttention, infer_attention_bi, attention_bi_rule, nullptr},
};

}  // namespace

std::span<const OpInfo> attention_ops() { return kOps; }

}  // namespace skirl
