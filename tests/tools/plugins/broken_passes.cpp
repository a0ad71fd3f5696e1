// Passes that compute something else, one fault each: `skirl check` has to name them.
#include <string>

#include "ir/builder.h"
#include "ir/error.h"
#include "strategies/plugin.h"

using namespace skirl;

namespace {

template <class Wanted>
NodeId first_node(const Graph& graph, Wanted&& wanted) {
  NodeId found;
  graph.for_each_node([&](NodeId node) {
    if (!found.valid() && wanted(node)) found = node;
  });
  if (!found.valid()) throw Error("there is nothing to break");
  return found;
}

/// The readers of a reduced gradient read the terms of their own device.
Graph drop_reduction(Graph graph, const Directive&) {
  const NodeId reduction = first_node(graph, [&](NodeId n) { return graph[n].op == Op::AllReduce; });
  graph.replace_uses(graph.result(reduction), graph.operand(reduction, 0));
  graph.erase(reduction);
  return graph;
}

/// Gradients are divided by 2 once more.
Graph divide_twice(Graph graph, const Directive&) {
  const NodeId scale = first_node(graph, [&](NodeId n) { return graph[n].op == Op::LossScale; });
  LossAttrs attrs = graph.attrs<LossAttrs>(scale);
  attrs.weight /= 2;
  graph[scale].attrs = graph.intern(Attrs(attrs));
  return graph;
}

/// What a forward layer makes is left out: its reader takes what it was made from.
Graph skip_stage(Graph graph, const Directive&) {
  const NodeId layer = first_node(graph, [&](NodeId n) { return graph[n].op == Op::Tanh && graph[n].phase == Phase::F; });
  graph.replace_uses(graph.result(layer), graph.operand(layer, 0));
  return graph;
}

/// Microbatches draw the mask of the first one: no origin.
Graph local_dropout(Graph graph, const Directive&) {
  first_node(graph, [&](NodeId n) { return graph[n].op == Op::Dropout; });
  graph.for_each_node([&](NodeId n) {
    if (graph[n].op == Op::Dropout) graph[n].origin = OriginId();
  });
  return graph;
}

/// Each gradient counts twice in the global norm, as two replicas of it would.
Graph count_replica(Graph graph, const Directive&) {
  const NodeId clip = first_node(graph, [&](NodeId n) { return graph[n].op == Op::ClipCoef; });
  const ValueId total = graph.operand(clip, 0);
  Builder builder(graph);
  builder.phase = Phase::U;
  builder.mesh = graph[clip].mesh;
  graph.set_operand(clip, 0, builder.op(Op::Scale, {total}, ScaleAttrs{2.0}));
  return graph;
}

void add(Registry& registry) {
  registry.add(PassInfo{"drop_reduction", "broken", {}, kRankLate, drop_reduction});
  registry.add(PassInfo{"divide_twice", "broken", {}, kRankLate, divide_twice});
  registry.add(PassInfo{"skip_stage", "broken", {}, kRankLate, skip_stage});
  registry.add(PassInfo{"local_dropout", "broken", {}, kRankLate, local_dropout});
  registry.add(PassInfo{"count_replica", "broken", {}, kRankLate, count_replica});
}

}  // namespace

SKIRL_PLUGIN(add)
