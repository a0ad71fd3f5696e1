#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace skirl {

/// The graph as text, in topological order with values renumbered: print(parse(print(g))) == print(g), byte for byte.
std::string print(const Graph& graph);

/// Reads the text form: a graph of any state, or a model (forward part; `dim`, `repeat` and nested expressions are expanded).
/// `set` replaces the values of `dim` lines by name. Throws Error with `file`, line, what was found and what was expected.
Graph parse(std::string_view text, std::string_view file = "<text>", const std::map<std::string, std::int64_t>& set = {});

}  // namespace skirl
