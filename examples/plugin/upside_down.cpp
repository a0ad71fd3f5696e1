// A strategy (a pipeline whose first stage is on the last device) and a pass (gradients are added from the last microbatch to the first).
#include <skirl/ir/text.h>
#include <skirl/passes/differentiate.h>
#include <skirl/passes/manager.h>
#include <skirl/strategies/compose.h>
#include <skirl/strategies/plugin.h>
#include <skirl/testing.h>

#include <algorithm>

using namespace skirl;

static Graph reverse_sums(Graph graph, const Directive&) {
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Sum) return;
    std::vector<ValueId> terms = graph.operand_list(node);
    std::reverse(terms.begin(), terms.end());
    graph.set_operands(node, terms);
  });
  return graph;
}

static std::vector<Directive> upside_down(const StrategyArgs& args, const StrategyContext&) {
  const std::int64_t ranks = args.at("ranks").get<std::int64_t>();
  std::vector<Directive> list = {{"partition", {{"stages", ranks}}}, {"split", {{"num_microbatches", ranks}}}};
  for (std::int64_t i = 0; i < ranks; ++i) list.push_back({"place", {{"filter", {{"PP", i}}}, {"devices", {ranks - 1 - i}}}});
  list.push_back({"reverse_sums"});
  return list;
}

static void add(Registry& registry) {
  registry.add(PassInfo{"reverse_sums", "adds the terms of every sum in the opposite order", {}, kRankLayout, reverse_sums});
  registry.add(StrategyInfo{"upside_down", "a pipeline whose first stage is on the last device",
                            {{"ranks", "integer", "", "stages, and microbatches"}}, {{"ranks", "pp"}}, upside_down});
}
SKIRL_PLUGIN(add)

#ifdef WITH_MAIN
int main() {
  Registry registry;
  skirl_plugin.add(registry);
  const Graph step = differentiate(parse(R"(
    input %x "x" : f64[6,4] cut 0
    input %y "y" : f64[6,4] cut 0
    repeat i in 0..3 {
      param %w "l{i}.w" : f64[4,4] normal(0.5)
      %x = tanh (einsum "bi,ij->bj" %x %w)  LAYER=i
    }
    loss "mse" = mse %x %y)"), {});
  const std::vector<Directive> directives = strategy_directives("upside_down(3)", signature_of(step), registry);
  return same_step(step, run_passes(step, directives, registry.passes())) ? 0 : 1;
}
#endif
