#include "passes/split.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/text.h"
#include "passes/place.h"
#include "tests/support/check_error.h"
#include "tests/support/compiled.h"
#include "tools/testing.h"

using namespace skirl;
using namespace skirl::test;

namespace {

const std::string kProduct = R"(
input %x "x" : f64[5,4] cut 0
param %w "w" : f64[4] ones
%y = mul %x %w
%l = sum_to %y {shape=[]}
output "l" {kind=metric} %l
)";

Graph split(const std::string& graph, const std::string& params) { return after(split_pass(), graph, params); }

std::string with_dropout(const std::string& batch) {
  return "input %x \"x\" : f64[" + batch + R"(,3] cut 0
    param %w "w" : f64[3,3] normal(0.5)
    loss "l" = mse (dropout (einsum "bi,ij->bj" %x %w) {p=0.5} "drop") %x
  )";
}

}  // namespace

TEST_CASE("split clones what the batch goes through and sums what it adds up to") {
  CHECK("\n" + print(split(kProduct, R"({"num_microbatches": 2})")) == R"(
%0 = param "w" {init=constant, scale=1, trainable=true} : f64[4] F
%1 = input "x" {cut=0} : f64[3,4] F MB=0
%2 = input "x" {cut=0} : f64[2,4] F MB=1 origin=[3,0]
%3 = mul %1 %0 : f64[3,4] F MB=0
%4 = mul %2 %0 : f64[2,4] F MB=1
%5 = sum_to {shape=[]} %3 : f64[] F MB=0
%6 = sum_to {shape=[]} %4 : f64[] F MB=1
%7 = sum {accumulate=f64} %5 %6 : f64[] F
output "l" {kind=metric} %7 U
)");
}

TEST_CASE("split joins the pieces of what is read whole") {
  CHECK("\n" + print(split("input %x \"x\" : f64[5,4] cut 0\n%y = tanh %x\noutput \"y\" %y\n", R"({"num_microbatches": 2})")) == R"(
%0 = input "x" {cut=0} : f64[3,4] F MB=0
%1 = input "x" {cut=0} : f64[2,4] F MB=1 origin=[3,0]
%2 = tanh %0 : f64[3,4] F MB=0
%3 = tanh %1 : f64[2,4] F MB=1
%4 = concat {dim=0} %2 %3 : f64[5,4] F
output "y" {kind=metric} %4 U
)");
}

TEST_CASE("split leaves what does not depend on the batch once") {
  const Graph graph = split(R"(
    input %x "x" : f64[4,2] cut 0
    input %m "m" : f64[1,2]
    %n = tanh %m
    %y = mul %x %n
    output "y" %y
  )",
                            R"({"num_microbatches": 4})");
  CHECK(count(graph, Op::Tanh) == 1);
  CHECK(count(graph, Op::Mul) == 4);
}

TEST_CASE("split counts tokens over the whole batch, before the first backward") {
  const Graph step = differentiate(parse(R"(
    input %x "x" : f64[4,3] cut 0
    input %labels "labels" : i64[4] cut 0 range 3
    param %w "w" : f64[3,3] normal(0.5)
    loss "nll" = softmax_xent (einsum "bi,ij->bj" %x %w) %labels ignore 0
  )"),
                                   adam());
  const Graph graph = after(split_pass(), step, R"({"num_microbatches": 2})");
  CHECK(count(graph, Op::CountValid) == 1);
  CHECK(count(graph, Op::SoftmaxXent) == 2);
  CHECK(same_step(step, graph));
}

TEST_CASE("split tags clones with dim_name and computes the same step, whether the batch divides or not") {
  for (const std::string batch : {"4", "5", "7"}) {
    const Graph step = differentiate(parse(with_dropout(batch)), adam());
    const Graph graph = after(split_pass(), step, R"({"num_microbatches": 4, "dim_name": "CHUNK"})");
    graph.for_each_node([&](NodeId node) {
      if (graph[node].op == Op::Dropout) CHECK(tag_of(graph, node, "CHUNK") >= 0);
    });
    CHECK(same_step(step, graph));
  }
}

TEST_CASE("split adds in the wider type what is cast to one") {
  const Graph graph = split(R"(
    input %x "x" : bf16[2,4] cut 0
    param %w "w" : bf16[4] ones
    %l = cast (sum_to (mul %x %w) {shape=[4]}) {dtype=f32}
    output "l" %l
  )",
                            R"({"num_microbatches": 2})");
  CHECK(count(graph, Op::Cast) == 2);
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == Op::Sum) CHECK(graph.type(graph.result(node)).dtype == DType::F32);
  });
}

TEST_CASE("split refuses what it cannot cut") {
  CHECK_ERROR(split(kProduct, R"({"num_microbatches": 6})"), "split: 6 microbatches cannot be made of 5 samples");
  CHECK_ERROR(split("input %x \"x\" : f64[4]\n%y = tanh %x\noutput \"y\" %y\n", R"({"num_microbatches": 2})"),
              "split: no input has a batch dimension to cut");
  CHECK_ERROR(
      split("input %x \"x\" : f64[4] cut 0\ninput %y \"y\" : f64[3] cut 0\n%a = tanh %x\n%b = tanh %y\noutput \"a\" %a\noutput \"b\" %b\n",
            R"({"num_microbatches": 2})"),
      "split: the batch dimension of input \"y\" has 3 samples, that of input \"x\" has 4");
  const std::string twice = print(split(kProduct, R"({"num_microbatches": 2})"));
  CHECK_ERROR(split(twice, R"({"num_microbatches": 2})"), "split: %1 = input \"x\" (F MB=0) has the tag MB already");
  CHECK_ERROR(after(split_pass(), after(place_pass(), kProduct, R"({"devices": [0]})"), R"({"num_microbatches": 2})"),
              "split: the region is on devices already");
  CHECK_ERROR(split(kProduct, R"({"num_microbatches": 2, "filter": {"LAYER": 3}})"),
              "the filter {\"LAYER\":3} names the tag LAYER, which no node has; tags: none");
  CHECK_ERROR(split(kProduct, R"({"num_microbatches": 0})"), "found 0, expected a whole number of at least 1");
  CHECK_ERROR(split(kProduct, R"({"num_microbatches": 2, "dim": "MB"})"), "unknown key \"dim\"; known: filter, dim_name, num_microbatches");
  CHECK_ERROR(split(kProduct, R"({"num_microbatches": 2, "dim_name": ""})"),
              "dim_name is empty, expected the name of a tag such as \"MB\"");
  CHECK_ERROR(split(kProduct, R"({"num_microbatches": 2, "filter": {"PASS": "BW"}})"),
              "split: the filter {\"PASS\":\"BW\"} matches no node");
}
