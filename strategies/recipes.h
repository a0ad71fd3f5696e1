#pragma once

#include <vector>

#include "strategies/registry.h"

namespace skirl {

/// The built-in recipes: ddp, pp, zero.
std::vector<StrategyInfo> recipe_table();

/// `place` of the matching nodes on pipeline rank `rank`: its devices are consecutive, over the axes inside pp (dp, cp, ep, tp, outermost
/// first).
Directive place_directive(Json filter, std::int64_t rank, const std::map<std::string, std::int64_t>& mesh);

}  // namespace skirl
