#include "ir/opening.h"

#include <string>
#include <vector>

#include "ir/error.h"

namespace skirl {
namespace {

/// Adds nodes that stand where `node` stands: its phase, tags, mesh, stream, name and control edges. What opens has no origin that matters
/// to what it opens into.
class Replacement {
 public:
  Replacement(Graph& graph, NodeId node) : graph_(graph), node_(node) {}

  NodeId add(Op op, std::vector<ValueId> operands, const std::vector<ResultInit>& results, const Attrs& attrs = NoAttrs{}) {
    const Node old = graph_[node_];
    const NodeId added =
        graph_.add({op, operands, results, graph_.intern(attrs), old.phase, old.tags, old.mesh, old.stream, old.name, OriginId()});
    std::vector<NodeId> before;
    std::vector<NodeId> after;
    graph_.for_each_before(node_, [&](NodeId n) { before.push_back(n); });
    graph_.for_each_after(node_, [&](NodeId n) { after.push_back(n); });
    for (const NodeId n : before) graph_.add_order(n, added);
    for (const NodeId n : after) graph_.add_order(added, n);
    return added;
  }

  ValueId add_value(Op op, std::vector<ValueId> operands, const ResultInit& result, const Attrs& attrs = NoAttrs{}) {
    return graph_.result(add(op, std::move(operands), {result}, attrs));
  }

