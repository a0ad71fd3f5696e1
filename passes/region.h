#pragma once

#include <vector>

#include "passes/filter.h"

namespace skirl {

/// By node id, what a directive about a mesh axis covers: matching work on meshes that have the axis, what feeds or follows it between
/// meshes, the sources that only it reads, and the updates behind it. Throws Error, in the name of `pass`, where matching work is on other
/// devices than `devices` (none: any), or nothing matches.
std::vector<bool> region_on_axis(const Graph& graph, const std::vector<NodeId>& order, const Filter& filter, std::vector<DeviceId> devices,
                                 NameId axis, const std::string& pass);

/// The axis of this name, which some mesh has; throws Error, in the name of `pass`, where nothing is placed or no mesh has it.
NameId axis_on_meshes(const Graph& graph, const std::string& axis, const std::string& pass);

/// Throws Error, in the name of `pass`, where the axis cuts a value of the region already.
void expect_axis_unused(const Graph& graph, const std::vector<bool>& region, NameId axis, const std::string& pass);

}  // namespace skirl
