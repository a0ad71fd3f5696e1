#pragma once

#include <string>
#include <vector>

#include "strategies/registry.h"

namespace skirl {

/// The directives that a strategy stands for, in the order in which they are applied.
///
/// A text ("pp(4, mb=16) + zero(1, dp=2)", the short form of strategies/grammar.h) names recipes, each at most once, in any order: their
/// directives are sorted into the legal order. It uses the devices 0…n−1, n the product of the degrees, on a mesh of the axes pp, dp, cp,
/// tp from outermost to innermost, or in `mesh_order` ("pp,tp,dp": neighbours along the last one have neighbouring numbers); where no
/// recipe places, everything is placed on all of them. A value that ends in ".json" is a file:
/// {"directives": […]} is applied in the order written; a bare array, as Piper writes it, in the legal order whatever the order of its
/// lines.
///
/// Errors    throws Error for malformed text (with a caret) or JSON (with the pointer), unknown recipes and arguments (nearest first), two
/// recipes that want one axis, and for what a recipe refuses.
std::vector<Directive> strategy_directives(const std::string& strategy, const GraphSignature& model, const Registry& registry,
                                           const std::string& mesh_order = {});

/// {"directives": […]}: a strategy file that stands for the same directives.
Json directives_to_json(const std::vector<Directive>& directives);
/// The same as text, one directive a line.
std::string directives_to_text(const std::vector<Directive>& directives);

}  // namespace skirl
