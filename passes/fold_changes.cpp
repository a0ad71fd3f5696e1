#include "passes/fold_changes.h"

#include "ir/change.h"

namespace skirl {
namespace {

class Folding {
 public:
  Folding(Graph& graph, NameId axis) : g_(graph), axis_(axis) {}

  std::size_t run() {
    std::size_t rewritten = 0;
    for (const NodeId node : topological_order(g_))
      if (g_.alive(node) && is_change(node) && fold(node)) ++rewritten;
    return rewritten;
  }

 private:
  bool is_change(NodeId node) const { return is_collective(g_[node].op) && g_[node].operand_count == 1; }

  bool over_axis(const Layout& from, const Layout& to) const {
    const int at = g_[from.mesh].axis_index(axis_);
    if (at < 0 || from.mesh != to.mesh) return false;
    const std::uint8_t axis = static_cast<std::uint8_t>(at);
    return from.dim_cut_by(axis) != to.dim_cut_by(axis) || from.partial_over(axis) != to.partial_over(axis);
  }

  bool fold(NodeId outer) {
    const ValueId between = g_.operand(outer, 0);
    const NodeId inner = g_[between].producer;
    if (!is_change(inner) || g_.use_count(between) != 1) return false;
    const ValueId source = g_.operand(inner, 0);
    const Layout from = g_.layout(source);
    const Layout to = g_.layout(g_.result(outer));
    if (!over_axis(from, g_.layout(between)) && !over_axis(g_.layout(between), to)) return false;
    const Shape& shape = g_.type(source).shape;
    if (from == to) {
      replace(inner, outer, source);
      return true;
    }
    const Op first = g_[inner].op;
    const Op second = g_[outer].op;
    const std::optional<Op> one = change_between(g_, from, to, shape);
    if (one && ((first == second && *one == first) || (first == Op::AllReduce && second == Op::LocalSlice && *one == Op::ReduceScatter))) {
      replace(inner, outer, change(source, g_.result(outer), *one, first == second ? outer : inner));
      return true;
    }
    if (first == Op::AllReduce && second == Op::ReduceScatter) {
      Layout scattered = to;
      for (const Partial& partial : from.partial)
        if (!g_.layout(between).partial_over(partial.axis)) scattered = with_partial(scattered, partial.axis, partial.reduction);
      if (change_between(g_, from, scattered, shape) != Op::ReduceScatter || change_between(g_, scattered, to, shape) != Op::AllReduce)
        return false;
      const ValueId piece = change(source, g_.result(outer), Op::ReduceScatter, outer);
      g_[piece].layout = g_.intern(scattered);
      replace(inner, outer, change(piece, g_.result(outer), Op::AllReduce, inner));
      return true;
    }
    return false;
  }

  /// A change of `source` that gives what `result` is, standing where `by` stands.
  ValueId change(ValueId source, ValueId result, Op op, NodeId by) {
    const Node n = g_[by];
    const ResultInit init{g_[result].type, g_[result].layout, g_[result].role};
    return g_.result(g_.add({op,
                             {&source, 1},
                             {&init, 1},
                             AttrsId(),
                             n.phase,
                             n.tags,
                             n.mesh,
                             is_free_change(op) ? StreamId{0} : n.stream,
                             n.name,
                             OriginId()}));
  }

  /// Lets `value` stand for the result of the two, and erases them; control edges go to its producer.
  void replace(NodeId inner, NodeId outer, ValueId value) {
    const NodeId made = g_[value].producer;
    for (const NodeId old : {inner, outer}) {
      std::vector<NodeId> before;
      std::vector<NodeId> after;
      g_.for_each_before(old, [&](NodeId n) { before.push_back(n); });
      g_.for_each_after(old, [&](NodeId n) { after.push_back(n); });
      for (const NodeId n : before)
        if (n != made) g_.add_order(n, made);
      for (const NodeId n : after)
        if (n != made) g_.add_order(made, n);
    }
    g_.replace_uses(g_.result(outer), value);
    g_.erase(outer);
    g_.erase(inner);
  }

  Graph& g_;
  NameId axis_;
};

}  // namespace

std::size_t fold_changes(Graph& graph, NameId axis) { return Folding(graph, axis).run(); }

}  // namespace skirl
