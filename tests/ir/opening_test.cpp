#include "ir/opening.h"

#include <catch2/catch.hpp>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/differentiate.h"
#include "passes/place.h"
#include "runtime/reference/interpreter.h"
#include "tools/testing.h"

using namespace skirl;

namespace {

const char* const kModel = R"(
  input %x "x" : f64[6,4] cut 0
  input %t "labels" : i64[6] cut 0 range 5
  param %w "w" : f64[4,5] normal(0.5)
  %y = einsum "bh,hv->bv" %x %w   LAYER=3
  loss "xent" = softmax_xent %y %t ignore 2
)";

NodeId find(const Graph& graph, Op op) {
  NodeId found;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == op) found = node;
  });
  return found;
}

/// Puts the step on `devices` devices, opens its cross-entropy, and cuts the vocabulary over them: the head's columns, the logits and their
/// gradient, moments and update. What each device says of its part (of a row, of the norm) is put together by all_reduce.
Graph with_cut_vocabulary(const Graph& step, std::size_t devices) {
  PlaceParams params;
  for (std::size_t d = 0; d < devices; ++d) params.devices.push_back(static_cast<DeviceId>(d));
  params.axes = {{"tp", static_cast<std::int64_t>(devices)}};
  Graph g = place(step, params);
  REQUIRE(open(g, find(g, Op::SoftmaxXent)));
  std::vector<NodeId> nodes;
  g.for_each_node([&](NodeId node) { nodes.push_back(node); });
  for (const NodeId node : nodes) {
    const Op op = g[node].op;
    const LayoutId whole = g.replicate(g[node].mesh);
    g.for_each_result(node, [&](ValueId value) {
      const Shape& shape = g.type(value).shape;
      if (shape.size() == 2 && shape[1] == 5) g[value].layout = g.intern(with_cut(g[whole], g[g[node].mesh], 1, 5, 0));
    });
    if (op != Op::RowMax && op != Op::SumExp && op != Op::Pick && op != Op::SumSq) continue;
    const ValueId part = g.result(node);
    g[part].layout = g.intern(with_partial(g[whole], 0, op == Op::RowMax ? Reduction::Max : Reduction::Sum));
    const ResultInit result{g[part].type, whole, g[part].role};
    const std::vector<UseId> readers = g.uses(part);
    const NodeId reduced =
        g.add({Op::AllReduce, {&part, 1}, {&result, 1}, g.intern(Attrs{NoAttrs{}}), g[node].phase, g[node].tags, g[node].mesh});
    for (const UseId reader : readers) g.set_operand(reader, g.result(reduced));
  }
  return g;
}

}  // namespace

TEST_CASE("softmax_xent opens into operators that can be cut along the vocabulary") {
  Graph graph = parse(R"(
    %0 = input "x" {cut=0} : f64[6,5] F
    %1 = input "t" {cut=0, range=5} : i64[6] F
    %2, %3 = softmax_xent {ignore=2} %0 %1 : f64[], f64[6] "loss" F LAYER=3
    output "sum" {kind=metric} %2 U
    output "lse" {kind=metric} %3 U
  )");
  REQUIRE(open(graph, find(graph, Op::SoftmaxXent)));
  CHECK(print(graph) == print(parse(R"(
    %0 = input "x" {cut=0} : f64[6,5] F
    %1 = input "t" {cut=0, range=5} : i64[6] F
    %2 = row_max %0 : f64[6] "loss" F LAYER=3
    %3 = sum_exp %0 %2 : f64[6] "loss" F LAYER=3
    %4 = pick {ignore=2} %0 %1 : f64[6] "loss" F LAYER=3
    %5, %6 = xent_merge {ignore=2} %2 %3 %4 %1 : f64[], f64[6] "loss" F LAYER=3
    output "sum" {kind=metric} %5 U
    output "lse" {kind=metric} %6 U
  )")));
}

TEST_CASE("an opened cross-entropy is the same step") {
  const Graph whole = differentiate(parse(kModel), {});
  Graph opened = whole;
  REQUIRE(open(opened, find(opened, Op::SoftmaxXent)));
  REQUIRE(!find(opened, Op::SoftmaxXent).valid());
  Interpreter reference(whole, 7);
  Interpreter runner(opened, 7);
  const Deviation deviation = compare_steps(
      reference, runner, [&](std::int64_t step) { return random_inputs(whole, 7, step); }, 3);
  CHECK(deviation.max() <= 1e-14);
}

TEST_CASE("an operator without an opening stays as it is") {
  Graph graph = parse(kModel);
  const std::string before = print(graph);
  CHECK(!open(graph, find(graph, Op::Einsum)));
  CHECK(print(graph) == before);
}

TEST_CASE("an opened cross-entropy may have its vocabulary cut, unevenly and with devices that hold nothing of it") {
  const Graph whole = differentiate(parse(kModel), {.clip = 0.01});
  for (const std::size_t devices : {2, 3, 7}) {
    INFO(devices << " devices");
    const Graph cut = with_cut_vocabulary(whole, devices);
    for (const Breach& breach : verify(cut)) FAIL_CHECK("R" << breach.rule << ": " << breach.message);
    CHECK(same_step(whole, cut));
  }
}

TEST_CASE("the closed cross-entropy does not let its vocabulary be cut") {
  Graph g = parse(R"(
    mesh @s0 {tp:2} devices 0 1
    %0 = input "x" {cut=0} : f64[6,5] @s0 [-, tp] F
    %1 = input "t" {cut=0, range=5} : i64[6] @s0 F
    %2, %3 = softmax_xent {ignore=2} %0 %1 : f64[] @s0, f64[6] @s0 "loss" F
    output "sum" {kind=metric} %2 U mesh=@s0
  )");
  REQUIRE(verify(g).size() == 1);
  CHECK(verify(g).front().rule == 4);
}
