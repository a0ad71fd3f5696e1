#include "passes/relayout.h"

#include <unordered_map>

namespace skirl {
namespace {

using Use = AxisState::Use;

class Relayout {
 public:
  Relayout(Graph& graph, const Propagation& plan, const RelayoutParams& params) : g_(graph), plan_(plan), params_(params) {
    base_.resize(plan.value.size());
    for (std::size_t i = 0; i < base_.size(); ++i) base_[i] = graph[ValueId(i)].layout;
  }

  std::size_t run() {
    std::size_t changed = 0;
    for (std::size_t i = 0; i < plan_.value.size(); ++i) {
      const ValueId value(i);
      if (plan_.value[i].is_replicate() || !g_[value].producer.valid()) continue;
      g_[value].layout = in_state(value, plan_.value[i]);
      note(value, name(plan_.why[i].rule), plan_.why[i].from);
      ++changed;
    }
    for (const NodeId node : plan_.order) {
      const std::size_t operands = g_[node].operand_count;
      for (std::size_t i = 0; i < operands; ++i) {
        const ValueId value = g_.operand(node, i);
        const AxisState need = plan_.operand[g_.use(node, i).index()];
        const AxisState have = plan_.value[value.index()];
        if (have.same_place(need)) continue;
        if (crosses(node, value) && !have.is_partial()) continue;  // a transfer or the way home takes any cut
        g_.set_operand(node, i, changed_to(value, have, need, node));
      }
    }
    return changed;
  }

 private:
  bool crosses(NodeId node, ValueId value) const {
    return g_[node].mesh == kHome || g_[node].op == Op::Recv || g_.layout(value).mesh == kHome;
  }

  LayoutId in_state(ValueId value, AxisState state) {
    if (state.is_replicate()) return base_[value.index()];
    const std::uint64_t key = (static_cast<std::uint64_t>(base_[value.index()].index()) << 32) | g_[value].type.index();
    if (const auto known = layouts_.find({key, pack(state)}); known != layouts_.end() && state.use != Use::Held) return known->second;
    LayoutId& known = layouts_[{key, pack(state)}];
    Layout base = g_[base_[value.index()]];
    const Mesh& mesh = g_[base.mesh];
    const std::uint8_t axis = static_cast<std::uint8_t>(mesh.axis_index(params_.axis));
    if (state.use == Use::Held) base = left_by_rest(std::move(base), value, axis);
    if (state.is_partial()) return known = g_.intern(with_partial(base, axis, state.reduction));
    const std::int64_t size = g_.type(value).shape[state.dim];
    const CutStyle& style = plan_.styles[state.style];
    const bool outermost = params_.outermost && (state.use == Use::Work || state.use == Use::Weight);
    Layout layout =
        outermost ? with_outer_cut(base, mesh, state.dim, size, axis, style) : with_cut(base, mesh, state.dim, size, axis, style);
    if (state.turn != 0) layout = turned(std::move(layout), mesh, state.dim, size, axis, state.turn);
    return known = g_.intern(layout);
  }

  /// The layout without the axis, of a value that is held in another cut than it rests in: cuts of other axes within the one that it leaves
  /// stay as they are, so that only devices along the axis exchange anything.
  Layout left_by_rest(Layout base, ValueId value, std::uint8_t axis) {
    const AxisState rest = plan_.rest.empty() ? AxisState::replicate() : plan_.rest[value.index()];
    if (!rest.is_shard() || base.cut(rest.dim).empty()) return base;
    const Mesh& mesh = g_[base.mesh];
    const std::int64_t size = g_.type(value).shape[rest.dim];
    const CutStyle& style = plan_.styles[rest.style];
    const Layout resting =
        params_.outermost ? with_outer_cut(base, mesh, rest.dim, size, axis, style) : with_cut(base, mesh, rest.dim, size, axis, style);
    base.dims[rest.dim] = held_together(resting.cut(rest.dim), mesh, size, {&axis, 1});
    return base;
  }

  ValueId changed_to(ValueId value, AxisState have, AxisState need, NodeId reader) {
    if (have.is_partial()) {
      const AxisState reduced = plan_.reduced[value.index()];
      const ValueId once = shared(value, reduced, reduced.is_shard() ? Op::ReduceScatter : Op::AllReduce, params_.reduce_stream);
      if (reduced.same_place(need)) return once;
      // Readers of one reduced value share its changes too.
      return reduced.is_shard() ? shared(value, need, need.is_shard() ? Op::AllToAll : Op::AllGather, params_.gather_stream, once)
                                : shared(value, need, Op::LocalSlice, 0, once);
    }
    if (have.is_replicate()) return shared(value, need, need.is_shard() ? Op::LocalSlice : Op::ZeroRest, 0);
    if (need.is_shard()) return moved(value, have, need, g_[reader].phase);
    if (stored(value, have)) return change(value, value, need, Op::AllGather, params_.gather_stream, g_[reader]);
    if (params_.regather && have.use == Use::Work && g_[reader].phase != Phase::F && g_[g_[value].producer].phase == Phase::F)
      return gathered_again(value, need, g_[reader].phase);
    return shared(value, need, Op::AllGather, params_.gather_stream);
  }

