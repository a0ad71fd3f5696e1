#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/graph.h"
#include "ir/rules.h"

namespace skirl {

/// How a value stands along one axis: whole on each member, cut along `dim`, or one term of a sum (maximum) on each. A cut is for storage
/// where it says how a parameter, a gradient or a state is kept, and for computing where it comes from the batch.
struct AxisState {
  enum class Kind : std::uint8_t { Replicate, Shard, Partial } kind = Kind::Replicate;
  std::uint8_t dim = 0;                  // of Shard
  bool storage = false;                  // of Shard
  Reduction reduction = Reduction::Sum;  // of Partial
  bool operator==(const AxisState&) const = default;

  static AxisState replicate() { return {}; }
  static AxisState shard(std::size_t dim, bool storage = false) {
    return {Kind::Shard, static_cast<std::uint8_t>(dim), storage, Reduction::Sum};
  }
  static AxisState partial(Reduction reduction = Reduction::Sum) { return {Kind::Partial, 0, false, reduction}; }
  bool is_replicate() const { return kind == Kind::Replicate; }
  bool is_shard() const { return kind == Kind::Shard; }
  bool is_partial() const { return kind == Kind::Partial; }
  /// The same place for the data, whatever it is for.
  bool same_place(const AxisState& other) const { return kind == other.kind && dim == other.dim && reduction == other.reduction; }
};

/// The axis and what is known before: which nodes it covers and how the step's sources and updates stand along it.
struct PropagateParams {
  std::vector<bool> region;  // by node id; what is outside reads and gives whole values
  /// State of the value of an Input, Param or State node of the region, and of a parameter or state where an Output node gives it back.
  std::function<AxisState(NodeId)> source;
  /// State in which an update node of the region runs.
  std::function<AxisState(NodeId)> update;
  bool reduce_before_sum = false;  // ZeRO-2: a gradient's terms are reduced one by one
  /// Members of the axis are clones in time, not devices: what is computed from inputs alone and summed over them (a token count) is left
  /// whole.
  bool clones = false;
};

/// What propagation decides, as tables over ids.
struct Propagation {
  std::vector<NodeId> order;        // the topological order that it went by
  std::vector<AxisState> value;     // as produced
  std::vector<AxisState> reduced;   // of a Partial value: what its one reduction makes of it
  std::vector<AxisState> operand;   // by UseId: what the reader needs
  std::vector<std::int8_t> factor;  // by NodeId: the factor of its rule that the axis cuts; −1 none
};

/// Propagates along one axis through the factor rules. In this order: layouts of sources are given; an update runs in the layout of its
/// state; work of phases F, BI and BW is cut only along the factors that come from computing cuts of the sources (the batch), phase U
/// follows storage; a sum of Partials is summed first, and terms that are cast to a wider type are added in that one; a Partial is reduced
/// once, to what the update behind it wishes, else to Replicate; nobody's wish, no cut. Changes nothing: the caller inserts the changes of
/// layout (over devices: collectives; over clones: slices, sums and concats). Linear in the graph.
Propagation propagate(const Graph& graph, Rules& rules, const PropagateParams& params);

}  // namespace skirl
