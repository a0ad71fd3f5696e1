#include <algorithm>

#include "ir/derivation.h"
#include "ir/error.h"
#include "ir/ops/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

/// The gradient of an operand that was broadcast, from that of the result.
ValueId reduced(Derivation& d, std::size_t operand, ValueId gradient) {
  const Shape shape = d.graph().type(d.operand(operand)).shape;
  if (d.graph().type(gradient).shape == shape) return gradient;
  return d.emit(d.phase(operand), Op::SumTo, {gradient}, ShapeAttrs{shape});
}

/// Size of dimension `dim` of a result of `rank` dimensions in an operand that is aligned to the right; 1 where it has none.
std::int64_t aligned_size(const Shape& shape, std::size_t rank, std::size_t dim) {
  return dim + shape.size() < rank ? 1 : shape[dim + shape.size() - rank];
}

std::vector<TensorType> infer_broadcast(const OpCall& call) {
  expect_float(call, 0);
  const TensorType& a = call.operands[0];
  const TensorType& b = call.operands[1];
  const std::size_t rank = std::max(a.shape.size(), b.shape.size());
  Shape shape(rank);
  bool fits = a.dtype == b.dtype;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t left = aligned_size(a.shape, rank, d);
    const std::int64_t right = aligned_size(b.shape, rank, d);
    fits = fits && (left == right || left == 1 || right == 1);
    shape[d] = left == 1 ? right : left;
  }
  if (!fits)
    refuse_operand(
        call, 1, "the element type of operand 0, " + to_string(a) + ", and dimensions that equal its own, counted from the last, or are 1");
  return {legal(call, {a.dtype, shape})};
}

/// One factor a dimension of the result; an operand dimension of size 1 has it only where the result's is 1 too.
FactorRule broadcast_rule(const OpCall& call) {
  const Shape& result = call.results[0].shape;
  FactorRule rule = rule_from(OpCall{call.op, call.attrs, {}, call.results}, "-> *");
  for (const TensorType& operand : call.operands) {
    std::vector<DimFactors> dims;
    for (std::size_t d = 0; d < operand.shape.size(); ++d) {
      const std::size_t aligned = d + result.size() - operand.shape.size();
      const bool broadcast = operand.shape[d] == 1 && result[aligned] != 1;
      dims.push_back(broadcast ? DimFactors{} : DimFactors{static_cast<std::uint16_t>(aligned)});
    }
    rule.operands.push_back(std::move(dims));
  }
  rule.linear_operands.assign(call.operands.size(), 0);
  return costing(std::move(rule), 1);
}

FactorRule add_rule(const OpCall& call) { return linear_together(broadcast_rule(call)); }
FactorRule mul_rule(const OpCall& call) { return linear_in(broadcast_rule(call), {0, 1}); }

void derive_add(Derivation& d) {
  for (std::size_t i = 0; i < 2; ++i)
    if (d.needs(i)) d.set_operand_grad(i, reduced(d, i, d.result_grad()));
}

void derive_mul(Derivation& d) {
  for (std::size_t i = 0; i < 2; ++i)
    if (d.needs(i)) d.set_operand_grad(i, reduced(d, i, d.emit(d.phase(i), Op::Mul, {d.result_grad(), d.operand(1 - i)})));
}

std::vector<TensorType> infer_float(const OpCall& call) {
  expect_float(call, 0);
  return infer_same(call);
}

/// Two operands of one float type; the result has it too.
std::vector<TensorType> infer_float_pair(const OpCall& call) {
  expect_float(call, 0);
  expect_type(call, 1, call.operands[0].dtype, call.operands[0].shape);
  return {call.operands[0]};
}

FactorRule each_rule(const OpCall& call) { return costing(linear_in(rule_from(call, "* -> *"), {0}), 1); }
FactorRule activation_rule(const OpCall& call) { return costing(rule_from(call, "* -> *"), 10); }
FactorRule activation_grad_rule(const OpCall& call) { return costing(linear_in(rule_from(call, "* -> *"), {1}), 12); }

std::vector<TensorType> infer_scale(const OpCall& call) {
  expect_finite(call, "factor", attrs_of<ScaleAttrs>(call).factor);
  return infer_float(call);
}

