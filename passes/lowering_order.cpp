#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "passes/lower.h"

namespace skirl {
namespace {

/// Inputs, parameters and states that nobody reads live nowhere: they are not part of the plan.
void erase_unread_sources(Graph& graph) {
  std::vector<NodeId> unread;
  graph.for_each_node([&](NodeId node) {
    const Op op = graph[node].op;
    if ((op == Op::Input || op == Op::Param || op == Op::State) && graph[node].mesh == kHome && !graph.has_uses(graph.result(node)))
      unread.push_back(node);
  });
  for (const NodeId node : unread) graph.erase(node);
}

/// A fence has no place: it orders nodes of several meshes.
void check_placed(const Graph& graph) {
  constexpr std::size_t kShown = 3;
  std::size_t count = 0;
  std::string shown;
  graph.for_each_node([&](NodeId node) {
    bool home = graph[node].op != Op::Fence && graph[node].mesh == kHome;
    graph.for_each_result(node, [&](ValueId value) { home = home || graph.layout(value).mesh == kHome; });
    if (!home) return;
    if (count++ < kShown) shown += (shown.empty() ? "" : ", ") + describe(graph, node);
  });
  if (count == 0) return;
  throw Error("lower: " + std::to_string(count) + (count == 1 ? " node is" : " nodes are") + " still at home @: " + shown +
                  (count > kShown ? ", …" : ""),
              "", R"(place them first: {"op": "place", "filter": {}, "devices": [0]})");
}

/// Nodes of the same device read a parameter (or state) through views, which have no instruction.
void for_each_reader(const Graph& graph, ValueId value, auto&& f) {
  graph.for_each_use(value, [&](UseId use) {
    const NodeId user = graph[use].user;
    if (graph[user].op == Op::View || graph[user].op == Op::Join)
      for_each_reader(graph, graph.result(user), f);
    else
      f(user);
  });
}

/// Control edges, for the time of ordering, from the readers of a parameter's (state's) old value to the output that overwrites it.
std::vector<OrderEdgeId> add_overwrite_edges(Graph& graph) {
  std::unordered_map<std::string, NodeId> entries;
  std::vector<std::pair<NodeId, NodeId>> edges;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == Op::Param) entries.emplace("param/" + graph[graph[node].name], node);
    if (graph[node].op == Op::State) entries.emplace("state/" + graph[graph[node].name], node);
  });
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Output) return;
    const auto entry = entries.find(graph.attrs<OutputAttrs>(node).kind + "/" + graph[graph[node].name]);
    if (entry == entries.end()) return;
    for_each_reader(graph, graph.result(entry->second), [&](NodeId reader) {
      if (reader != node) edges.emplace_back(reader, node);
    });
  });
  std::vector<OrderEdgeId> added;
  added.reserve(edges.size());
  for (const auto& [from, to] : edges) added.push_back(graph.add_order(from, to));
  return added;
}

[[noreturn]] void refuse_cycle(const Graph& graph, const std::vector<NodeId>& order) {
  std::vector<bool> ordered(graph.node_bound(), false);
  for (const NodeId node : order) ordered[node.index()] = true;
  std::string stuck;
  graph.for_each_node([&](NodeId node) {
    if (stuck.empty() && !ordered[node.index()] && graph[node].op == Op::Output) stuck = describe(graph, node);
  });
  throw Error(
      "lower: no order lets every node read the old values before " + (stuck.empty() ? "they are" : "'" + stuck + "' is") + " overwritten",
      "", "a control edge makes a reader of the old value wait for the new one to leave");
}

/// What is put directly before the first node that it serves, instead of where it is first possible.
std::vector<bool> late_nodes(const Graph& graph, const std::vector<NodeId>& order) {
  std::vector<bool> late(graph.node_bound(), false);
  const NameId recomputed = graph.find_name("RE");
  std::vector<bool> recomputed_set(graph.tag_set_count(), false);
  for (std::size_t i = 0; recomputed.valid() && i < graph.tag_set_count(); ++i)
    recomputed_set[i] = graph[TagSetId(i)].find(recomputed) != nullptr;
  for (const NodeId node : order) {
    const Node& n = graph[node];
    if (recomputed_set[n.tags.index()]) {
      late[node.index()] = true;
      continue;
    }
    if (!is_collective(n.op) && n.op != Op::View && n.op != Op::Slice) continue;
    bool stored = true;  // made of nothing but what enters the step
    graph.for_each_operand(node, [&](ValueId value, std::size_t) {
      const NodeId producer = graph[value].producer;
      stored = stored && (late[producer.index()] ? !recomputed_set[graph[producer].tags.index()] : is_signature(graph[producer].op));
    });
    late[node.index()] = stored;
  }
  return late;
}