  /// From one cut to another. A turned one comes from its neighbour in the ring, if that is there; what was turned forward is turned again
  /// backward, since keeping it would be keeping the whole.
  ValueId moved(ValueId value, AxisState have, AxisState need, Phase phase) {
    AxisState unturned = need;
    unturned.turn = have.turn;
    if (!have.same_place(unturned)) return shared(value, need, Op::AllToAll, params_.gather_stream);
    ValueId from = value;
    AxisState neighbour = need;
    neighbour.turn = static_cast<std::int16_t>(need.turn - 1);
    const bool again = phase != Phase::F && g_[g_[value].producer].phase == Phase::F;
    auto& turned = again ? turned_again_ : changes_;
    if (const auto known = turned.find({value.index(), pack(neighbour)}); known != turned.end()) from = known->second;
    if (!again) return shared(value, need, Op::Permute, params_.gather_stream, from);
    ValueId& made = turned_again_[{value.index(), pack(need)}];
    if (made.valid()) return made;
    Node by = g_[g_[value].producer];
    by.phase = phase;
    return made = change(value, from, need, Op::Permute, params_.gather_stream, by);
  }

  /// A parameter as it is stored, or a view of one: each reader gathers for itself.
  bool stored(ValueId value, AxisState state) const {
    if (state.use != Use::Storage) return false;
    const NodeId producer = g_[value].producer;
    return g_[producer].op == Op::Param || (g_[producer].op == Op::View && g_[g_[g_.operand(producer, 0)].producer].op == Op::Param);
  }

  static std::uint64_t pack(const AxisState& state) {
    return (static_cast<std::uint64_t>(state.kind) << 56) | (static_cast<std::uint64_t>(state.use == Use::Held) << 55) |
           (static_cast<std::uint64_t>(state.reduction) << 48) | (static_cast<std::uint64_t>(state.dim) << 32) |
           (static_cast<std::uint64_t>(state.style) << 16) | static_cast<std::uint16_t>(state.turn);
  }

  ValueId shared(ValueId value, AxisState to, Op op, StreamId stream, ValueId from = ValueId()) {
    const auto key = std::pair<std::uint64_t, std::uint64_t>(value.index(), pack(to));
    if (const auto known = changes_.find(key); known != changes_.end()) return known->second;
    const ValueId made = change(value, from.valid() ? from : value, to, op, stream, g_[g_[value].producer]);
    changes_.emplace(key, made);
    return made;
  }

  ValueId gathered_again(ValueId value, AxisState to, Phase phase) {
    ValueId& made = regathered_[(static_cast<std::uint64_t>(value.index()) << 2) | static_cast<std::uint64_t>(phase)];
    if (made.valid()) return made;
    Node by = g_[g_[value].producer];
    by.phase = phase;
    return made = change(value, value, to, Op::AllGather, params_.gather_stream, by);
  }

  ValueId change(ValueId value, ValueId from, AxisState to, Op op, StreamId stream, const Node by) {
    const ResultInit result{g_[value].type, in_state(value, to), g_[value].role};
    TagSetId tags = by.tags;
    if (params_.tag && !is_free_change(op)) tags = g_.intern(with_tag(g_[tags], *params_.tag));
    const NodeId producer = g_[value].producer;
    const ValueId made = g_.result(g_.add(
        {op, {&from, 1}, {&result, 1}, AttrsId(), by.phase, tags, g_[base_[value.index()]].mesh, stream, g_[producer].name, OriginId()}));
    note(made, "its readers need it so; from", from);
    return made;
  }

  void note(ValueId value, const char* rule, ValueId from) {
    if (g_.keeps_layout_reasons) g_.layout_reasons.push_back({value, params_.axis, rule, from});
  }

  struct PairHash {
    std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& p) const { return hash_mix(hash_mix(0, p.first), p.second); }
  };

  Graph& g_;
  const Propagation& plan_;
  const RelayoutParams& params_;
  std::vector<LayoutId> base_;  // layouts before, by value
  std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, LayoutId, PairHash> layouts_;
  std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, ValueId, PairHash> changes_;
  std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, ValueId, PairHash> turned_again_;
  std::unordered_map<std::uint64_t, ValueId> regathered_;
};

}  // namespace

std::size_t relayout(Graph& graph, const Propagation& plan, const RelayoutParams& params) { return Relayout(graph, plan, params).run(); }

}  // namespace skirl