void derive_scale(Derivation& d) { d.set_operand_grad(0, d.emit(d.phase(0), Op::Scale, {d.result_grad()}, d.attrs())); }
void derive_tanh(Derivation& d) { d.set_operand_grad(0, d.emit(d.phase(0), Op::TanhGrad, {d.result(), d.result_grad()})); }
void derive_gelu(Derivation& d) { d.set_operand_grad(0, d.emit(d.phase(0), Op::GeluGrad, {d.operand(0), d.result_grad()})); }
void derive_silu(Derivation& d) { d.set_operand_grad(0, d.emit(d.phase(0), Op::SiluGrad, {d.operand(0), d.result_grad()})); }

FactorRule swiglu_rule(const OpCall& call) { return costing(linear_in(rule_from(call, "*, * -> *"), {1}), 11); }
void derive_swiglu(Derivation& d) {
  const bool weights = (!d.needs(0) || d.phase(0) == Phase::BW) && (!d.needs(1) || d.phase(1) == Phase::BW);
  const NodeId both = d.emit_node(weights ? Phase::BW : Phase::BI, Op::SwigluGrad, {d.operand(0), d.operand(1), d.result_grad()});
  for (std::size_t i = 0; i < 2; ++i)
    if (d.needs(i)) d.set_operand_grad(i, d.graph().result(both, i));
}

/// (a, b, dy) → da, db
std::vector<TensorType> infer_swiglu_grad(const OpCall& call) {
  const std::vector<TensorType> y = infer_float_pair(call);
  expect_type(call, 2, y[0].dtype, y[0].shape);
  return {y[0], y[0]};
}
FactorRule swiglu_grad_rule(const OpCall& call) { return costing(linear_in(rule_from(call, "*, *, * -> *, *"), {2}), 15); }

std::vector<TensorType> infer_dropout(const OpCall& call) {
  const double p = attrs_of<DropoutAttrs>(call).p;
  if (!(p >= 0 && p < 1)) refuse_attr(call, "p", to_text(p), "a probability, 0 <= p < 1");
  return infer_float(call);
}

/// The same name and origin draw the same mask again.
void derive_dropout(Derivation& d) { d.set_operand_grad(0, d.emit(d.phase(0), Op::Dropout, {d.result_grad()}, d.attrs(), true)); }

std::vector<TensorType> infer_cast(const OpCall& call) { return {{attrs_of<CastAttrs>(call).dtype, call.operands[0].shape}}; }

FactorRule cast_rule(const OpCall& call) {
  FactorRule rule = costing(rule_from(call, "* -> *"), 1);
  return is_float(call.operands[0].dtype) && is_float(call.results[0].dtype) ? linear_in(std::move(rule), {0}) : rule;
}

void derive_cast(Derivation& d) {
  if (!is_float(d.graph().type(d.result()).dtype)) return;  // integers have no gradient
  d.set_operand_grad(0, d.emit(d.phase(0), Op::Cast, {d.result_grad()}, CastAttrs{d.graph().type(d.operand(0)).dtype}));
}

std::vector<TensorType> infer_sum(const OpCall& call) {
  expect_float(call, 0);
  for (std::size_t i = 1; i < call.operands.size(); ++i) expect_type(call, i, call.operands[0].dtype, call.operands[0].shape);
  const DType accumulate = attrs_of<SumAttrs>(call).accumulate;
  if (!is_float(accumulate)) refuse_attr(call, "accumulate", name(accumulate), "a float type (f64, f32, bf16, f16)");
  return {call.operands[0]};
}

FactorRule sum_rule(const OpCall& call) {
  return costing(linear_together(rule_from(call, "* -> *")), static_cast<double>(call.operands.size()) - 1);
}

void derive_sum(Derivation& d) {
  for (std::size_t i = 0; i < d.graph()[d.forward()].operand_count; ++i)
    if (d.needs(i)) d.set_operand_grad(i, d.result_grad());
}

std::vector<TensorType> infer_sum_to(const OpCall& call) {
  expect_float(call, 0);
  const Shape& from = call.operands[0].shape;
  const Shape& to = attrs_of<ShapeAttrs>(call).shape;
  bool fits = to.size() <= from.size();
  for (std::size_t d = 0; fits && d < to.size(); ++d) fits = to[d] == 1 || to[d] == from[d + from.size() - to.size()];
  if (!fits)
    refuse_operand(call, 0,
                   "dimensions that equal those of shape " + to_string(TensorType{call.operands[0].dtype, to}) +
                       ", counted from the last, where those are not 1");
  return {{call.operands[0].dtype, to}};
}

