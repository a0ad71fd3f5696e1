#include <cmath>

#include "ir/derivation.h"
#include "ir/error.h"
#include "ir/ops/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

/// Dimension `dim` is Whole and has factors of its own in each operand and in the result; all others are Free.
FactorRule moving_rule(const OpCall& call, std::int64_t dim) {
  FactorRule rule;
  const auto whole = [&](const std::string& name, std::int64_t size) {
    rule.factors.push_back({name, size, FactorKind::Whole});
    return DimFactors{static_cast<std::uint16_t>(rule.factors.size() - 1)};
  };
  const Shape& result = call.results[0].shape;
  const auto at = static_cast<std::size_t>(dim);
  std::vector<DimFactors> dims;
  for (std::size_t d = 0; d < result.size(); ++d) {
    if (d == at) {
      dims.push_back(whole("to", result[d]));
    } else {
      dims.push_back({static_cast<std::uint16_t>(rule.factors.size())});
      rule.factors.push_back({"d" + std::to_string(d), result[d], FactorKind::Free});
    }
  }
  rule.results.push_back(dims);
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    dims[at] = whole(call.operands.size() == 1 ? "from" : "from" + std::to_string(i), call.operands[i].shape[at]);
    rule.operands.push_back(dims);
  }
  rule.linear_operands.assign(call.operands.size(), 0);
  return rule;
}

/// [start, start + size) lies within [0, whole).
void expect_range(const OpCall& call, std::int64_t start, std::int64_t size, std::int64_t whole) {
  if (start < 0 || start > whole) refuse_attr(call, "start", std::to_string(start), "0 to " + std::to_string(whole));
  if (size < 0 || size > whole - start)
    refuse_attr(call, "size", std::to_string(size),
                "0 to " + std::to_string(whole - start) + ", for it starts at " + std::to_string(start) + " of " + std::to_string(whole));
}

std::vector<TensorType> infer_slice(const OpCall& call) {
  const SliceAttrs& attrs = attrs_of<SliceAttrs>(call);
  TensorType result = call.operands[0];
  expect_dim(call, attrs.dim, result.shape.size());
  std::int64_t& size = result.shape[static_cast<std::size_t>(attrs.dim)];
  expect_range(call, attrs.start, attrs.size, size);
  size = attrs.size;
  return {result};
}
FactorRule slice_rule(const OpCall& call) { return linear_in(moving_rule(call, attrs_of<SliceAttrs>(call).dim), {0}); }

void derive_slice(Derivation& d) {
  const SliceAttrs attrs = std::get<SliceAttrs>(d.attrs());
  const std::int64_t size = d.graph().type(d.operand(0)).shape[static_cast<std::size_t>(attrs.dim)];
  d.set_operand_grad(0, d.emit(d.phase(0), Op::Pad, {d.result_grad()}, PadAttrs{attrs.dim, attrs.start, size}));
}

std::vector<TensorType> infer_pad(const OpCall& call) {
  const PadAttrs& attrs = attrs_of<PadAttrs>(call);
  TensorType result = call.operands[0];
  expect_dim(call, attrs.dim, result.shape.size());
  std::int64_t& size = result.shape[static_cast<std::size_t>(attrs.dim)];
  if (attrs.size < size)
    refuse_attr(call, "size", std::to_string(attrs.size),
                "at least " + std::to_string(size) + ", " + dim_text(0, static_cast<std::size_t>(attrs.dim), size));
  if (attrs.start < 0 || attrs.start > attrs.size - size)
    refuse_attr(call, "start", std::to_string(attrs.start), "0 to " + std::to_string(attrs.size - size));
  size = attrs.size;
  return {legal(call, result)};
}
FactorRule pad_rule(const OpCall& call) { return linear_in(moving_rule(call, attrs_of<PadAttrs>(call).dim), {0}); }

