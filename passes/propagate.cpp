#include "passes/propagate.h"

#include <algorithm>

#include "ir/error.h"

namespace skirl {
namespace {

/// Operators whose result is their operand's value in another place: they pass on whatever state comes in.
bool passes_through(Op op) { return is_collective(op) || op == Op::View; }

/// A cast to a wider element type loses nothing, so terms are cast first and added in the wider type.
bool widens(const Graph& graph, NodeId node) {
  if (graph[node].op != Op::Cast) return false;
  const DType from = graph.type(graph.operand(node, 0)).dtype;
  const DType to = graph.type(graph.result(node)).dtype;
  return is_float(from) && is_float(to) && size_bytes(to) > size_bytes(from);
}

/// The state of a value after the axis cuts factor `f` of the rule's result r.
AxisState result_state(const FactorRule& rule, std::size_t r, int f, bool storage) {
  if (const int dim = rule.result_dim(r, f); dim >= 0) return AxisState::shard(static_cast<std::size_t>(dim), storage);
  const FactorKind kind = rule.factors[static_cast<std::size_t>(f)].kind;
  return AxisState::partial(kind == FactorKind::Max ? Reduction::Max : Reduction::Sum);
}

class Propagator {
 public:
  Propagator(const Graph& graph, Rules& rules, const PropagateParams& params) : graph_(graph), rules_(rules), params_(params) {
    out_.order = topological_order(graph);
    out_.value.resize(graph.value_bound());
    out_.reduced.resize(graph.value_bound());
    out_.operand.resize(graph.use_bound());
    out_.factor.assign(graph.node_bound(), -1);
    wish_.resize(graph.value_bound());
    if (params.clones) inputs_only_.assign(graph.value_bound(), false);
  }

  Propagation run() {
    for (auto it = out_.order.rbegin(); it != out_.order.rend(); ++it)
      if (covers(*it) && graph_[*it].phase == Phase::U) collect_wishes(*it);
    for (const NodeId node : out_.order) {
      if (params_.clones) note_inputs_only(node);
      if (covers(node)) decide(node);
      settle_partials(node);
    }
    return std::move(out_);
  }

 private:
  bool covers(NodeId node) const { return params_.region[node.index()]; }
  AxisState& needed(NodeId node, std::size_t i) { return out_.operand[graph_.use(node, i).index()]; }

  // ---- wishes: what the updates want, carried backward through phase U

  void wish(ValueId value, AxisState state) {
    if (wish_[value.index()].is_replicate()) wish_[value.index()] = state;
  }

  void collect_wishes(NodeId node) {
    const Op op = graph_[node].op;
    if (op == Op::Sgd || op == Op::AdamW) {
      const AxisState state = params_.update(node);
      if (state.is_shard()) wish(graph_.operand(node, 1), state);
      return;
    }
    if (graph_[node].result_count == 0) return;
    const AxisState wanted = wish_[graph_.result(node).index()];
    if (!wanted.is_shard()) return;
    if (op == Op::Sum && !params_.reduce_before_sum) return;
    const FactorRule& rule = rules_.of(node);
    const int f = rule.result_factor(0, wanted.dim);
    if (f < 0) return;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t i) {
      if (const int dim = rule.operand_dim(i, f); dim >= 0) wish(value, AxisState::shard(static_cast<std::size_t>(dim), true));
    });
  }

  // ---- decisions, forward

  void note_inputs_only(NodeId node) {
    bool only = graph_[node].op == Op::Input;
    if (!only && graph_[node].operand_count > 0) {
      only = true;
      graph_.for_each_operand(node, [&](ValueId value, std::size_t) { only = only && inputs_only_[value.index()]; });
    }
    if (only) graph_.for_each_result(node, [&](ValueId value) { inputs_only_[value.index()] = true; });
  }

  /// After the one reduction, if the value is Partial.
  AxisState effective(ValueId value) const {
    return out_.value[value.index()].is_partial() ? out_.reduced[value.index()] : out_.value[value.index()];
  }

  /// A Partial value is reduced, where it is, to what the update behind it wishes.
  void settle_partials(NodeId node) {
    graph_.for_each_result(node, [&](ValueId value) {
      if (out_.value[value.index()].is_partial()) out_.reduced[value.index()] = wish_[value.index()];
    });
  }

  void decide(NodeId node) {
    const Node& n = graph_[node];
    switch (n.op) {
      case Op::Input:
      case Op::Param:
      case Op::State:
        out_.value[graph_.result(node).index()] = params_.source(node);
        return;
      case Op::Output:
        decide_output(node);
        return;
      case Op::Sgd:
      case Op::AdamW:
        cut_update(node);
        return;
      case Op::View:
        look_through(node);
        return;
      default:
        break;
    }
    if (n.operand_count == 0) return;
    if (const int f = factor_to_cut(node); f >= 0)
      cut(node, f);
    else if (takes_partials(node))
      pass_partials(node);
    else
      read_whole(node);
  }

