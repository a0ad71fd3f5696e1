#include <array>
#include <string>

#include "ir/derivation.h"
#include "ir/error.h"
#include "ir/ops/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

struct EinsumSpec {
  std::array<std::string, 2> operands;
  std::string result;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool letters_once(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (!is_letter(text[i]) || text.find(text[i], i + 1) != std::string::npos) return false;
  return true;
}

bool has(const std::string& text, char letter) { return text.find(letter) != std::string::npos; }

EinsumSpec read_spec(const OpCall& call) {
  const std::string& text = attrs_of<EinsumAttrs>(call).spec;
  const std::size_t comma = text.find(',');
  const std::size_t arrow = text.find("->");
  const auto refuse = [&](const std::string& expected) { refuse_attr(call, "spec", '"' + text.substr(0, 200) + '"', expected); };
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) refuse("two operands and a result, like \"bsh,hf->bsf\"");
  EinsumSpec spec{{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1)}, text.substr(arrow + 2)};
  for (const std::string& part : {spec.operands[0], spec.operands[1], spec.result})
    if (!letters_once(part)) refuse("letters, each at most once in an operand or the result, like \"bsh,hf->bsf\"");
  for (const char c : spec.result)
    if (!has(spec.operands[0], c) && !has(spec.operands[1], c)) refuse(std::string("letter '") + c + "' of the result in an operand");
  for (std::size_t i = 0; i < 2; ++i)
    for (const char c : spec.operands[i])
      if (!has(spec.operands[1 - i], c) && !has(spec.result, c))
        refuse(std::string("letter '") + c + "' of operand " + std::to_string(i) +
               " in the other operand or the result (sum_to sums a dimension of one)");
  return spec;
}

std::vector<TensorType> infer_einsum(const OpCall& call) {
  const EinsumSpec spec = read_spec(call);
  expect_float(call, 0);
  if (call.operands[1].dtype != call.operands[0].dtype)
    refuse_operand(call, 1, "the element type of operand 0, " + std::string(name(call.operands[0].dtype)));
  for (std::size_t i = 0; i < 2; ++i)
    if (call.operands[i].shape.size() != spec.operands[i].size())
      refuse_operand(call, i, std::to_string(spec.operands[i].size()) + " dimensions (\"" + spec.operands[i] + "\")");
  const Shape& a = call.operands[0].shape;
  const Shape& b = call.operands[1].shape;
  for (std::size_t d = 0; d < b.size(); ++d) {
    const std::size_t other = spec.operands[0].find(spec.operands[1][d]);
    if (other != std::string::npos && a[other] != b[d])
      refuse_operand(
          call, 1,
          std::string("size ") + std::to_string(a[other]) + " along '" + spec.operands[1][d] + "', " + dim_text(0, other, a[other]));
  }
  TensorType result{call.operands[0].dtype, {}};
  for (const char c : spec.result) {
    const std::size_t in_a = spec.operands[0].find(c);
    result.shape.push_back(in_a != std::string::npos ? a[in_a] : b[spec.operands[1].find(c)]);
  }
  return {legal(call, std::move(result))};
}

FactorRule einsum_rule(const OpCall& call) {
  const EinsumSpec spec = read_spec(call);
  FactorRule rule;
  std::string letters;
  const auto dims = [&](const std::string& part, const Shape& shape) {
    std::vector<DimFactors> result;
    for (std::size_t d = 0; d < part.size(); ++d) {
      if (!has(letters, part[d])) {
        letters += part[d];
        rule.factors.push_back({std::string(1, part[d]), shape[d], has(spec.result, part[d]) ? FactorKind::Free : FactorKind::Sum});
      }
      result.push_back({static_cast<std::uint16_t>(letters.find(part[d]))});
    }
    return result;
  };
  for (std::size_t i = 0; i < 2; ++i) rule.operands.push_back(dims(spec.operands[i], call.operands[i].shape));
  rule.results.push_back(dims(spec.result, call.results[0].shape));
  rule.linear_operands.assign(2, 0);
  return costing(linear_in(std::move(rule), {0, 1}), 2);
}

/// Each operand's gradient is the einsum of the result's gradient with the other operand: the spec turned round.
void derive_einsum(Derivation& d) {
  const std::string text = std::get<EinsumAttrs>(d.attrs()).spec;  // a copy: emitting interns attributes
  const std::size_t comma = text.find(',');
  const std::size_t arrow = text.find("->");
  const std::string a = text.substr(0, comma);
  const std::string b = text.substr(comma + 1, arrow - comma - 1);
  const std::string result = text.substr(arrow + 2);
  if (d.needs(0))
    d.set_operand_grad(0, d.emit(d.phase(0), Op::Einsum, {d.result_grad(), d.operand(1)}, EinsumAttrs{result + "," + b + "->" + a}));
  if (d.needs(1))
    d.set_operand_grad(1, d.emit(d.phase(1), Op::Einsum, {d.operand(0), d.result_grad()}, EinsumAttrs{a + "," + result + "->" + b}));
}

std::vector<TensorType> infer_embedding(const OpCall& call) {
  expect_float(call, 0);
  expect_rank(call, 0, 2);
  expect_integer(call, 1);
  TensorType result{call.operands[0].dtype, call.operands[1].shape};
  result.shape.push_back(call.operands[0].shape[1]);
  return {legal(call, std::move(result))};
}

FactorRule embedding_rule(const OpCall& call) { return linear_in(rule_from(call, "v h, * -> * h", {{"v", FactorKind::Picked}}), {0}); }

void derive_embedding(Derivation& d) {
  if (!d.needs(0)) return;
  const Shape table = d.graph().type(d.operand(0)).shape;
  d.set_operand_grad(0, d.emit(d.phase(0), Op::EmbeddingBW, {d.result_grad(), d.operand(1)}, ShapeAttrs{table}));
}

std::vector<TensorType> infer_embedding_bw(const OpCall& call) {
  expect_float(call, 0);
  expect_integer(call, 1);
  const Shape& shape = attrs_of<ShapeAttrs>(call).shape;
  TensorType result{call.operands[0].dtype, shape};
  if (shape.size() != 2) refuse_attr(call, "shape", to_string(result), "the 2 dimensions of the table");
  Shape rows = call.operands[1].shape;
  rows.push_back(shape[1]);
  expect_shape(call, 0, rows);
  return {legal(call, std::move(result))};
}

/// Every device adds the rows that fall into its part of the table.
FactorRule embedding_bw_rule(const OpCall& call) {
  const double table_rows = static_cast<double>(call.results[0].shape[0]);
  return costing(linear_in(rule_from(call, "* h, * -> v h", {{"*", FactorKind::Sum}}), {0}), table_rows > 0 ? 1 / table_rows : 0);
}

const OpInfo kOps[] = {
    {Op::Einsum, "einsum", "sum of products over the letters that are gone from the result", OpClass::Compute, 2, 2,
     attrs_index<EinsumAttrs>(), infer_einsum, einsum_rule, derive_einsum},
    {Op::Embedding, "embedding", "the rows of a table that the indices pick", OpClass::Compute, 2, 2, attrs_index<NoAttrs>(),
     infer_embedding, embedding_rule, derive_embedding},
    {Op::EmbeddingBW, "embedding_bw", "adds the rows of dy into a table at the indices", OpClass::Compute, 2, 2, attrs_index<ShapeAttrs>(),
     infer_embedding_bw, embedding_bw_rule, nullptr},
};

}  // namespace

std::span<const OpInfo> linear_ops() { return kOps; }

}  // namespace skirl
