#pragma once

#include <string>
#include <utility>
#include <vector>

#include "passes/filter.h"
#include "passes/pass.h"

namespace skirl {

struct PlaceParams {
  Filter filter;
  std::vector<DeviceId> devices;                           // row-major over the axes
  std::vector<std::pair<std::string, std::int64_t>> axes;  // name and size, outermost first; empty: one axis "dp"
  std::string stream = "p2p";                              // of the transfers that it inserts
};

/// Puts the matching forward and backward nodes on a mesh, every axis Replicate. What stands around them follows: inputs live wherever they
/// are read; a parameter lives on the union of the meshes that read it (its gradient is joined there) as soon as all of them are placed,
/// or, where they have no union, on the first of them; update nodes go with their parameter; norms and sums over several meshes live on the
/// union. Every other value that crosses meshes is sent and received once for each mesh that reads it.
///
/// Requires  verify(g) is clean; the matching nodes are at home.
/// Errors    throws Error if the filter matches nothing, a node is placed already, a device is listed twice, or the axes do not multiply to
/// the devices.
Graph place(Graph graph, const PlaceParams& params);

PassInfo place_pass();

}  // namespace skirl
