#pragma once

#include <vector>

#include "ir/plan.h"

namespace skirl {

struct LowerParams {
  int threads_per_kernel = 1;
  std::string model;
  std::string strategy;
};

/// Turns a placed, verified graph into a plan: the one topological order (gathers of stored parameters late: directly before the first node they serve), a
/// program for each device, waits between streams, and buffers at fixed offsets in one arena a device.
/// Throws Error naming the nodes that are still at home `@`.
Plan lower(Graph graph, const LowerParams& params);

/// The program of one device of a graph that `prepare_lowering` has put in order; looks at no other device's program.
DeviceProgram lower_device(const Graph& graph, DeviceId device);

/// The graph compacted into lowering order (gathers late). Throws Error as `lower` does.
Graph prepare_lowering(Graph graph);

}  // namespace skirl
