#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace skirl {

struct PartitionParams {
  std::string tag = "LAYER";  // what numbers the layers
  std::string into = "PP";    // the stage tag that nodes get
  std::int64_t stages = 1;
  std::vector<std::int64_t> sizes;  // layers of each stage; empty: equal, the first `layers mod stages` one more
};

/// Gives every node of a training step a stage tag by its layer. A node without the layer tag goes with the data: forward nodes to the
/// latest stage among their operands, else (an embedding) to the earliest among their readers; backward nodes with their forward node;
/// update nodes with the gradient that they read, and get no tag where the terms come from several stages.
///
/// Errors    throws Error if there are fewer layers than stages, sizes do not add up to the layers or hold a 0, or no node has the tag.
Graph partition(Graph graph, const PartitionParams& params);

PassInfo partition_pass();

}  // namespace skirl
