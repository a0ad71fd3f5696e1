#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"

/// The text form of a graph; `docs/graph.md` has its grammar.
namespace skirl {

/// The graph as text, in topological order with values renumbered: print(parse(print(g))) == print(g), byte for byte. Parsing it gives the
/// ids of compact(g). Nodes on a cycle come last.
std::string print(const Graph& graph);
/// The same in an order of the caller's: every live node once.
std::string print(const Graph& graph, std::span<const NodeId> order);

/// Reads the text form: a graph of any state, or a model (forward part; `dim`, `repeat` and nested expressions are expanded).
/// `set` replaces the values of `dim` lines by name. Throws Error with `file`, line, what was found and what was expected.
///
/// Limits    nesting 64; dimensions up to 2^40 and tensors up to 2^48 elements; rank 32; 10 million nodes, 40 million operands and control
///           edges; what `repeat` expands to: 1 GiB of text.
Graph parse(std::string_view text, std::string_view file = "<text>", const std::map<std::string, std::int64_t>& set = {});
/// The same for a part of a file that starts at line `first_line`.
Graph parse(std::string_view text, std::string_view file, const std::map<std::string, std::int64_t>& set, std::uint32_t first_line);

}  // namespace skirl
