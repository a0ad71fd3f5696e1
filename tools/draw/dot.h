#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"

/// Pictures of a graph: DOT through cgraph, SVG through Graphviz's `nop2` engine. Skirl computes all coordinates itself (x: place in the
/// topological order, y: devices and stream), so that 10,000 nodes take well under a second.
namespace skirl {

/// Above this many nodes a picture is folded unless asked otherwise.
inline constexpr std::size_t kFoldAbove = 300;

struct DrawOptions {
  /// Draws the nodes for which it is true; none: all.
  std::function<bool(NodeId)> filter;
  /// Merges nodes on the same devices and stream with equal values of these tags ("MB", "LAYER"; PASS is the phase). Empty: every node.
  std::vector<std::string> fold;
  std::string title;
};

/// Tags by which a graph of more than kFoldAbove nodes is folded: as many as keep the picture at 100 or fewer. Empty for a smaller one.
std::vector<std::string> default_fold(const Graph& graph);

/// Colour: phase. Shape: boxes compute, hexagons change a layout, arrows are transfers. Dashed edges are control edges; thick ones cross to
/// other devices. One cluster a mesh.
std::string to_dot(const Graph& graph, const DrawOptions& options = {});
/// The same as SVG. Throws Error if `path` cannot be written.
void write_svg(const Graph& graph, const DrawOptions& options, const std::string& path);

}  // namespace skirl