  /// An output leaves as the value stands; a parameter or state as it entered. Clones are gone when the step ends.
  void decide_output(NodeId node) {
    const std::string& kind = graph_.attrs<OutputAttrs>(node).kind;
    const bool chained = kind == "param" || kind == "state";
    needed(node, 0) = params_.clones ? AxisState::replicate() : chained ? params_.source(node) : effective(graph_.operand(node, 0));
  }

  /// A view is the same data on a member of the union: it keeps whatever state the value has.
  void look_through(NodeId node) {
    if (takes_partials(node)) return pass_partials(node);
    const AxisState state = effective(graph_.operand(node, 0));
    needed(node, 0) = state;
    out_.value[graph_.result(node).index()] = state;
  }

  void cut_update(NodeId node) {
    const AxisState state = params_.update(node);
    if (!state.is_shard()) return read_whole(node);
    const int f = rules_.of(node).result_factor(0, state.dim);
    SKIRL_CHECK(f >= 0, "an update's storage dimension has no factor");
    cut(node, f);
  }

  /// The factor that the first operand with a usable cut names, or −1.
  int factor_to_cut(NodeId node) {
    const bool update_phase = graph_[node].phase == Phase::U;
    const FactorRule& rule = rules_.of(node);
    int found = -1;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t i) {
      const AxisState state = effective(value);
      if (found >= 0 || !state.is_shard() || state.storage != update_phase) return;
      const int f = rule.operand_factor(i, state.dim);
      if (f < 0) return;
      const FactorKind kind = rule.factors[static_cast<std::size_t>(f)].kind;
      if (kind == FactorKind::Whole || kind == FactorKind::Prefix) return;
      if (!every_result_takes(node, rule, f)) return;
      if (params_.clones && sums_inputs_only(node, rule, f)) return;
      found = f;
    });
    // The terms of a sum that stays Partial must not be reduced for the sake of a cut.
    if (found >= 0 && takes_partials(node)) return -1;
    return found;
  }

  /// A free factor that a result lacks says nothing of how that result would stand: such a cut is not taken.
  bool every_result_takes(NodeId node, const FactorRule& rule, int f) const {
    if (rule.factors[static_cast<std::size_t>(f)].kind != FactorKind::Free) return true;
    for (std::size_t r = 0; r < graph_[node].result_count; ++r)
      if (rule.result_dim(r, f) < 0) return false;
    return true;
  }

  bool sums_inputs_only(NodeId node, const FactorRule& rule, int f) const {
    bool only = true;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t) { only = only && inputs_only_[value.index()]; });
    for (std::size_t r = 0; r < graph_[node].result_count; ++r) only = only && result_state(rule, r, f, false).is_partial();
    return only;
  }

  void cut(NodeId node, int f) {
    const FactorRule& rule = rules_.of(node);
    const bool storage = graph_[node].phase == Phase::U;
    out_.factor[node.index()] = static_cast<std::int16_t>(f);
    graph_.for_each_operand(node, [&](ValueId, std::size_t i) {
      const int dim = rule.operand_dim(i, f);
      needed(node, i) = dim >= 0 ? AxisState::shard(static_cast<std::size_t>(dim), storage) : AxisState::replicate();
    });
    for (std::size_t r = 0; r < graph_[node].result_count; ++r)
      out_.value[graph_.result(node, r).index()] = result_state(rule, r, f, storage);
  }

  /// Whether some operands are Partial, the rest whole, and the operator may add first and be reduced later.
  bool takes_partials(NodeId node) const {
    const Op op = graph_[node].op;
    if (op != Op::Sum && op != Op::Join && !passes_through(op) && !widens(graph_, node)) return false;
    if (op == Op::Sum && params_.reduce_before_sum && wish_[graph_.result(node).index()].is_shard()) return false;
    bool any = false;
    bool all = true;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t) {
      const AxisState state = out_.value[value.index()];
      any = any || state.is_partial();
      const bool addable = state.is_replicate() || (state.is_partial() && state.reduction == Reduction::Sum);
      all = all && (passes_through(op) ? state.is_partial() : addable);
    });
    return any && all;
  }

  void pass_partials(NodeId node) {
    AxisState state = AxisState::partial();
    if (passes_through(graph_[node].op)) state = out_.value[graph_.operand(node, 0).index()];
    graph_.for_each_operand(node, [&](ValueId, std::size_t i) { needed(node, i) = state; });
    graph_.for_each_result(node, [&](ValueId value) { out_.value[value.index()] = state; });
  }

  void read_whole(NodeId node) {
    graph_.for_each_operand(node, [&](ValueId, std::size_t i) { needed(node, i) = AxisState::replicate(); });
  }

  const Graph& graph_;
  Rules& rules_;
  const PropagateParams& params_;
  Propagation out_;
  std::vector<AxisState> wish_;
  std::vector<bool> inputs_only_;
};

}  // namespace

Propagation propagate(const Graph& graph, Rules& rules, const PropagateParams& params) { return Propagator(graph, rules, params).run(); }

}  // namespace skirl
