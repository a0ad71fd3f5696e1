#include "passes/propagate.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ir/text.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/compiled.h"
#include "tools/testing.h"

using namespace skirl;
using namespace skirl::test;

namespace {

/// The state of each named value along an axis that cuts inputs with a batch: "whole", "cut 0", "terms".
std::string state_of(const std::string& model, const std::string& name) {
  const Graph graph = parse(model);
  PropagateParams axis;
  axis.region.assign(graph.node_bound(), true);
  axis.source = [&](NodeId node) {
    const bool cut = graph[node].op == Op::Input && graph.attrs<InputAttrs>(node).cut.has_value();
    return cut ? AxisState::shard(static_cast<std::size_t>(*graph.attrs<InputAttrs>(node).cut)) : AxisState::replicate();
  };
  axis.update = [](NodeId) { return AxisState::replicate(); };
  Rules rules(graph);
  const Propagation plan = propagate(graph, rules, axis);
  std::string text = "no such value";
  graph.for_each_node([&](NodeId node) {
    if (graph[graph[node].name] != name || graph[node].op == Op::Output) return;
    const AxisState state = plan.value[graph.result(node).index()];
    text = state.is_shard() ? "cut " + std::to_string(state.dim) : state.is_partial() ? "terms" : "whole";
  });
  return text;
}

std::string named(const std::string& expression, const std::string& more = "") {
  return "input %x \"x\" : bf16[4,3] cut 0\nparam %w \"w\" : bf16[3,3] normal(0.5)\n" + more + "%v = " + expression +
         " \"v\"\noutput \"o\" %v\n";
}

}  // namespace

TEST_CASE("a cut goes along the factor that it names, and a sum over it leaves terms") {
  CHECK(state_of(named("einsum \"bi,ij->bj\" %x %w"), "v") == "cut 0");
  CHECK(state_of(named("einsum \"bi,ij->jb\" %x %w"), "v") == "cut 1");
  CHECK(state_of(named("einsum \"bi,bj->ij\" %x %x"), "v") == "terms");
  CHECK(state_of(named("tanh %w"), "v") == "whole");
}

TEST_CASE("terms are added before what is not linear, and after a cast to a wider type") {
  const std::string summed = "%s = einsum \"bi,bj->ij\" %x %x\n";
  CHECK(state_of(named("tanh %s", summed), "v") == "whole");
  CHECK(state_of(named("scale %s {factor=2.0}", summed), "v") == "whole");  // reduced once, where it is made
  CHECK(state_of(named("sum %s %s {accumulate=f32}", summed), "v") == "terms");
  CHECK(state_of(named("cast %s {dtype=f32}", summed), "v") == "terms");
  CHECK(state_of(named("cast %s {dtype=f16}", summed), "v") == "whole");
}

TEST_CASE("gradients of parameters that are computed with in a narrower type are reduced in their own") {
  const std::string model = R"(
    input %ids "ids" : i64[6] cut 0 range 7
    input %labels "labels" : i64[6] cut 0 range 7
    param %table "table" : f64[7,3] normal(0.5)
    param %w "w" : f64[3,3] normal(0.5)
    %x = embedding (cast %table {dtype=f32}) %ids LAYER=0
    %x = tanh (einsum "bi,ij->bj" %x (cast %w {dtype=f32})) LAYER=0
    %x = einsum "bh,vh->bv" %x (cast %table {dtype=f32}) LAYER=1
    loss "nll" = softmax_xent (cast %x {dtype=f64}) %labels ignore -1 LAYER=1
  )";
  for (const std::string strategy : {"ddp(2)", "zero(1, dp=3)", "zero(2, dp=2)", "zero(3, dp=2)", "pp(2, mb=3) + zero(2, dp=2)"}) {
    INFO(strategy);
    const Compiled c = compiled(model, strategy, sgd(1.0));
    c.placed.for_each_node([&](NodeId node) {
      const bool reduces = c.placed[node].op == Op::AllReduce || c.placed[node].op == Op::ReduceScatter;
      if (reduces && c.placed[node].phase != Phase::F) CHECK(c.placed.type(c.placed.result(node)).dtype == DType::F64);
    });
    CHECK(same_step(c.step, c.placed, 1e-5));
  }
}
