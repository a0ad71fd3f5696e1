#include "passes/propagate.h"

#include <algorithm>

#include "ir/error.h"

namespace skirl {
namespace {

using Use = AxisState::Use;
using Dims = std::vector<DimFactors>;

/// Operators whose result is their operand's value in another place: they pass on terms. (A slice would pass on a part of each term, which
/// the other readers of the whole would have summed once more.)
bool passes_through(Op op) { return (is_collective(op) && op != Op::LocalSlice) || op == Op::View; }

/// A cast to a wider element type loses nothing, so terms are cast first and added in the wider type.
bool widens(const Graph& graph, NodeId node) {
  if (graph[node].op != Op::Cast) return false;
  const DType from = graph.type(graph.operand(node, 0)).dtype;
  const DType to = graph.type(graph.result(node)).dtype;
  return is_float(from) && is_float(to) && size_bytes(to) > size_bytes(from);
}

/// A factor of a rule and how the axis cuts it; the style counts in elements of the factor.
struct FactorCut {
  int factor = -1;
  std::uint16_t style = 0;
  ValueId from;         // operand that names it
  Use use = Use::Work;  // of that operand's cut
  bool found() const { return factor >= 0; }
};

/// The styles that occur, by number; 0 is even pieces.
class Styles {
 public:
  explicit Styles(std::vector<CutStyle> known) : all_(std::move(known)) {}
  const CutStyle& operator[](std::uint16_t id) const { return all_[id]; }
  std::uint16_t id(const CutStyle& style) {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (all_[i] == style) return static_cast<std::uint16_t>(i);
    all_.push_back(style);
    return static_cast<std::uint16_t>(all_.size() - 1);
  }
  std::vector<CutStyle> take() { return std::move(all_); }

 private:
  std::vector<CutStyle> all_;
};

class Propagator {
 public:
  Propagator(const Graph& graph, Rules& rules, const PropagateParams& params, Styles& styles)
      : graph_(graph), rules_(rules), params_(params), styles_(styles) {
    out_.order = topological_order(graph);
    out_.value.resize(graph.value_bound());
    out_.reduced.resize(graph.value_bound());
    out_.operand.resize(graph.use_bound());
    out_.factor.assign(graph.node_bound(), -1);
    out_.why.resize(graph.value_bound());
    factor_style_.assign(graph.node_bound(), 0);
    wish_.resize(graph.value_bound());
    if (params.clones) inputs_only_.assign(graph.value_bound(), false);
    for (std::size_t i = 0; i < graph.mesh_count(); ++i) {
      const int axis = params.axis.valid() ? graph[MeshId(i)].axis_index(params.axis) : -1;
      degree_.push_back(axis >= 0 ? graph[MeshId(i)].axes[static_cast<std::size_t>(axis)].size : 1);
    }
  }

  /// Without the cuts of parameters, and everywhere: says where values rest.
  void decide_rest() {
    for (const NodeId node : out_.order) {
      decide(node);
      settle_partials(node);
    }
  }

  /// `rest`: such a run, or null. `before`: an earlier run like this one, which says which sums of gradients have Partial terms whatever
  /// is done; or null.
  void decide_all(const Propagator* rest, const Propagator* before) {
    rest_ = rest;
    for (auto it = out_.order.rbegin(); it != out_.order.rend(); ++it)
      if (covers(*it) && graph_[*it].phase == Phase::U) collect_wishes(*it);
    if (before != nullptr) find_sums_ahead(*before);
    for (const NodeId node : out_.order) {
      if (params_.clones) note_inputs_only(node);
      if (covers(node)) decide(node);
      settle_partials(node);
    }
  }

  Propagation take() {
    for (const NodeId node : out_.order) reduce_for_readers(node);
    if (rest_ != nullptr) {
      out_.rest.resize(out_.value.size());
      for (std::size_t i = 0; i < out_.rest.size(); ++i) out_.rest[i] = rest_of(ValueId(i));
    }
    return std::move(out_);
  }

