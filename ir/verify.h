#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace skirl {

/// One broken rule. `rule` is its number ("R4"), `message` names the node, its tags, what was found and what was expected.
struct Breach {
  int rule = 0;
  NodeId node;
  std::string message;
};

/// All breaches of the rules that `docs/graph.md` lists; empty for a valid graph. Cost is linear in the graph.
std::vector<Breach> verify(const Graph& graph);

}  // namespace skirl
