#pragma once

#include "ir/graph.h"

namespace skirl {

/// Puts in the place of a node the operators that it opens into: the same values, from operators that can be cut where it is Whole.
/// False, with the graph as it was, where its operator has no opening.
///
///   before   %n, %l = softmax_xent %x %t
///   after    %m = row_max %x
///            %e = sum_exp %x %m
///            %p = pick %x %t
///            %n, %l = xent_merge %m %e %p %t
///
/// Shapes    unchanged; the new values of a row lie like %l.
/// Numerics  the same additions in the same order.
bool open(Graph& graph, NodeId node);

}  // namespace skirl