  /// Whether a gradient is Partial where it is made, so that it may be worth passing on.
  bool has_partial_gradients() const {
    for (const NodeId node : out_.order) {
      bool any = false;
      if (graph_[node].phase == Phase::BI)
        graph_.for_each_result(node,
                               [&](ValueId value) { any = any || (out_.value[value.index()].is_partial() && graph_[node].op != Op::Sum); });
      if (any) return true;
    }
    return false;
  }

 private:
  bool covers(NodeId node) const { return params_.region[node.index()]; }
  AxisState& needed(NodeId node, std::size_t i) { return out_.operand[graph_.use(node, i).index()]; }
  std::int64_t degree(NodeId node) const { return degree_[graph_[node].mesh.index()]; }

  void set(ValueId value, AxisState state, Why::Rule rule, ValueId from = ValueId()) {
    out_.value[value.index()] = state;
    out_.why[value.index()] = {rule, from};
  }

  // ---- between a dimension's cut and a factor's

  std::uint16_t normal(CutStyle style, std::int64_t size, std::int64_t parts) {
    const bool even = style.block == 0 && style.pieces.empty() && size % (style.unit * parts) == 0;
    if (even) style.unit = 1;
    return styles_.id(style);
  }

  AxisState normal(AxisState state, NodeId node, ValueId value) {
    if (state.is_shard()) state.style = normal(styles_[state.style], graph_.type(value).shape[state.dim], degree(node));
    return state;
  }

  static std::int64_t inner_size(const FactorRule& rule, const DimFactors& dim, std::size_t from) {
    std::int64_t size = 1;
    for (std::size_t k = from; k < dim.size(); ++k) size *= rule.factors[dim[k]].size;
    return size;
  }

  /// The factor that a cut of the tensor with these dimensions cuts; none where it cuts no factor cleanly.
  FactorCut factor_of(const FactorRule& rule, const Dims& dims, const AxisState& state, std::int64_t parts) {
    const DimFactors& dim = dims[state.dim];
    if (dim.empty()) return {};
    const CutStyle& style = styles_[state.style];
    const std::int64_t size = inner_size(rule, dim, 0);
    const std::int64_t inner = inner_size(rule, dim, 1);
    if (dim.size() == 1) return {dim.front(), normal(style, size, parts), {}};
    if (!style.pieces.empty()) return {};
    if (style.block != 0) {
      if (style.block == inner && dim.size() == 2) return {dim[1], 0, {}};
      if (style.block % inner != 0) return {};
      return {dim.front(), styles_.id({1, style.block / inner, {}}), {}};
    }
    if (style.unit % inner == 0)
      return {dim.front(), normal({style.unit / inner, 0, {}}, size / std::max<std::int64_t>(inner, 1), parts), {}};
    if (size % (parts * inner) == 0) return {dim.front(), 0, {}};
    return {};
  }

  /// The state of a tensor with these dimensions where the axis cuts factor `cut`; Replicate if it lacks the factor.
  AxisState state_of(const FactorRule& rule, const Dims& dims, const FactorCut& cut, Use use, std::int64_t parts) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const DimFactors& dim = dims[d];
      const auto at = std::find(dim.begin(), dim.end(), static_cast<std::uint16_t>(cut.factor));
      if (at == dim.end()) continue;
      const std::size_t k = static_cast<std::size_t>(at - dim.begin());
      const std::int64_t inner = inner_size(rule, dim, k + 1);
      CutStyle style = styles_[cut.style];
      if (k > 0)
        style = {std::max<std::int64_t>(inner, 1), rule.factors[dim[k]].size * inner, {}};
      else if (inner > 1)
        style = {style.unit * inner, style.block * inner, style.pieces};
      return AxisState::shard(d, use, normal(std::move(style), inner_size(rule, dim, 0), parts));
    }
    return AxisState::replicate();
  }

  AxisState result_state(const FactorRule& rule, std::size_t r, const FactorCut& cut, Use use, std::int64_t parts) {
    AxisState state = state_of(rule, rule.results[r], cut, use, parts);
    if (state.is_shard()) {
      if (rule.ring.factor == cut.factor) state.turn = turn_of(rule.ring.result_turn, r);
      return state;
    }
    const FactorKind kind = rule.factors[static_cast<std::size_t>(cut.factor)].kind;
    return AxisState::partial(kind == FactorKind::Max ? Reduction::Max : Reduction::Sum);
  }