/// Gives the nodes out in the order of lowering: late nodes when first needed, outputs as soon as they can (so updated values die early).
class LoweringOrder {
 public:
  LoweringOrder(const Graph& graph, const std::vector<NodeId>& base)
      : graph_(graph), base_(base), late_(late_nodes(graph, base)), done_(graph.node_bound(), false), waiting_(graph.node_bound(), 0) {
    for (const NodeId node : base)
      if (graph[node].op == Op::Output) {
        waiting_[node.index()] = graph[node].operand_count;
        graph.for_each_before(node, [&](NodeId) { ++waiting_[node.index()]; });
      }
  }

  std::vector<NodeId> run() {
    order_.reserve(base_.size());
    for (const NodeId node : base_) {
      if (late_[node.index()] || is_output(node)) continue;
      // An output never comes between a send and its recv: the two are one event.
      if (graph_[node].op != Op::Recv) emit_ready_outputs();
      emit(node);
    }
    emit_ready_outputs();
    for (const NodeId node : base_)
      if (!done_[node.index()]) emit(node);
    return std::move(order_);
  }

 private:
  bool is_output(NodeId node) const { return graph_[node].op == Op::Output; }

  void emit_ready_outputs() {
    while (!ready_outputs_.empty()) {  // again where outputs wait for outputs
      std::vector<NodeId> ready = std::exchange(ready_outputs_, {});
      std::sort(ready.begin(), ready.end());
      for (const NodeId output : ready)
        if (!done_[output.index()]) put(output);
    }
  }

  /// Puts the node after everything that it still waits for; all of that is late or an output.
  void emit(NodeId node) {
    stack_.assign(1, node);
    while (!stack_.empty()) {
      const NodeId top = stack_.back();
      if (done_[top.index()]) {
        stack_.pop_back();
        continue;
      }
      const std::size_t size = stack_.size();
      graph_.for_each_before(top, [&](NodeId before) {
        if (!done_[before.index()]) stack_.push_back(before);
      });
      graph_.for_each_operand(top, [&](ValueId value, std::size_t) {
        const NodeId producer = graph_[value].producer;
        if (!done_[producer.index()]) stack_.push_back(producer);
      });
      std::reverse(stack_.begin() + static_cast<std::ptrdiff_t>(size), stack_.end());  // first operand first
      if (stack_.size() > size) continue;
      stack_.pop_back();
      put(top);
    }
  }

  void put(NodeId node) {
    done_[node.index()] = true;
    order_.push_back(node);
    const auto arrived = [&](NodeId user) {
      if (is_output(user) && --waiting_[user.index()] == 0) ready_outputs_.push_back(user);
    };
    graph_.for_each_result(node, [&](ValueId value) { graph_.for_each_use(value, [&](UseId use) { arrived(graph_[use].user); }); });
    graph_.for_each_after(node, arrived);
  }

  const Graph& graph_;
  const std::vector<NodeId>& base_;
  std::vector<bool> late_;
  std::vector<bool> done_;
  std::vector<std::uint32_t> waiting_;  // of outputs: predecessors that have not been given out
  std::vector<NodeId> ready_outputs_;
  std::vector<NodeId> stack_;
  std::vector<NodeId> order_;
};

}  // namespace

Graph prepare_lowering(Graph graph) {
  erase_unread_sources(graph);
  check_placed(graph);
  const std::vector<OrderEdgeId> overwrite = add_overwrite_edges(graph);
  const std::vector<NodeId> base = topological_order(graph);
  if (base.size() != graph.node_count()) refuse_cycle(graph, base);
  const std::vector<NodeId> order = LoweringOrder(graph, base).run();
  for (const OrderEdgeId edge : overwrite) graph.erase_order(edge);
  return compact(graph, order);
}

}  // namespace skirl
