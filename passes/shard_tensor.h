#pragma once

#include <string>
#include <vector>

#include "passes/filter.h"
#include "passes/pass.h"

namespace skirl {

/// What shard_tensor cuts over an axis.
struct ShardTensorParams {
  enum class Cut : std::uint8_t {
    Inner,       // dimensions between two matrices (heads, feed-forward, low ranks' wide sides) and the vocabulary
    Width,       // what Inner cannot: the width of the residual stream, norms opened
    Bottleneck,  // as Inner, then the width of those parameters that Inner leaves whole: for low-rank layers
    Sequence,    // the sequence dimension of the inputs, parameters whole
    Params,      // the dimensions of `params` and all that go with them
  };
  enum class Attention : std::uint8_t { Gather, Ulysses, Ring };
  struct Seed {
    std::string param;  // name; * stands for any characters
    std::int64_t dim = 0;
  };

  Filter filter;
  /// One axis, or two, the outer one first: heads of keys and values are cut over the outer one, those of queries over both.
  std::vector<std::string> axes{"tp"};
  Cut cut = Cut::Inner;
  std::vector<Seed> params;
  bool sequence = false;                    // sequence parallelism: what is not cut along a parameter is cut along the sequence
  bool regather = false;                    // backward gathers anew what forward gathered along the sequence, instead of keeping it
  Attention attention = Attention::Gather;  // of Cut::Sequence: how queries meet the keys of other devices
  std::string gather_stream = "gather";
  std::string reduce_stream = "reduce";
};

/// Tensor, sequence and context parallelism over a mesh axis: says how parameters (or inputs) lie, and leaves all else to propagation.
///
///   before   %h = einsum "bd,df->bf" %x %w1 : f64[8,16] @s0         after   %h = einsum … : f64[8,16] @s0 [-, tp]
///            %y = einsum "bf,fd->bd" %h %w2 : f64[8,4] @s0                  %y = einsum … : f64[8,4] @s0 partial(tp)
///                                                                           %r = all_reduce %y : f64[8,4] @s0
///
/// Cuts are chosen by classes of dimensions (passes/dimension_classes.h); no parameter is cut twice over an axis, and where two classes
/// meet in one parameter the one that costs less to sum is taken. An operator that needs a cut dimension whole is opened.
/// Attention with fewer heads of keys than devices: over one axis its queries are cut within each group, keys and values stay whole
/// and their gradients are Partial.
///
/// Shapes    no size need divide; a device may hold nothing.
/// Requires  the region is placed on meshes that have the axis; stands before replicate, so that storage lies within.
/// Numerics  reassociates sums over cut dimensions.
/// Errors    throws Error if no matching node is on a mesh with the axis, nothing there can be cut, or a seed names no parameter or a
///           dimension that an operator needs whole.
/// Source    Shoeybi et al., Megatron-LM, arXiv:1909.08053; Korthikanti et al., arXiv:2205.05198 (sequence parallelism); Xu and You, An
///           Efficient 2D Method for Training Super-Large Deep Learning Models, arXiv:2104.05343; Jacobs et al., DeepSpeed Ulysses,
///           arXiv:2309.14509; Liu et al., Ring Attention, arXiv:2310.01889.
Graph shard_tensor(Graph graph, const ShardTensorParams& params);

PassInfo shard_tensor_pass();

}  // namespace skirl
