#pragma once

#include <vector>

#include "passes/filter.h"
#include "passes/pass.h"

namespace skirl {

struct OrderParams {
  /// Cells in the order in which their device runs them; a cell of several filters is run as one, its members interleaved.
  std::vector<std::vector<Filter>> cells;
};

/// Puts control edges along a list of cells: what ends a cell comes before a `fence`, and the fence before what starts the next. Only
/// compute nodes are ordered; communication follows its data. The terms of gradient sums are sorted by the cells that make them: the order
/// of accumulation. A filter whose nodes have no work of its PASS (a frozen stage has no backward) is left out.
///
///   before   %a = tanh %x MB=0      %b = tanh %y MB=1
///   after    %a = tanh %x MB=0      fence after %a      %b = tanh %y after the fence MB=1
///
/// Errors    throws Error if there are fewer than two cells, a filter matches no compute node, a cell's nodes live on several meshes or two
/// cells on different ones, a node stands in two
///           cells, or the order contradicts the data (the cycle is printed).
Graph order(Graph graph, const OrderParams& params);

PassInfo order_pass();

}  // namespace skirl
