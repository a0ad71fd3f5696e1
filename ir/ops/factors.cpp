#include "ir/ops/factors.h"

#include <algorithm>
#include <optional>
#include <string>

#include "ir/error.h"

namespace skirl {
namespace {

using Dim = std::vector<std::string_view>;  // the factors of a dimension; {"*"} for the dimensions that are left
using Operand = std::vector<Dim>;

std::vector<Operand> parse_side(std::string_view side) {
  std::vector<Operand> operands(1);
  bool bracket = false;
  for (std::size_t i = 0; i < side.size();) {
    const char c = side[i];
    if (c == ' ') {
      ++i;
    } else if (c == ',') {
      operands.emplace_back();
      ++i;
    } else if (c == '(') {
      operands.back().emplace_back();
      bracket = true;
      ++i;
    } else if (c == ')') {
      bracket = false;
      ++i;
    } else {
      const std::size_t end = std::min(side.find_first_of(" ,()", i), side.size());
      if (!bracket) operands.back().emplace_back();
      operands.back().back().push_back(side.substr(i, end - i));
      i = end;
    }
  }
  return operands;
}

class RuleReader {
 public:
  explicit RuleReader(FactorKinds kinds) : kinds_(kinds) {}

  /// Adds the dimensions of the tensors on one side of the line.
  std::vector<std::vector<DimFactors>> add(std::string_view side, std::span<const TensorType> tensors) {
    const std::vector<Operand> operands = parse_side(side);
    std::vector<std::vector<DimFactors>> result;
    for (std::size_t i = 0; i < tensors.size(); ++i) result.push_back(dims(operands[std::min(i, operands.size() - 1)], tensors[i].shape));
    return result;
  }

  /// Gives the factors that stand in brackets alone their sizes.
  FactorRule finish(FactorRule rule) {
    for (const auto& [dim_factors, size] : products_) {
      std::optional<std::uint16_t> open;
      std::int64_t known = 1;
      for (const std::uint16_t f : dim_factors) {
        if (known_[f])
          known *= rule_.factors[f].size;
        else
          open = f;
      }
      if (!open) continue;
      rule_.factors[*open].size = known == 0 ? 1 : size / known;
      known_[*open] = true;
    }
    rule.factors = std::move(rule_.factors);
    return rule;
  }

 private:
  std::vector<DimFactors> dims(const Operand& operand, const Shape& shape) {
    std::vector<DimFactors> result;
    for (const Dim& dim : operand) {
      if (dim.size() == 1 && dim.front() == "*") {
        SKIRL_CHECK(shape.size() + 1 >= operand.size(), "fewer dimensions than the rule states");
        const std::size_t count = shape.size() + 1 - operand.size();
        for (std::size_t k = 0; k < count; ++k) {
          const std::int64_t size = shape[result.size()];
          result.push_back({factor("d" + std::to_string(k), kind("*"), size)});
        }
        continue;
      }
      SKIRL_CHECK(result.size() < shape.size(), "more dimensions in the rule than in the value");
      const std::int64_t size = shape[result.size()];
      DimFactors factors;
      for (const std::string_view word : dim)
        factors.push_back(factor(std::string(word), kind(word), dim.size() == 1 ? std::optional(size) : std::nullopt));
      if (dim.size() > 1) products_.emplace_back(factors, size);
      result.push_back(std::move(factors));
    }
    SKIRL_CHECK(result.size() == shape.size(), "fewer dimensions in the rule than in the value");
    return result;
  }

  FactorKind kind(std::string_view word) const {
    for (const auto& [name, kind] : kinds_)
      if (name == word) return kind;
    return FactorKind::Free;
  }

  std::uint16_t factor(std::string name, FactorKind kind, std::optional<std::int64_t> size) {
    std::size_t i = 0;
    while (i < rule_.factors.size() && rule_.factors[i].name != name) ++i;
    if (i == rule_.factors.size()) {
      rule_.factors.push_back({std::move(name), 1, kind});
      known_.push_back(false);
    }
    if (size && !known_[i]) {
      rule_.factors[i].size = *size;
      known_[i] = true;
    }
    return static_cast<std::uint16_t>(i);
  }

  FactorKinds kinds_;
  FactorRule rule_;
  std::vector<bool> known_;
  std::vector<std::pair<DimFactors, std::int64_t>> products_;
};

}  // namespace

FactorRule rule_from(const OpCall& call, std::string_view line, FactorKinds kinds) {
  const std::size_t arrow = line.find("->");
  SKIRL_CHECK(arrow != std::string_view::npos, "a rule without an arrow");
  RuleReader reader(kinds);
  FactorRule rule;
  rule.operands = reader.add(line.substr(0, arrow), call.operands);
  rule.results = reader.add(line.substr(arrow + 2), call.results);
  rule.linear_operands.assign(call.operands.size(), 0);
  return reader.finish(std::move(rule));
}

FactorRule linear_in(FactorRule rule, std::initializer_list<std::size_t> operands) {
  rule.linear = Linear::Each;
  for (const std::size_t i : operands) rule.linear_operands[i] = 1;
  return rule;
}

FactorRule linear_together(FactorRule rule) {
  rule.linear = Linear::Together;
  std::fill(rule.linear_operands.begin(), rule.linear_operands.end(), std::uint8_t{1});
  return rule;
}

FactorRule costing(FactorRule rule, double flops_per_point) {
  rule.flops_per_point = flops_per_point;
  return rule;
}

FactorRule identity_rule(const OpCall& call) {
  FactorRule rule;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    std::vector<DimFactors> dims;
    for (std::size_t d = 0; d < call.operands[i].shape.size(); ++d) {
      dims.push_back({static_cast<std::uint16_t>(rule.factors.size())});
      const std::string name = "d" + std::to_string(d);
      rule.factors.push_back(
          {call.operands.size() == 1 ? name : "o" + std::to_string(i) + name, call.operands[i].shape[d], FactorKind::Free});
    }
    rule.operands.push_back(dims);
    if (i < call.results.size()) rule.results.push_back(std::move(dims));
  }
  rule.linear_operands.assign(call.operands.size(), 0);
  return rule;
}

}  // namespace skirl