  static std::int16_t turn_of(const std::vector<std::int32_t>& turns, std::size_t i) {
    return i < turns.size() ? static_cast<std::int16_t>(turns[i]) : std::int16_t{0};
  }

  // ---- wishes: what the updates want, carried backward through phase U

  void wish(ValueId value, AxisState state) {
    if (wish_[value.index()].is_replicate()) wish_[value.index()] = state;
  }

  void collect_wishes(NodeId node) {
    const Op op = graph_[node].op;
    if (op == Op::Sgd || op == Op::AdamW) {
      const AxisState state = normal(params_.update(node), node, graph_.operand(node, 0));
      if (state.is_shard()) wish(graph_.operand(node, 1), state);
      return;
    }
    if (graph_[node].result_count == 0) return;
    const AxisState wanted = wish_[graph_.result(node).index()];
    if (!wanted.is_shard()) return;
    if (op == Op::Sum && !params_.reduce_before_sum && wanted.use == Use::Storage) return;
    const FactorRule& rule = rules_.of(node);
    const FactorCut cut = factor_of(rule, rule.results[0], wanted, degree(node));
    if (!cut.found()) return;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t i) {
      const AxisState state = state_of(rule, rule.operands[i], cut, wanted.use, degree(node));
      if (state.is_shard()) wish(value, state);
    });
  }

  /// Whether all readers of a value of the backward pass take it as a term: a sum that has Partial terms anyway, the update phase, or what
  /// is linear in it and is itself read so. Such a value may stay Partial as far as the sum.
  void find_sums_ahead(const Propagator& before) {
    sums_ahead_.assign(graph_.value_bound(), false);
    for (auto it = out_.order.rbegin(); it != out_.order.rend(); ++it) {
      const Phase phase = graph_[*it].phase;
      if (phase != Phase::BI && phase != Phase::BW) continue;
      graph_.for_each_result(*it, [&](ValueId value) {
        bool all = graph_.has_uses(value);
        graph_.for_each_use(value, [&](UseId use) {
          const NodeId user = graph_[use].user;
          if (graph_[user].phase == Phase::U)
            all = all && phase == Phase::BW;
          else
            all = all && ((graph_[user].op == Op::Sum && before.has_partial_terms(user)) ||
                          (linear_in(user, graph_.operand_index(use)) && sums_ahead_of_results(user)));
        });
        sums_ahead_[value.index()] = all;
      });
    }
  }

  bool has_partial_terms(NodeId sum) const {
    bool any = false;
    graph_.for_each_operand(sum, [&](ValueId value, std::size_t) { any = any || out_.value[value.index()].is_partial(); });
    return any;
  }

  bool linear_in(NodeId node, std::size_t operand) {
    const FactorRule& rule = rules_.of(node);
    return rule.linear == Linear::Each && operand < rule.linear_operands.size() && rule.linear_operands[operand] != 0;
  }

  bool sums_ahead_of_results(NodeId node) const {
    bool all = true;
    graph_.for_each_result(node, [&](ValueId value) { all = all && (sums_ahead_[value.index()] || !graph_.has_uses(value)); });
    return all;
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

  AxisState rest_of(ValueId value) const { return rest_ == nullptr ? AxisState::replicate() : rest_->effective(value); }

  /// A Partial value is reduced, where it is, to what the update behind it wishes, else to where it rests.
  void settle_partials(NodeId node) {
    graph_.for_each_result(node, [&](ValueId value) {
      if (!out_.value[value.index()].is_partial()) return;
      const AxisState wanted = wish_[value.index()];
      out_.reduced[value.index()] = wanted.is_shard() ? wanted : rest_ == nullptr ? as_its_operand(node, value) : rest_of(value);
    });
  }

  /// What an operator adds up over devices, along a dimension that an operand was gathered in, lies as that operand: the gradient of keys
  /// as the keys.
  AxisState as_its_operand(NodeId node, ValueId result) {
    AxisState state;
    if (params_.clones || graph_[node].phase == Phase::U) return state;
    const FactorRule& rule = rules_.of(node);
    graph_.for_each_operand(node, [&](ValueId value, std::size_t i) {
      const AxisState own = effective(value);
      if (state.is_shard() || !own.is_shard() || own.use != Use::Work || own.turn != 0 || !needed(node, i).is_replicate()) return;
      const FactorCut cut_by = factor_of(rule, rule.operands[i], own, degree(node));
      if (cut_by.found()) state = state_of(rule, rule.results[graph_.result_index(result)], cut_by, Use::Work, degree(node));
    });
    return state;
  }

  /// The one reduction gives what the readers need, if they agree; whole, if some need it whole.
  void reduce_for_readers(NodeId node) {
    graph_.for_each_result(node, [&](ValueId value) {
      if (!out_.value[value.index()].is_partial() || wish_[value.index()].is_shard()) return;
      bool any = false;
      AxisState common;
      graph_.for_each_use(value, [&](UseId use) {
        const AxisState need = out_.operand[use.index()];
        if (need.is_partial()) return;
        if (any && !common.same_place(need))
          common = AxisState::replicate();
        else
          common = need;
        any = true;
      });
      if (any) out_.reduced[value.index()] = common;
    });
  }

  void decide(NodeId node) {
    const Node& n = graph_[node];
    switch (n.op) {
      case Op::Input:
      case Op::Param:
      case Op::State:
        set(graph_.result(node), normal(params_.source(node), node, graph_.result(node)), Why::Rule::Given);
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
    if (const int f = params_.held && rest_ != nullptr ? params_.held(node) : -1; f >= 0) return cut(node, {f, 0, {}}, Use::Held);
    if (n.phase != Phase::U) {
      if (const FactorCut weight = cut_of_operands(node, Use::Weight); weight.found()) return cut(node, weight, Use::Weight);
      if (const FactorCut weight = cut_of_gradient(node); weight.found()) return cut(node, weight, Use::Weight);
    }
    if (stays_whole(node)) {
      read_whole(node);
      graph_.for_each_result(node, [&](ValueId value) { set(value, AxisState::replicate(Use::Weight), Why::Rule::Given); });
      return;
    }
    const FactorCut other = n.phase == Phase::U ? cut_of_operands(node, Use::Storage) : cut_for_work(node);
    if (takes_partials(node)) return pass_partials(node);
    if (passes_on(node)) return pass_partials(node);
    if (other.found()) return cut(node, other, n.phase == Phase::U ? other.use : Use::Work);
    read_whole(node);
  }

  /// Forward work on a parameter that is cut over other axes and whole over this one is done whole on all devices.
  bool stays_whole(NodeId node) const {
    if (rest_ == nullptr || graph_[node].phase != Phase::F) return false;
    bool any = false;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t) { any = any || effective(value).is_whole_weight(); });
    return any;
  }

  /// An output leaves as the value stands; a parameter or state as it entered. Clones are gone when the step ends.
  void decide_output(NodeId node) {
    const std::string& kind = graph_.attrs<OutputAttrs>(node).kind;
    const bool chained = kind == "param" || kind == "state";
    needed(node, 0) = params_.clones ? AxisState::replicate()
                      : chained      ? normal(params_.source(node), node, graph_.operand(node, 0))
                                     : effective(graph_.operand(node, 0));
  }

  /// A view is the same data on a member of the union: it keeps whatever state the value has.
  void look_through(NodeId node) {
    if (takes_partials(node)) return pass_partials(node);
    const ValueId value = graph_.operand(node, 0);
    needed(node, 0) = effective(value);
    set(graph_.result(node), effective(value), Why::Rule::Follows, value);
  }

  void cut_update(NodeId node) {
    const AxisState state = normal(params_.update(node), node, graph_.operand(node, 0));
    if (!state.is_shard()) return read_whole(node);
    const FactorRule& rule = rules_.of(node);
    const FactorCut cut_by = factor_of(rule, rule.results[0], state, degree(node));
    SKIRL_CHECK(cut_by.found(), "an update's storage dimension has no factor");
    cut(node, cut_by, state.use);
  }

  /// Whether a cut for `use` is one that a node of this run follows.
  bool counts(const AxisState& state, Use use) const {
    if (!state.is_shard()) return false;
    if (use == Use::Storage) return !params_.clones || state.use == Use::Storage;  // phase U works on whatever lies there
    return state.use == use;
  }

  /// The factor that the first operand with a usable cut names.
  FactorCut cut_of_operands(NodeId node, Use use) {
    const FactorRule& rule = rules_.of(node);
    FactorCut found;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t i) {
      if (found.found()) return;
      const AxisState state = effective(value);
      if (!counts(state, use)) return;
      FactorCut candidate = factor_of(rule, rule.operands[i], state, degree(node));
      if (!candidate.found()) return;
      const std::int16_t turn = rule.ring.factor == candidate.factor ? turn_of(rule.ring.operand_turn, i) : std::int16_t{0};
      if (state.turn != turn || !may_cut(node, rule, candidate.factor)) return;
      candidate.from = value;
      candidate.use = state.use;
      found = candidate;
    });
    return found;
  }

  /// The gradient of a cut parameter is computed in its cut.
  FactorCut cut_of_gradient(NodeId node) {
    if (graph_[node].phase != Phase::BW || graph_[node].result_count == 0) return {};
    const AxisState wanted = wish_[graph_.result(node).index()];
    if (!wanted.is_weight()) return {};
    const FactorRule& rule = rules_.of(node);
    const FactorCut cut_by = factor_of(rule, rule.results[0], wanted, degree(node));
    return cut_by.found() && may_cut(node, rule, cut_by.factor) ? cut_by : FactorCut{};
  }

  FactorCut cut_for_work(NodeId node) {
    if (rest_ == nullptr) return cut_of_operands(node, Use::Work);
    return {rest_->out_.factor[node.index()], rest_->factor_style_[node.index()], {}};
  }

  bool may_cut(NodeId node, const FactorRule& rule, int f) const {
    const FactorKind kind = rule.factors[static_cast<std::size_t>(f)].kind;
    if (kind == FactorKind::Whole || (kind == FactorKind::Prefix && params_.clones)) return false;
    return every_result_takes(node, rule, f) && !(params_.clones && sums_inputs_only(node, rule, f));
  }

  /// A free factor that a result lacks says nothing of how that result would stand: such a cut is not taken.
  bool every_result_takes(NodeId node, const FactorRule& rule, int f) const {
    const FactorKind kind = rule.factors[static_cast<std::size_t>(f)].kind;
    if (kind != FactorKind::Free && kind != FactorKind::Prefix) return true;
    for (std::size_t r = 0; r < graph_[node].result_count; ++r)
      if (!has_factor(rule.results[r], f)) return false;
    return true;
  }

  static bool has_factor(const Dims& dims, int f) {
    return std::any_of(dims.begin(), dims.end(), [&](const DimFactors& dim) {
      return std::find(dim.begin(), dim.end(), static_cast<std::uint16_t>(f)) != dim.end();
    });
  }

  bool sums_inputs_only(NodeId node, const FactorRule& rule, int f) const {
    bool only = true;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t) { only = only && inputs_only_[value.index()]; });
    for (std::size_t r = 0; r < graph_[node].result_count; ++r) only = only && !has_factor(rule.results[r], f);
    return only;
  }

  void cut(NodeId node, const FactorCut& by, Use use) {
    const FactorRule& rule = rules_.of(node);
    const std::int64_t parts = degree(node);
    out_.factor[node.index()] = static_cast<std::int8_t>(by.factor);
    factor_style_[node.index()] = by.style;
    graph_.for_each_operand(node, [&](ValueId, std::size_t i) {
      AxisState state = state_of(rule, rule.operands[i], by, use, parts);
      if (state.is_shard() && rule.ring.factor == by.factor) state.turn = turn_of(rule.ring.operand_turn, i);
      needed(node, i) = state;
    });
    const Why::Rule why = use == Use::Held   ? Why::Rule::Held
                          : by.from.valid()  ? Why::Rule::Follows
                          : use == Use::Work ? Why::Rule::Rests
                                             : Why::Rule::Update;
    for (std::size_t r = 0; r < graph_[node].result_count; ++r) {
      AxisState state = result_state(rule, r, by, use, parts);
      if (state.is_partial() && is_gradient_of_whole_weight(node, rule, r)) state.use = Use::Weight;
      set(graph_.result(node, r), state, state.is_partial() ? Why::Rule::Terms : why, by.from);
    }
  }

  /// Whether result r has the dimensions of an operand that is whole along the axis for its parameter's sake: keys, values.
  bool is_gradient_of_whole_weight(NodeId node, const FactorRule& rule, std::size_t r) const {
    bool found = false;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t i) {
      found = found || (rule.operands[i] == rule.results[r] && effective(value).is_whole_weight());
    });
    return found;
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

  /// Whether the node is linear in its one Partial operand, all that comes of it is added up further on, and nothing rests cut here.
  bool passes_on(NodeId node) {
    if (sums_ahead_.empty()) return false;
    const Phase phase = graph_[node].phase;
    if ((phase != Phase::BI && phase != Phase::BW) || !sums_ahead_of_results(node)) return false;
    int partials = 0;
    bool all = true;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t i) {
      const AxisState state = out_.value[value.index()];
      if (!state.is_partial()) return;
      ++partials;
      const bool rests_whole = rest_of(value).is_replicate() || state.use == Use::Weight;
      all = all && state.reduction == Reduction::Sum && sums_ahead_[value.index()] && rests_whole && linear_in(node, i);
    });
    return partials == 1 && all;
  }

  void pass_partials(NodeId node) {
    const bool each = !passes_through(graph_[node].op) && rules_.of(node).linear == Linear::Each && !widens(graph_, node);
    AxisState state = AxisState::partial();
    ValueId from;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t) {
      if (from.valid() || !out_.value[value.index()].is_partial()) return;
      from = value;
      state = out_.value[value.index()];
    });
    graph_.for_each_operand(node, [&](ValueId value, std::size_t i) {
      needed(node, i) = each && !out_.value[value.index()].is_partial() ? AxisState::replicate() : state;
    });
    graph_.for_each_result(node, [&](ValueId value) { set(value, state, Why::Rule::PassesOn, from); });
  }

  void read_whole(NodeId node) {
    graph_.for_each_operand(node, [&](ValueId, std::size_t i) { needed(node, i) = AxisState::replicate(); });
  }

  const Graph& graph_;
  Rules& rules_;
  const PropagateParams& params_;
  Styles& styles_;
  Propagation out_;
  const Propagator* rest_ = nullptr;
  std::vector<std::int64_t> degree_;         // of the axis, by mesh
  std::vector<std::uint16_t> factor_style_;  // by node
  std::vector<AxisState> wish_;
  std::vector<bool> sums_ahead_;
  std::vector<bool> inputs_only_;
};

}  // namespace

