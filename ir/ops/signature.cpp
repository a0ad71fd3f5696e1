#include <array>
#include <cmath>

#include "ir/error.h"
#include "ir/ops/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

const std::array<std::string_view, 3> kInits = {"normal", "uniform", "constant"};
const std::array<std::string_view, 5> kOutputKinds = {"loss", "metric", "gradient", "param", "state"};

template <std::size_t N>
void expect_word(const OpCall& call, std::string_view attr, const std::string& word, const std::array<std::string_view, N>& known) {
  for (const std::string_view k : known)
    if (k == word) return;
  refuse_attr(call, attr, '"' + word.substr(0, 64) + '"', "one of " + nearest_first(word, {known.begin(), known.end()}));
}

std::vector<TensorType> given(const OpCall& call) {
  SKIRL_CHECK(call.results.size() == 1, "the type of an input, parameter or state is given");
  return {legal(call, call.results[0])};
}

std::vector<TensorType> infer_input(const OpCall& call) {
  const InputAttrs& attrs = attrs_of<InputAttrs>(call);
  const std::vector<TensorType> types = given(call);
  const auto rank = static_cast<std::int64_t>(types[0].shape.size());
  if (attrs.cut && (*attrs.cut < 0 || *attrs.cut >= rank))
    refuse_attr(call, "cut", std::to_string(*attrs.cut), "a dimension of " + to_string(types[0]));
  if (attrs.sequence && (*attrs.sequence < 0 || *attrs.sequence >= rank))
    refuse_attr(call, "sequence", std::to_string(*attrs.sequence), "a dimension of " + to_string(types[0]));
  if (attrs.sequence && attrs.sequence == attrs.cut)
    refuse_attr(call, "sequence", std::to_string(*attrs.sequence), "another dimension than cut, the batch");
  if (attrs.range && is_float(types[0].dtype)) refuse_attr(call, "range", std::to_string(*attrs.range), "none for " + to_string(types[0]));
  if (attrs.range && *attrs.range <= 0) refuse_attr(call, "range", std::to_string(*attrs.range), "a number above zero");
  return types;
}

std::vector<TensorType> infer_param(const OpCall& call) {
  const ParamAttrs& attrs = attrs_of<ParamAttrs>(call);
  expect_word(call, "init", attrs.init, kInits);
  if (attrs.init == "constant")
    expect_finite(call, "scale", attrs.scale);
  else
    expect_not_negative(call, "scale", attrs.scale);
  std::vector<TensorType> types = given(call);
  if (!is_float(types[0].dtype))
    throw Error("param: the result is " + to_string(types[0]) + ", expected a float type (f64, f32, bf16, f16)");
  return types;
}

std::vector<TensorType> infer_state(const OpCall& call) {
  std::vector<TensorType> types = given(call);
  if (!is_float(types[0].dtype))
    throw Error("state: the result is " + to_string(types[0]) + ", expected a float type (f64, f32, bf16, f16)");
  return types;
}

std::vector<TensorType> infer_output(const OpCall& call) {
  expect_word(call, "kind", attrs_of<OutputAttrs>(call).kind, kOutputKinds);
  return {};
}

FactorRule source_rule(const OpCall& call) { return rule_from(call, "-> *"); }

const OpInfo kOps[] = {
    {Op::Input, "input", "a value that enters the step, new in each", OpClass::Signature, 0, 0, attrs_index<InputAttrs>(), infer_input,
     source_rule, nullptr},
    {Op::Param, "param", "a parameter of the model", OpClass::Signature, 0, 0, attrs_index<ParamAttrs>(), infer_param, source_rule,
     nullptr},
    {Op::State, "state", "state of the optimizer, zero at the start", OpClass::Signature, 0, 0, attrs_index<StateAttrs>(), infer_state,
     source_rule, nullptr},
    {Op::Output, "output", "a value that leaves the step", OpClass::Signature, 1, 1, attrs_index<OutputAttrs>(), infer_output,
     identity_rule, nullptr},
};

}  // namespace

std::span<const OpInfo> signature_ops() { return kOps; }

}  // namespace skirl
