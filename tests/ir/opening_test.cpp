#include "ir/opening.h"

#include <catch2/catch.hpp>

#include "ir/text.h"
#include "passes/differentiate.h"
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