/// A dimension that is summed away is a Sum factor of the operand alone.
FactorRule sum_to_rule(const OpCall& call) {
  const Shape& from = call.operands[0].shape;
  const Shape& to = call.results[0].shape;
  FactorRule rule;
  rule.operands.resize(1);
  rule.results.resize(1);
  for (std::size_t d = 0; d < from.size(); ++d) {
    const bool missing = d + to.size() < from.size();
    const bool summed = missing || to[d + to.size() - from.size()] != from[d];
    const DimFactors factor{static_cast<std::uint16_t>(d)};
    rule.factors.push_back({"d" + std::to_string(d), from[d], summed ? FactorKind::Sum : FactorKind::Free});
    rule.operands[0].push_back(factor);
    if (!missing) rule.results[0].push_back(summed ? DimFactors{} : factor);
  }
  rule.linear_operands.assign(1, 0);
  return costing(linear_in(std::move(rule), {0}), 1);
}

/// Broadcasts by a product with ones: there the gradient may be Partial, as it is in the sum.
void derive_sum_to(Derivation& d) {
  const TensorType type = d.graph().type(d.operand(0));
  const ValueId ones = d.emit(d.phase(0), Op::Fill, {}, FillAttrs{type.shape, type.dtype, 1});
  d.set_operand_grad(0, d.emit(d.phase(0), Op::Mul, {d.result_grad(), ones}));
}

constexpr auto kNone = attrs_index<NoAttrs>();
const OpInfo kOps[] = {
    {Op::Add, "add", "a + b, with dimensions of size 1 broadcast", OpClass::Compute, 2, 2, kNone, infer_broadcast, add_rule, derive_add},
    {Op::Mul, "mul", "a * b, with dimensions of size 1 broadcast", OpClass::Compute, 2, 2, kNone, infer_broadcast, mul_rule, derive_mul},
    {Op::Scale, "scale", "x times a constant", OpClass::Compute, 1, 1, attrs_index<ScaleAttrs>(), infer_scale, each_rule, derive_scale},
    {Op::Tanh, "tanh", "hyperbolic tangent", OpClass::Compute, 1, 1, kNone, infer_float, activation_rule, derive_tanh},
    {Op::TanhGrad, "tanh_grad", "gradient of tanh from its result y and dy", OpClass::Compute, 2, 2, kNone, infer_float_pair,
     activation_grad_rule, nullptr},
    {Op::Gelu, "gelu", "gelu in its tanh form", OpClass::Compute, 1, 1, kNone, infer_float, activation_rule, derive_gelu},
    {Op::GeluGrad, "gelu_grad", "gradient of gelu from x and dy", OpClass::Compute, 2, 2, kNone, infer_float_pair, activation_grad_rule,
     nullptr},
    {Op::Silu, "silu", "x * sigmoid(x)", OpClass::Compute, 1, 1, kNone, infer_float, activation_rule, derive_silu},
    {Op::SiluGrad, "silu_grad", "gradient of silu from x and dy", OpClass::Compute, 2, 2, kNone, infer_float_pair, activation_grad_rule,
     nullptr},
    {Op::Swiglu, "swiglu", "silu(a) * b", OpClass::Compute, 2, 2, kNone, infer_float_pair, swiglu_rule, derive_swiglu},
    {Op::SwigluGrad, "swiglu_grad", "gradients of swiglu for a and b, from a, b and dy", OpClass::Compute, 3, 3, kNone, infer_swiglu_grad,
     swiglu_grad_rule, nullptr},
    {Op::SumTo, "sum_to", "sums dimensions away until the shape is reached (the derivative of broadcasting)", OpClass::Compute, 1, 1,
     attrs_index<ShapeAttrs>(), infer_sum_to, sum_to_rule, derive_sum_to},
    {Op::Dropout, "dropout", "zeroes elements with probability p and scales the rest by 1/(1-p)", OpClass::Compute, 1, 1,
     attrs_index<DropoutAttrs>(), infer_dropout, each_rule, derive_dropout},
    {Op::Sum, "sum", "adds any number of equal types, in order", OpClass::Compute, 1, -1, attrs_index<SumAttrs>(), infer_sum, sum_rule,
     derive_sum},
    {Op::Cast, "cast", "the same numbers in another element type", OpClass::Compute, 1, 1, attrs_index<CastAttrs>(), infer_cast, cast_rule,
     derive_cast},
};

}  // namespace

std::span<const OpInfo> elementwise_ops() { return kOps; }

}  // namespace skirl
