#include "passes/partition.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/text.h"
#include "tests/support/check_error.h"
#include "tests/support/compiled.h"

using namespace skirl;
using namespace skirl::test;

namespace {

Graph partition(const std::string& model, const std::string& params) {
  return after(partition_pass(), differentiate(parse(model), sgd()), params);
}

/// "0 0 1": the stage of each layer's forward.
std::string stages(const Graph& graph, const std::string& tag = "PP") {
  std::string text;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == Op::Einsum && graph[node].phase == Phase::F) text += (text.empty() ? "" : " ") + number(tag_of(graph, node, tag));
  });
  return text;
}

}  // namespace

TEST_CASE("partition gives every node of the step a stage: backward with forward, updates with their gradient") {
  CHECK("\n" + print(partition(R"(
    input %x "x" : f64[5,2] cut 0
    param %w "w" : f64[2] ones
    %y = mul %x %w LAYER=0
    loss "l" = sum (mul %y %y) LAYER=1
  )",
                               R"({"stages": 2})")) ==
        R"(
%0 = input "x" {cut=0} : f64[5,2] F PP=0
%1 = param "w" {init=constant, scale=1, trainable=true} : f64[2] F LAYER=0 PP=0
%2 = mul %0 %1 : f64[5,2] "mul.0" F LAYER=0 PP=0
%3 = mul %2 %2 : f64[5,2] "mul.1" F LAYER=1 PP=1
%4 = sum_to {shape=[]} %3 : f64[] "l.sum" F LAYER=1 PP=1
%5 = loss {weight=1, count=1} %4 : f64[] "l" F LAYER=1 PP=1
output "l" {kind=loss} %5 U LAYER=1 PP=1
%6 = loss_scale {weight=1, count=1} : f64[] "l" BI LAYER=1 PP=1
%7 = fill {shape=[5,2], dtype=f64, value=1} : f64[5,2] "l.sum" BI LAYER=1 PP=1
%8 = mul %6 %7 : f64[5,2] "l.sum" BI LAYER=1 PP=1
%9 = mul %8 %2 : f64[5,2] "mul.1" BI LAYER=1 PP=1
%10 = mul %8 %2 : f64[5,2] "mul.1" BI LAYER=1 PP=1
%11 = sum {accumulate=f64} %9 %10 : f64[5,2] "mul.0" BI LAYER=0 PP=0
%12 = mul %11 %0 : f64[5,2] "mul.0" BW LAYER=0 PP=0
%13 = sum_to {shape=[2]} %12 : f64[2] "mul.0" BW LAYER=0 PP=0
output "w" {kind=gradient} %13 U LAYER=0 PP=0
%14 = sgd {lr=0.1, momentum=0, weight_decay=0} %1 %13 : f64[2] "w" U LAYER=0 PP=0
output "w" {kind=param} %14 U LAYER=0 PP=0
)");
}

TEST_CASE("partition puts one layer more into the first stages where the layers do not divide") {
  CHECK(stages(partition(mlp_text(5, 2, 4), R"({"stages": 2})")) == "0 0 0 1 1");
  CHECK(stages(partition(mlp_text(10, 2, 4), R"({"stages": 4})")) == "0 0 0 1 1 1 2 2 3 3");
  CHECK(stages(partition(mlp_text(7, 2, 4), R"({"sizes": [1, 2, 2, 2]})")) == "0 1 1 2 2 3 3");
  CHECK(stages(partition(mlp_text(3, 2, 4), R"({"stages": 3, "into": "STAGE"})"), "STAGE") == "0 1 2");
}

TEST_CASE("what has no layer goes with the data: an embedding with its first reader, a head with what it reads") {
  const Graph graph = partition(R"(
    input %ids "ids" : i64[4] cut 0 range 6
    input %labels "labels" : i64[4] cut 0 range 6
    param %table "table" : f64[6,3] normal(0.5)
    param %w "w" : f64[3,3] normal(0.5)
    param %v "v" : f64[3,3] normal(0.5)
    %x = embedding %table %ids
    %x = einsum "bi,ij->bj" %x %w LAYER=0
    %x = einsum "bi,ij->bj" %x %v LAYER=1
    %x = einsum "bh,vh->bv" %x %table
    loss "nll" = softmax_xent %x %labels ignore -1
  )",
                                R"({"stages": 2})");
  CHECK(stages(graph) == "0 1 1");
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == Op::Embedding || graph[node].op == Op::EmbeddingBW) CHECK(tag_of(graph, node, "PP") == 0);
    if (graph[node].op == Op::SoftmaxXent || graph[node].op == Op::SoftmaxXentBI) CHECK(tag_of(graph, node, "PP") == 1);
    if (graph[node].op == Op::Sgd && graph[graph[node].name] == "table") CHECK(tag_of(graph, node, "PP") == -1);  // of both stages
  });
}

TEST_CASE("partition refuses stages without layers and sizes that do not fit") {
  CHECK_ERROR(partition(mlp_text(3, 2, 4), R"({"stages": 4})"), "partition: 4 stages of 3 layers leave stage 3 without layers");
  CHECK_ERROR(partition(mlp_text(3, 2, 4), R"({"sizes": [2, 2]})"), "partition: the sizes add up to 4 layers, the model has 3");
  CHECK_ERROR(partition(mlp_text(3, 2, 4), R"({"sizes": [3, 0]})"), "found 0, expected a whole number of at least 1");
  CHECK_ERROR(partition(mlp_text(3, 2, 4), R"({"stages": 3, "sizes": [2, 1]})"), "stages is 3, but sizes lists 2");
  CHECK_ERROR(partition(mlp_text(3, 2, 4), R"({"stages": 2, "tag": "BLOCK"})"), "partition: no node has an integer tag BLOCK");
  CHECK_ERROR(partition(mlp_text(3, 2, 4), R"({"stages": -1})"), "found -1, expected a whole number of at least 1");
  CHECK_ERROR(partition(mlp_text(3, 2, 4), R"({})"), "the key \"stages\" is missing");
}
