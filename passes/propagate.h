#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/graph.h"
#include "ir/rules.h"

namespace skirl {

/// How a value stands along one axis: whole on each member, cut along `dim`, or one term of a sum (maximum) on each.
struct AxisState {
  enum class Kind : std::uint8_t { Replicate, Shard, Partial } kind = Kind::Replicate;
  /// What a cut is for. Work and Weight are cuts for computing: Work comes from the inputs (batch, sequence) and is where values rest;
  /// Weight comes from a cut parameter and goes before Work, since data moves and parameters stay. Held is a cut that an operator was told
  /// to work in and that ends with it. Storage says how a parameter, a gradient or a state is kept.
  enum class Use : std::uint8_t { Work, Weight, Held, Storage } use = Use::Work;
  std::uint8_t dim = 0;                  // of Shard
  Reduction reduction = Reduction::Sum;  // of Partial
  std::uint16_t style = 0;               // of Shard: which of the styles, 0 in even pieces
  std::int16_t turn = 0;                 // of Shard: coordinate c holds the piece of coordinate c + turn
  bool operator==(const AxisState&) const = default;

  static AxisState replicate(Use use = Use::Work) { return {Kind::Replicate, use, 0, Reduction::Sum, 0, 0}; }
  static AxisState shard(std::size_t dim, Use use = Use::Work, std::uint16_t style = 0, std::int16_t turn = 0) {
    return {Kind::Shard, use, static_cast<std::uint8_t>(dim), Reduction::Sum, style, turn};
  }
  static AxisState partial(Reduction reduction = Reduction::Sum) { return {Kind::Partial, Use::Work, 0, reduction, 0, 0}; }
  bool is_replicate() const { return kind == Kind::Replicate; }
  bool is_shard() const { return kind == Kind::Shard; }
  bool is_partial() const { return kind == Kind::Partial; }
  bool is_weight() const { return is_shard() && use == Use::Weight; }
  /// Of a parameter that is cut over other axes and whole over this one, and of what comes of it.
  bool is_whole_weight() const { return is_replicate() && use == Use::Weight; }
  /// The same place for the data, whatever it is for.
  bool same_place(const AxisState& other) const {
    return kind == other.kind && dim == other.dim && reduction == other.reduction && style == other.style && turn == other.turn;
  }
};

/// The axis and what is known before: which nodes it covers and how the step's sources and updates stand along it.
struct PropagateParams {
  NameId axis;               // mesh axis; none for clones
  std::vector<bool> region;  // by node id; what is outside reads and gives whole values
  /// State of the value of an Input, Param or State node of the region, and of a parameter or state where an Output node gives it back.
  std::function<AxisState(NodeId)> source;
  /// State in which an update node of the region runs.
  std::function<AxisState(NodeId)> update;
  /// States that sources would have if no parameter were cut: from these follows where values rest between the operators that cut
  /// parameters cut. None: nothing rests anywhere but where it is made.
  std::function<AxisState(NodeId)> resting;
  /// Factor of the node's rule that it is to be cut along whatever its operands say; −1 none.
  std::function<int(NodeId)> held;
  std::vector<CutStyle> styles{CutStyle{}};  // that the states of sources name
  bool reduce_before_sum = false;            // ZeRO-2: a gradient's terms are reduced one by one
  /// Members of the axis are clones in time, not devices: what is computed from inputs alone and summed over them (a token count) is left
  /// whole.
  bool clones = false;
};

/// Why a value stands as it does.
struct Why {
  enum class Rule : std::uint8_t {
    Uncut,     // nobody's wish
    Given,     // a source, stored so
    Follows,   // the cut of `from`, an operand
    Update,    // the cut of the parameter that the gradient is for, or of the state that an update keeps
    Held,      // the operator was told to
    Rests,     // the cut that it would have if no parameter were cut
    Terms,     // a cut factor is summed over
    PassesOn,  // linear in `from`, which is Partial
  } rule = Rule::Uncut;
  ValueId from;
};

/// "follows", "given", …
const char* name(Why::Rule rule);

/// What propagation decides, as tables over ids.
struct Propagation {
  std::vector<NodeId> order;        // the topological order that it went by
  std::vector<AxisState> value;     // as produced
  std::vector<AxisState> reduced;   // of a Partial value: what its one reduction makes of it
  std::vector<AxisState> rest;      // where a value would lie if nothing were cut for parameters or held; empty: as produced
  std::vector<AxisState> operand;   // by UseId: what the reader needs
  std::vector<std::int8_t> factor;  // by NodeId: the factor of its rule that the axis cuts; −1 none
  std::vector<Why> why;             // by ValueId
  std::vector<CutStyle> styles;     // that the states name
};

/// Propagates along one axis through the factor rules. In this order: layouts of sources are given; an update runs in the layout of its
/// state; an operator reads a cut parameter as it is stored and works in its cut (data moves, parameters stay), as does the gradient of
/// such a parameter; other work of phases F, BI and BW is cut along the factors that come from the cuts of the inputs, phase U follows
/// storage; a sum of Partials is summed first, terms that are cast to a wider type are added in that one, and a gradient on its way to a
/// sum passes through what is linear in it; a Partial is reduced once, to what its readers need, the update behind it wishes, or where it
/// rests; nobody's wish, no cut. Changes nothing: the caller inserts the changes of layout (over devices: collectives; over clones:
/// slices, sums and concats). Linear in the graph.
///
/// Source    forward and backward propagation from a few seeds: Xu et al., GSPMD, arXiv:2105.04663, section 3.5.
Propagation propagate(const Graph& graph, Rules& rules, const PropagateParams& params);

}  // namespace skirl
