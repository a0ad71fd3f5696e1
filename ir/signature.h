#pragma once

#include <map>
#include <string>

#include "ir/graph.h"

namespace skirl {

/// The inputs that a step is given: name → whole type. Several Input nodes may have one name (one for each mesh that reads it, one for each
/// microbatch); a node with an origin stands for the elements [origin, origin + size) of the whole along each dimension.
std::map<std::string, TensorType> whole_inputs(const Graph& graph);

/// Where the piece of an Input node starts in the whole, for each dimension.
Shape input_offset(const Graph& graph, NodeId input);

}  // namespace skirl
