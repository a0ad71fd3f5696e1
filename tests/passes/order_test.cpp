#include "passes/order.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "tests/support/check_error.h"
#include "tests/support/compiled.h"

using namespace skirl;

namespace {

Graph ordered(const std::string& cells) {
  const Graph graph = parse(R"(
    input %x "x" : f64[4] cut 0
    %a = tanh %x MB=0
    %b = tanh %x MB=1
    %c = tanh %x MB=2
    output "a" {kind=metric} %a
    output "b" {kind=metric} %b
    output "c" {kind=metric} %c
  )");
  Directive directive;
  directive.op = "order";
  directive.params = parse_json("{\"filters\": " + cells + "}", "s.json");
  return order_pass().run(graph, directive);
}

/// "MB=1 MB=0 MB=2": the compute nodes in topological order, without the fences.
std::string sequence(const Graph& graph) {
  std::string text;
  for (const NodeId node : topological_order(graph))
    if (graph[node].op == Op::Tanh) text += (text.empty() ? "" : " ") + to_string(graph, graph[graph[node].tags]);
  return text;
}

}  // namespace

TEST_CASE("order puts cells one after the other, with a fence between") {
  const Graph graph = ordered(R"([[{"MB": 2}], [{"MB": 1}], [{"MB": 0}]])");
  CHECK(sequence(graph) == "MB=2 MB=1 MB=0");
  CHECK(graph.order_edge_count() == 4);
  CHECK(sequence(ordered(R"([[{"MB": 1}], [{"MB": 0}, {"MB": 2}]])")) == "MB=1 MB=0 MB=2");
}

TEST_CASE("a cell whose nodes have no work of its PASS is left out") {
  const Graph graph =
      ordered(R"([[{"MB": 2, "PASS": "F"}], [{"MB": 2, "PASS": "B"}], [{"MB": 0, "PASS": "F"}], [{"MB": 0, "PASS": "B"}]])");
  CHECK(sequence(graph) == "MB=1 MB=2 MB=0");
  CHECK(graph.order_edge_count() == 2);
}

TEST_CASE("order refuses what it cannot do") {
  CHECK_ERROR(ordered(R"([[{"MB": 0}]])"), "order: got 1 cells, expected at least 2");
  CHECK_ERROR(ordered(R"([[{"MB": 0}], [{"MB": 3}]])"), "order: cell 1: the filter {\"MB\":3} matches no compute node");
  CHECK_ERROR(ordered(R"([[{"MB": 0}], [{"MB": 3, "PASS": "B"}]])"),
              "order: cell 1: the filter {\"MB\":3,\"PASS\":\"B\"} matches no compute node");
  CHECK_ERROR(ordered(R"([[{"MB": 0}], [{"MB": 1, "PASS": "B"}], [{"MB": "0..1"}]])"),
              "order: %1 = tanh (F MB=0) stands in cell 0 and in cell 2");
  CHECK_ERROR(ordered(R"([[{"MB": 0}], []])"), "a cell is a list of one or more filters");
}

TEST_CASE("order refuses cells against the data and prints the cycle") {
  const std::string chain = R"(
    input %x "x" : f64[4] cut 0
    %a = tanh %x MB=0
    %b = tanh %a MB=1
    output "b" {kind=metric} %b
  )";
  CHECK_ERROR(test::after(order_pass(), chain, R"({"filters": [[{"MB": 1}], [{"MB": 0}]]})"),
              "order: the cells contradict the data: %1 = tanh (F MB=0) -> %2 = tanh (F MB=1) -> %1 = tanh (F MB=0)");
}

TEST_CASE("order refuses cells of two meshes") {
  const std::string two = R"(
    mesh @s0 {dp:1} devices 0
    mesh @s1 {dp:1} devices 1
    %0 = input "x" {cut=0} : f64[4] @s0
    %1 = input "x" {cut=0} : f64[4] @s1
    %2 = tanh %0 : f64[4] @s0 MB=0
    %3 = tanh %1 : f64[4] @s1 MB=1
    output "a" {kind=metric} %2 mesh=@s0
    output "b" {kind=metric} %3 mesh=@s1
  )";
  CHECK_ERROR(test::after(order_pass(), two, R"({"filters": [[{"MB": 0}], [{"MB": 1}]]})"),
              "order: cell 1 {\"MB\":1} holds %3 = tanh (F MB=1) on mesh @s1, the cells before are on @s0");
}
