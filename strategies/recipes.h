#pragma once

#include <vector>

#include "strategies/registry.h"

namespace skirl {

/// The built-in recipes: cp, ddp, hsdp, pp, tp, tp2d, zero.
std::vector<StrategyInfo> recipe_table();

/// `place` of the matching nodes on the devices that have coordinate `rank` along pp, on a mesh of the other axes in the order of the
/// context.
Directive place_directive(Json filter, std::int64_t rank, const StrategyContext& context);

/// The mesh axes that stand for the axis tp of this degree: two, tp_kv and tp_q, where the model has fewer heads of keys than devices and
/// their number divides these, so that keys and values can be cut over the outer one alone.
std::vector<std::pair<std::string, std::int64_t>> tensor_axes(const GraphSignature& model, std::int64_t degree);

}  // namespace skirl