  /// Lets these values stand for the results of the node, and erases the node.
  void finish(const std::vector<ValueId>& results) {
    for (std::size_t i = 0; i < results.size(); ++i) graph_.replace_uses(graph_.result(node_, i), results[i]);
    graph_.erase(node_);
  }
  /// Lets the results of `last` stand for those of the node.
  void finish(NodeId last) {
    std::vector<ValueId> results;
    graph_.for_each_result(last, [&](ValueId value) { results.push_back(value); });
    finish(results);
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
  const ValueId maximum = opened.add_value(Op::RowMax, {logits}, row);
  const ValueId exponentials = opened.add_value(Op::SumExp, {logits, maximum}, row);
  const ValueId picked = opened.add_value(Op::Pick, {logits, labels}, row, attrs);
  opened.finish(opened.add(Op::XentMerge, {maximum, exponentials, picked, labels}, {nll_sum, row}, attrs));
}

void open_rms_norm(Graph& graph, NodeId node) {
  const ValueId x = graph.operand(node, 0);
  const Attrs attrs = graph[graph[node].attrs];
  const ResultInit y = like(graph, graph.result(node, 0)), row = like(graph, graph.result(node, 1));
  Replacement opened(graph, node);
  const ValueId square = opened.add_value(Op::RowSumSq, {x}, row);
  opened.finish(opened.add(Op::NormApply, {x, graph.operand(node, 1), square}, {y, row}, attrs));
}

void open_layer_norm(Graph& graph, NodeId node) {
  const ValueId x = graph.operand(node, 0);
  const Attrs attrs = graph[graph[node].attrs];
  const ResultInit y = like(graph, graph.result(node, 0)), row = like(graph, graph.result(node, 1));
  Replacement opened(graph, node);
  const ValueId sum = opened.add_value(Op::RowSum, {x}, row);
  const ValueId square = opened.add_value(Op::RowSumSq, {x, sum}, row);
  opened.finish(opened.add(Op::NormApply, {x, graph.operand(node, 1), graph.operand(node, 2), sum, square}, {y, row, row}, attrs));
}

/// rms_norm_bi and layer_norm_bi, whose operands are those of both new nodes.
void open_norm_bi(Graph& graph, NodeId node) {
  std::vector<ValueId> operands = graph.operand_list(node);
  ResultInit row = like(graph, operands.back());  // 1/rms or 1/deviation
  const ResultInit dx = like(graph, graph.result(node));
  row.role = dx.role;
  Replacement opened(graph, node);
  const std::vector<ResultInit> sums(operands.size() - 3, row);
  const NodeId dots = opened.add(Op::NormDots, operands, sums);
  for (std::size_t i = 0; i < sums.size(); ++i) operands.push_back(graph.result(dots, i));
  opened.finish(opened.add(Op::NormBIApply, operands, {dx}));
}

void open_attention(Graph& graph, NodeId node, AttentionPieceAttrs attrs) {
  const std::vector<ValueId> operands = graph.operand_list(node);
  const ResultInit o = like(graph, graph.result(node, 0)), lse = like(graph, graph.result(node, 1));
  Replacement opened(graph, node);
  std::vector<ValueId> parts;
  for (; attrs.turn < static_cast<std::int64_t>(attrs.pieces.size()); ++attrs.turn) {
    const NodeId piece = opened.add(Op::AttentionPiece, operands, {o, lse}, attrs);
    graph.for_each_result(piece, [&](ValueId value) { parts.push_back(value); });
  }
  opened.finish(opened.add(Op::AttentionMerge, parts, {o, lse}));
}

void open_attention_bi(Graph& graph, NodeId node, AttentionPieceAttrs attrs) {
  const std::vector<ValueId> operands = graph.operand_list(node);
  std::vector<ResultInit> gradients;
  graph.for_each_result(node, [&](ValueId value) { gradients.push_back(like(graph, value)); });
  Replacement opened(graph, node);
  std::vector<std::vector<ValueId>> terms(gradients.size());
  for (; attrs.turn < static_cast<std::int64_t>(attrs.pieces.size()); ++attrs.turn) {
    const NodeId piece = opened.add(Op::AttentionPieceBI, operands, gradients, attrs);
    for (std::size_t i = 0; i < gradients.size(); ++i) terms[i].push_back(graph.result(piece, i));
  }
  std::vector<ValueId> sums;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const DType accumulate = graph[gradients[i].type].dtype == DType::F64 ? DType::F64 : DType::F32;
    sums.push_back(opened.add_value(Op::Sum, terms[i], gradients[i], SumAttrs{accumulate}));
  }
  opened.finish(sums);
}

}  // namespace

bool can_open(Op op) {
  return op == Op::SoftmaxXent || op == Op::RmsNorm || op == Op::LayerNorm || op == Op::RmsNormBI || op == Op::LayerNormBI;
}

bool open(Graph& graph, NodeId node) {
  switch (graph[node].op) {
    case Op::SoftmaxXent:
      open_softmax_xent(graph, node);
      return true;
    case Op::RmsNorm:
      open_rms_norm(graph, node);
      return true;
    case Op::LayerNorm:
      open_layer_norm(graph, node);
      return true;
    case Op::RmsNormBI:
    case Op::LayerNormBI:
      open_norm_bi(graph, node);
      return true;
    default:
      return false;
  }
}

void open_ring_attention(Graph& graph, NodeId node, const IntervalTable& pieces) {
  const Op op = graph[node].op;
  if (op != Op::Attention && op != Op::AttentionBI)
    throw Error("open_ring_attention: '" + describe(graph, node) + "' has no sequence in pieces, expected attention or attention_bi");
  const auto& attention = graph.attrs<AttentionAttrs>(node);
  const AttentionPieceAttrs attrs{attention.causal, attention.scale, pieces, 0};
  std::vector<TensorType> operands;
  graph.for_each_operand(node, [&](ValueId value, std::size_t) { operands.push_back(graph.type(value)); });
  try {
    const Op piece = op == Op::Attention ? Op::AttentionPiece : Op::AttentionPieceBI;
    info(piece).infer({piece, Attrs{attrs}, operands});
  } catch (const Error& error) {
    throw Error("open_ring_attention: '" + describe(graph, node) + "' does not open into these pieces: " + error.complaint());
  }
  if (op == Op::Attention)
    open_attention(graph, node, attrs);
  else
    open_attention_bi(graph, node, attrs);
}

}  // namespace skirl
