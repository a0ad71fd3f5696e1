#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.h"

/// Small graphs that are placed and cut by hand, for tests of lowering and the runtime.
namespace skirl {

/// Data parallelism over two devices: gradients reduced on a stream of their own, sgd with momentum. 5 rows: 3 and 2.
Graph dp_step();
/// ZeRO-3 in small over three devices and 2 rows of parameters (one shard is empty): gathers, reduce_scatter, adamw on shards.
Graph sharded_step();
/// Two stages of two microbatches each on a device of its own, with transfers both ways and control edges through a fence.
Graph pipeline_step();
/// A parameter used on two meshes: it lives on their union, is read through views, and its gradients are joined.
Graph union_step();
/// `nodes` random operations over three streams of `devices` devices, some of them changes of layout. Same seed, same graph.
Graph random_step(std::uint64_t seed, int devices, int nodes, std::int64_t width = 4);

}  // namespace skirl
