#include "ir/opening.h"

#include <vector>

namespace skirl {
namespace {

/// Adds nodes that stand where `node` stands: its phase, tags, mesh, stream, name, origin and control edges.
class Replacement {
 public:
  Replacement(Graph& graph, NodeId node) : graph_(graph), node_(node) {}

  NodeId add(Op op, std::vector<ValueId> operands, const std::vector<ResultInit>& results, const Attrs& attrs = NoAttrs{}) {
    const Node old = graph_[node_];
    const NodeId added =
        graph_.add({op, operands, results, graph_.intern(attrs), old.phase, old.tags, old.mesh, old.stream, old.name, old.origin});
    std::vector<NodeId> before;
    std::vector<NodeId> after;
    graph_.for_each_before(node_, [&](NodeId n) { before.push_back(n); });
    graph_.for_each_after(node_, [&](NodeId n) { after.push_back(n); });
    for (const NodeId n : before) graph_.add_order(n, added);
    for (const NodeId n : after) graph_.add_order(added, n);
    return added;
  }

  /// Lets the results of `last` stand for those of the node, and erases the node.
  void finish(NodeId last) {
    for (std::size_t i = 0; i < graph_[node_].result_count; ++i) graph_.replace_uses(graph_.result(node_, i), graph_.result(last, i));
    graph_.erase(node_);
  }

 private:
  Graph& graph_;
  NodeId node_;
};

ResultInit like(const Graph& graph, ValueId value) { return {graph[value].type, graph[value].layout, graph[value].role}; }

void open_softmax_xent(Graph& graph, NodeId node) {
  const ValueId logits = graph.operand(node, 0);
  const ValueId labels = graph.operand(node, 1);
  const Attrs attrs = graph[graph[node].attrs];
  const ResultInit nll_sum = like(graph, graph.result(node, 0));
  const ResultInit row = like(graph, graph.result(node, 1));
  Replacement opened(graph, node);
  const ValueId maximum = graph.result(opened.add(Op::RowMax, {logits}, {row}));
  const ValueId exponentials = graph.result(opened.add(Op::SumExp, {logits, maximum}, {row}));
  const ValueId picked = graph.result(opened.add(Op::Pick, {logits, labels}, {row}, attrs));
  opened.finish(opened.add(Op::XentMerge, {maximum, exponentials, picked, labels}, {nll_sum, row}, attrs));
}

}  // namespace

bool open(Graph& graph, NodeId node) {
  switch (graph[node].op) {
    case Op::SoftmaxXent:
      open_softmax_xent(graph, node);
      return true;
    default:
      return false;
  }
}

}  // namespace skirl