void derive_pad(Derivation& d) {
  const PadAttrs attrs = std::get<PadAttrs>(d.attrs());
  const std::int64_t size = d.graph().type(d.operand(0)).shape[static_cast<std::size_t>(attrs.dim)];
  d.set_operand_grad(0, d.emit(d.phase(0), Op::Slice, {d.result_grad()}, SliceAttrs{attrs.dim, attrs.start, size}));
}

std::vector<TensorType> infer_concat(const OpCall& call) {
  const std::int64_t dim = attrs_of<ConcatAttrs>(call).dim;
  TensorType result = call.operands[0];
  expect_dim(call, dim, result.shape.size());
  const auto at = static_cast<std::size_t>(dim);
  for (std::size_t i = 1; i < call.operands.size(); ++i) {
    TensorType expected = call.operands[i];
    if (expected.shape.size() != result.shape.size())
      refuse_operand(call, i, std::to_string(result.shape.size()) + " dimensions, as operand 0");
    const std::int64_t size = expected.shape[at];
    expected = call.operands[0];
    expected.shape[at] = size;
    expect_type(call, i, expected.dtype, expected.shape);
    result.shape[at] += size;
    legal(call, result);
  }
  return {result};
}
FactorRule concat_rule(const OpCall& call) { return linear_together(moving_rule(call, attrs_of<ConcatAttrs>(call).dim)); }

void derive_concat(Derivation& d) {
  const std::int64_t dim = std::get<ConcatAttrs>(d.attrs()).dim;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < d.graph()[d.forward()].operand_count; ++i) {
    const std::int64_t size = d.graph().type(d.operand(i)).shape[static_cast<std::size_t>(dim)];
    if (d.needs(i)) d.set_operand_grad(i, d.emit(d.phase(i), Op::Slice, {d.result_grad()}, SliceAttrs{dim, start, size}));
    start += size;
  }
}

std::vector<TensorType> infer_fill(const OpCall& call) {
  const FillAttrs& attrs = attrs_of<FillAttrs>(call);
  if (!is_float(attrs.dtype) && attrs.value != std::floor(attrs.value))
    refuse_attr(call, "value", to_text(attrs.value), "an integer for " + std::string(name(attrs.dtype)));
  if (!is_float(attrs.dtype)) expect_finite(call, "value", attrs.value);
  return {legal(call, {attrs.dtype, attrs.shape})};
}
FactorRule fill_rule(const OpCall& call) { return rule_from(call, "-> *"); }

std::vector<TensorType> infer_iota(const OpCall& call) {
  const Shape& shape = attrs_of<ShapeAttrs>(call).shape;
  if (shape.size() != 1) refuse_attr(call, "shape", "of " + std::to_string(shape.size()) + " dimensions", "one dimension, like [16]");
  return {legal(call, {DType::I64, shape})};
}
FactorRule iota_rule(const OpCall& call) { return rule_from(call, "-> s"); }

const OpInfo kOps[] = {
    {Op::Slice, "slice", "elements [start, start+size) of one dimension", OpClass::Compute, 1, 1, attrs_index<SliceAttrs>(), infer_slice,
     slice_rule, derive_slice},
    {Op::Pad, "pad", "zeros around the operand in one dimension, which then has `size` elements", OpClass::Compute, 1, 1,
     attrs_index<PadAttrs>(), infer_pad, pad_rule, derive_pad},
    {Op::Concat, "concat", "the operands one after another in one dimension", OpClass::Compute, 1, -1, attrs_index<ConcatAttrs>(),
     infer_concat, concat_rule, derive_concat},
    {Op::Fill, "fill", "one value everywhere", OpClass::Compute, 0, 0, attrs_index<FillAttrs>(), infer_fill, fill_rule, nullptr},
    {Op::Iota, "iota", "0, 1, 2, ...: each element's position in the whole", OpClass::Compute, 0, 0, attrs_index<ShapeAttrs>(), infer_iota,
     iota_rule, nullptr},
};

}  // namespace

std::span<const OpInfo> shape_ops() { return kOps; }

}  // namespace skirl
