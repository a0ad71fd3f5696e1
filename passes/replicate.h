#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "passes/filter.h"
#include "passes/pass.h"

namespace skirl {

struct ReplicateParams {
  Filter filter;
  std::string axis = "dp";
  std::vector<DeviceId> devices;            // as Piper files say it: the devices of the mesh; empty: any mesh with the axis
  bool shard_optimizer = false;             // ZeRO-1: states are stored in parts
  bool shard_grads = false;                 // ZeRO-2: gradients too, each term reduced as it is made
  bool shard_params = false;                // ZeRO-3: parameters too, gathered before each use
  std::optional<std::int64_t> bucket_size;  // MB; a wish that `bucket` carries out
  std::string gather_stream = "gather";
  std::string reduce_stream = "reduce";
};

/// Data parallelism over a mesh axis: the batch is cut, gradients are reduced once, and ZeRO says how states, gradients and parameters are
/// stored.
///
///   before   %g = einsum "bh,bf->hf" %x %dy : f64[4,4] @s0            after   %g = einsum … : f64[4,4] @s0 partial(dp)
///            %p, … = adamw %w %g …                                            %r = all_reduce %g : f64[4,4] @s0    (ZeRO ≥ 1:
///            reduce_scatter)
///
/// A parameter of the region, with its gradient and states, is stored cut along its first dimension that has an element for each device,
/// else along its largest; a scalar stays whole. Each reader of a stored parameter has a gather of its own. Shapes    no size need divide;
/// a device may hold no rows. Requires  the region is placed on meshes that have the axis. Numerics  reassociates sums over the batch.
/// Errors    throws Error if no matching node is on a mesh with the axis, or nothing there can be cut.
/// Source    Rajbhandari et al., arXiv:1910.02054, section 5.
Graph replicate(Graph graph, const ReplicateParams& params);

/// The dimension along which ZeRO stores a tensor of this shape over `parts` devices; none for a scalar.
std::optional<std::size_t> storage_dim(const Shape& shape, std::int64_t parts);

PassInfo replicate_pass();

}  // namespace skirl
