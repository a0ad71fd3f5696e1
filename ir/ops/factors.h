#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "ir/op.h"

namespace skirl {

using FactorKinds = std::initializer_list<std::pair<std::string_view, FactorKind>>;

/// The factor rule that a line like "b s (g r) d, b t g d -> b s (g r)" states at the types of `call`. A word is a factor, brackets
/// hold the factors of one dimension, and `*` stands for all the dimensions that the words leave, the same wherever it stands (its
/// factors are named d0, d1, …, their kind is that of "*"). The last operand (result) of the line stands for all further ones. Kinds
/// that are not given are Free. Sizes follow from the dimensions; in brackets all but one must stand alone elsewhere.
FactorRule rule_from(const OpCall& call, std::string_view line, FactorKinds kinds = {});

/// The rule, linear in each of these operands alone.
FactorRule linear_in(FactorRule rule, std::initializer_list<std::size_t> operands);
/// The rule, linear in all operands together.
FactorRule linear_together(FactorRule rule);
/// The rule, with its cost.
FactorRule costing(FactorRule rule, double flops_per_point);

/// Every dimension of every operand a factor of its own, shared with the result of the same number.
FactorRule identity_rule(const OpCall& call);

}  // namespace skirl
