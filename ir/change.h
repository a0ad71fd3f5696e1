#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

/// The table of changes of layout. A collective leaves the global value and all axes that it does not change as they are:
///
///   all_reduce      Partial → Replicate          all_to_all   a cut of one dimension → of another, or other pieces of the same
///   reduce_scatter  Partial → cut                permute      the same pieces at other owners (a turned cut)
///   all_gather      cut → Replicate              local_slice  Replicate → cut; free
///   broadcast       cut → Replicate              zero_rest    Replicate → Partial; free
///
/// over one axis or several, which may cut one dimension or several. What the devices along the changed axes hold together of each
/// dimension is the same before and after.
namespace skirl {

/// The one collective that makes `to` of `from`, layouts of a value of global shape `shape` on one mesh; none if they are equal, if it
/// takes several, or if no collective makes it.
std::optional<Op> change_between(const Graph& graph, const Layout& from, const Layout& to, const Shape& shape);

/// Why the collective `op` does not make `to` of `from`; none if it does.
std::optional<std::string> change_fault(const Graph& graph, Op op, const Layout& from, const Layout& to, const Shape& shape);

}  // namespace skirl
