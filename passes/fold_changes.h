#pragma once

#include <cstddef>

#include "ir/graph.h"

namespace skirl {

/// Makes one of two changes of layout in a row where one does it, and puts a scatter before a reduction. Gives the number of pairs that
/// were rewritten. Only pairs of which one is over `axis`, and only where nobody else reads what lies between.
///
///   before   %b = all_reduce %a     : partial(x y) → partial(y)          after   %c = all_reduce %a : partial(x y) → Replicate
///            %c = all_reduce %b     : partial(y) → Replicate
///
///   before   %b = all_reduce %a     : partial(x y) → partial(y)          after   %b = reduce_scatter %a : partial(x y) → [y] partial(x)
///            %c = reduce_scatter %b : partial(y) → [y]                           %c = all_reduce %b     : [y] partial(x) → [y]
///
/// So do two gathers, two scatters and two slices make one; a slice of what was reduced is a scatter; what comes back to where it was is
/// nothing. The layout in between may be one that no single change makes, so this stands before verify.
///
/// Numerics  reassociates sums over the two axes.
std::size_t fold_changes(Graph& graph, NameId axis);

}  // namespace skirl
