#include <array>

#include "ir/error.h"
#include "ir/op.h"
#include "ir/ops/families.h"

namespace skirl {
namespace {

using Table = std::array<const OpInfo*, kOpCount>;

Table make_table() {
  Table table{};
  for (const auto family :
       {signature_ops, elementwise_ops, linear_ops, norm_ops, attention_ops, loss_ops, shape_ops, update_ops, communication_ops})
    for (const OpInfo& entry : family()) table[static_cast<std::size_t>(entry.op)] = &entry;
  for (const OpInfo* entry : table) SKIRL_CHECK(entry != nullptr, "an operator without an entry in the table");
  return table;
}

const Table& table() {
  static const Table entries = make_table();
  return entries;
}

int outermost(const std::vector<std::vector<DimFactors>>& tensors, std::size_t i, std::size_t dim) {
  const DimFactors& factors = tensors[i][dim];
  return factors.empty() ? -1 : factors.front();
}

int dim_led_by(const std::vector<std::vector<DimFactors>>& tensors, std::size_t i, int factor) {
  for (std::size_t d = 0; d < tensors[i].size(); ++d)
    if (!tensors[i][d].empty() && tensors[i][d].front() == factor) return static_cast<int>(d);
  return -1;
}

}  // namespace

const OpInfo& info(Op op) { return *table()[static_cast<std::size_t>(op)]; }

std::optional<Op> op_named(std::string_view name) {
  for (const OpInfo* entry : table())
    if (name == entry->name) return entry->op;
  return std::nullopt;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpInfo* entry : table()) names.emplace_back(entry->name);
  return names;
}

int FactorRule::operand_factor(std::size_t i, std::size_t dim) const { return outermost(operands, i, dim); }
int FactorRule::result_factor(std::size_t i, std::size_t dim) const { return outermost(results, i, dim); }
int FactorRule::operand_dim(std::size_t i, int factor) const { return dim_led_by(operands, i, factor); }
int FactorRule::result_dim(std::size_t i, int factor) const { return dim_led_by(results, i, factor); }

double flops(const FactorRule& rule) {
  double points = rule.flops_per_point;
  for (const Factor& factor : rule.factors) points *= static_cast<double>(factor.size);
  return points;
}

Attrs localized(const OpCall& call) {
  Attrs attrs = call.attrs;
  if (auto* shape = std::get_if<ShapeAttrs>(&attrs)) shape->shape = call.results[0].shape;
  if (auto* fill = std::get_if<FillAttrs>(&attrs)) fill->shape = call.results[0].shape;
  return attrs;
}

}  // namespace skirl
