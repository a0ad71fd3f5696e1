#pragma once

#include <string>

#include "ir/op.h"

namespace skirl {

/// "b s h, h f -> b s f   h: sum   linear in each of operands 0, 1": a product of factors stands in parentheses, 1 for a dimension of
/// size 1, and kinds of factor that are not free follow.
std::string to_string(const FactorRule& rule);

/// The factor rule of an operator at example types; empty for operators that have none of their own.
std::string example_rule(Op op);

}  // namespace skirl