const char* name(Why::Rule rule) {
  switch (rule) {
    case Why::Rule::Uncut:
      return "uncut";
    case Why::Rule::Given:
      return "given";
    case Why::Rule::Follows:
      return "follows";
    case Why::Rule::Update:
      return "as its update";
    case Why::Rule::Held:
      return "told to";
    case Why::Rule::Rests:
      return "rests";
    case Why::Rule::Terms:
      return "sums over the cut of";
    case Why::Rule::PassesOn:
      return "passes on terms of";
  }
  return "";
}

Propagation propagate(const Graph& graph, Rules& rules, const PropagateParams& params) {
  Styles styles(params.styles);
  Propagation plan;
  if (params.resting || params.held) {
    PropagateParams resting = params;
    resting.source = params.resting ? params.resting : params.source;
    resting.update = [](NodeId) { return AxisState::replicate(); };
    Propagator rest(graph, rules, resting, styles);
    rest.decide_rest();
    Propagator first(graph, rules, params, styles);
    first.decide_all(&rest, nullptr);
    if (first.has_partial_gradients()) {
      Propagator second(graph, rules, params, styles);
      second.decide_all(&rest, &first);
      plan = second.take();
    } else {
      plan = first.take();
    }
  } else {
    Propagator only(graph, rules, params, styles);
    only.decide_all(nullptr, nullptr);
    plan = only.take();
  }
  plan.styles = styles.take();
  return plan;
}

}  // namespace skirl
