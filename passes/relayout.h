#pragma once

#include <optional>
#include <string>

#include "passes/propagate.h"

namespace skirl {

struct RelayoutParams {
  NameId axis;
  bool outermost = false;  // cuts for computing go outside the cuts that are there, so that these are gathered first; storage goes inside
  bool regather = false;   // backward gathers anew what forward gathered, instead of keeping it
  StreamId gather_stream = 0;
  StreamId reduce_stream = 0;
  std::optional<Tag> tag;  // that all communication gets
};

/// Puts the states that propagation decided into layouts, and the changes between them into the graph: one for each state that readers
/// need, shared by them (but each reader of a stored parameter gathers for itself), and folded with the changes of other axes around it.
/// Gives the number of values that are cut or Partial.
std::size_t relayout(Graph& graph, const Propagation& plan, const RelayoutParams& params);

}  // namespace skirl
