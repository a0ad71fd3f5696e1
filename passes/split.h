#pragma once

#include <cstdint>
#include <string>

#include "passes/filter.h"
#include "passes/pass.h"

namespace skirl {

struct SplitParams {
  Filter filter;                // the region; {} is the whole step
  std::string dim_name = "MB";  // tag of the clones
  std::int64_t num_microbatches = 1;
};

/// Clones a region along the batch: clone m has the tag `dim_name`=m and works on piece m of every value that is cut.
///
///   before   %y = tanh %x : f64[5,4]                     after   %y0 = tanh %x0 : f64[3,4]  MB=0
///            %l = sum_to %y {shape=[]} : f64[]                   %y1 = tanh %x1 : f64[2,4]  MB=1
///                                                                %l0 = sum_to %y0 …   %l1 = sum_to %y1 …
///                                                                %l = sum %l0 %l1 : f64[]
///
/// Inputs with a batch dimension are cloned too: clone m stands for rows origin…origin+size of the input of that name. What is computed
/// from inputs alone and summed over the batch (a token count) stays whole, so it can be there before the first backward. Shapes    the
/// batch need not divide: the first `n mod m` microbatches have one sample more. Requires  verify(g) is clean; nothing in the region is
/// placed yet. Numerics  reassociates sums over the batch. Errors    throws Error if there are more microbatches than samples, no input of
/// the region has a batch dimension, or the batch dimensions differ in size.
Graph split(Graph graph, const SplitParams& params);

PassInfo split_pass();

}  // namespace skirl
