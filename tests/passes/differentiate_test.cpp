#include "passes/differentiate.h"

#include <catch2/catch.hpp>

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

OptimizerParams with(const std::string& optimizer) {
  OptimizerParams params;
  params.optimizer = optimizer;
  params.lr = 0.1;
  return params;
}

std::string text_of(const std::string& model, const OptimizerParams& params) { return print(differentiate(parse(model), params)); }

std::size_t count(const Graph& graph, Op op) {
  std::size_t n = 0;
  graph.for_each_node([&](NodeId node) { n += graph[node].op == op; });
  return n;
}

NodeId source(const Graph& graph, const std::string& name) {
  NodeId found;
  graph.for_each_node([&](NodeId node) {
    if (is_signature(graph[node].op) && graph[node].op != Op::Output && graph[graph[node].name] == name) found = node;
  });
  return found;
}

/// "gradient/w param/w …": what leaves the step, in id order.
std::string outputs(const Graph& graph) {
  std::string text;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == Op::Output)
      text += (text.empty() ? "" : " ") + graph.attrs<OutputAttrs>(node).kind + "/" + graph[graph[node].name];
  });
  return text;
}

const std::string kTwoLayers = R"(
  input %x "x" : f32[2,4] cut 0
  input %y "y" : f32[2,4] cut 0
  param %w0 "w0" : f32[4,4] normal(0.02)
  param %w1 "w1" : f32[4,4] normal(0.02)
  %h = tanh (einsum "bi,ij->bj" %x %w0)   LAYER=0
  %z = einsum "bi,ij->bj" %h %w1   LAYER=1
  loss "mse" = mse %z %y
)";

/// A model whose loss reads %z, made from parameter %w and input %x, both f32[4].
std::string ending_in(const std::string& line) { return "input %x \"x\" : f32[4]\nparam %w \"w\" : f32[4] normal(0.02)\n" + line + "\n"; }

}  // namespace

TEST_CASE("differentiate emits backward for inputs and for weights apart, with the tags and names of the forward node") {
  const Graph graph = differentiate(parse(kTwoLayers), with("sgd"));
  CHECK(verify(graph).empty());
  std::string backward;
  graph.for_each_node([&](NodeId node) {
    const Node& n = graph[node];
    if (n.phase == Phase::BI || n.phase == Phase::BW)
      backward += std::string(name(n.phase)) + " " + info(n.op).name + " [" + to_string(graph, graph[n.tags]) + "]\n";
  });
  CHECK(backward ==
        "BI loss_scale []\n"
        "BI cast []\n"
        "BI sq_error_bi []\n"
        "BI einsum [LAYER=1]\n"
        "BW einsum [LAYER=1]\n"
        "BI tanh_grad [LAYER=0]\n"
        "BW einsum [LAYER=0]\n");
  CHECK(outputs(graph) == "loss/mse gradient/w0 param/w0 gradient/w1 param/w1");
}

TEST_CASE("a derivative reuses what forward saved, and the step prints as text") {
  CHECK(text_of(R"(
    input %x "x" : f64[2,4] cut 0
    input %y "y" : f64[2,4] cut 0
    param %g "g" : f64[4] constant(1)
    %z, %r = rms_norm %x %g   LAYER=2
    loss "mse" = mse %z %y
  )",
                with("none")) == print(parse(R"(
    %0 = input "x" {cut=0} : f64[2,4] F
    %1 = input "y" {cut=0} : f64[2,4] F
    %2 = param "g" {init=constant, scale=1, trainable=true} : f64[4] F LAYER=2
    %3, %4 = rms_norm %0 %2 : f64[2,4], f64[2] "rms_norm.0" F LAYER=2
    %5 = sq_error %3 %1 : f64[] "mse.sum" F
    %6 = loss {weight=1, count=8} %5 : f64[] "mse" F
    output "mse" {kind=loss} %6
    %7 = loss_scale {weight=1, count=8} : f64[] "mse" BI
    %8 = sq_error_bi %3 %1 %7 : f64[2,4] "mse.sum" BI
    %9 = rms_norm_bw %8 %0 %4 : f64[4] "rms_norm.0" BW LAYER=2
    output "g" {kind=gradient} %9 U LAYER=2
  )")));
}

TEST_CASE("gradients of several uses meet in one flat sum, in the order of the uses") {
  const Graph graph = differentiate(parse(R"(
    input %x "x" : f32[4,4]
    param %w "w" : f32[4,4] normal(0.02)
    %a = einsum "bi,ij->bj" %x %w   LAYER=0 BLOCK=mlp
    %b = einsum "bi,ij->bj" %a %w   LAYER=1 BLOCK=mlp
    %c = einsum "bi,ij->bj" %b %w   LAYER=2 BLOCK=mlp
    loss "total" = sum %c
  )"),
                                    with("adamw"));
  REQUIRE(count(graph, Op::Sum) == 1);
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Sum) return;
    CHECK(graph[node].phase == Phase::U);
    CHECK(to_string(graph, graph[graph[node].tags]) == "BLOCK=mlp");
    std::string layers;
    graph.for_each_operand(node, [&](ValueId v, std::size_t) { layers += to_string(graph, graph[graph[graph[v].producer].tags]) + ";"; });
    CHECK(layers == "BLOCK=mlp LAYER=0;BLOCK=mlp LAYER=1;BLOCK=mlp LAYER=2;");
    CHECK(graph.attrs<SumAttrs>(node).accumulate == DType::F32);
  });
  CHECK(to_string(graph, graph[graph[source(graph, "w")].tags]) == "BLOCK=mlp");
  CHECK(to_string(graph, graph[graph[source(graph, "w.m")].tags]) == "BLOCK=mlp");
}

TEST_CASE("a frozen parameter has neither gradient nor state, and gradients flow through its layer") {
  std::string model = kTwoLayers;
  model.replace(model.find("param %w1 \"w1\" : f32[4,4] normal(0.02)"), 39, "param %w1 \"w1\" : f32[4,4] normal(0.02) frozen\n");
  const Graph graph = differentiate(parse(model), with("adamw"));
  CHECK(outputs(graph) == "loss/mse gradient/w0 param/w0 state/w0.m state/w0.v");
  CHECK(count(graph, Op::AdamW) == 1);
  CHECK(!source(graph, "w1.m").valid());
}

TEST_CASE("what stems from parameters alone is work for weights") {
  const Graph graph = differentiate(parse(R"(
    input %x "x" : f32[2,4]
    param %w "w" : f32[4] normal(0.02)
    %v = tanh (mul %w (fill {shape=[4], dtype=f32, value=2}))   LAYER=5
    loss "total" = sum (mul %x %v)
  )"),
                                    with("none"));
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == Op::TanhGrad) CHECK(graph[node].phase == Phase::BW);
  });
  CHECK(count(graph, Op::TanhGrad) == 1);
}

TEST_CASE("clipping reads every gradient once and scales it before the update reads it") {
  OptimizerParams params = with("sgd");
  params.clip = 0.5;
  const Graph graph = differentiate(parse(kTwoLayers), params);
  CHECK(count(graph, Op::SumSq) == 2);
  CHECK(count(graph, Op::ClipCoef) == 1);
  CHECK(outputs(graph) == "loss/mse metric/grad_norm gradient/w0 param/w0 gradient/w1 param/w1");
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == Op::Sgd) CHECK(graph[graph[graph.operand(node, 1)].producer].op == Op::Mul);
  });
  CHECK(count(differentiate(parse(kTwoLayers), with("sgd")), Op::SumSq) == 0);
}

TEST_CASE("moments of half-width parameters are kept in f32") {
  std::string model = kTwoLayers;
  for (std::size_t at = 0; (at = model.find("f32", at)) != std::string::npos;) model.replace(at, 3, "f16");
  const Graph graph = differentiate(parse(model), with("adamw"));
  CHECK(to_string(graph.type(graph.result(source(graph, "w0.m")))) == "f32[4,4]");
}

TEST_CASE("differentiate refuses what has no gradient") {
  const auto refused = [](const std::string& model) { return text_of(model, with("sgd")); };
  CHECK_ERROR(refused("input %x \"x\" : f32[4]\nloss \"l\" = sum %x\n"), "differentiate: no loss depends on a trainable parameter");
  CHECK_ERROR(refused(ending_in("%z = mul %x %w\noutput \"z\" {kind=metric} %z")), "differentiate: the model has no loss");
  CHECK_ERROR(refused(ending_in("%z = row_max (mul %x %w)\nloss \"l\" = sum %z")),
              "differentiate: %3 = row_max \"row_max.1\" (F) has no derivative, and a loss depends on a trainable parameter through it");
  CHECK_ERROR(refused(ending_in(
                  "%a, %r = rms_norm %x %w\n%b, %s = rms_norm (mul %x %w) %w\nloss \"l\" = sum (add %a (sum_to {shape=[4]} (mul %x %s)))")),
              "differentiate: a loss depends on result 1 of %5 = rms_norm \"rms_norm.2\" (F), expected on result 0 only");
  CHECK_ERROR(refused(ending_in("%z = sum_to {shape=[]} (mul %x %w)\noutput \"z\" {kind=loss} %z")),
              "differentiate: loss \"z\" is the result of %3 = sum_to (F), expected a loss node");
  CHECK_ERROR(refused(ending_in("%z = loss {weight=1, count=4} (sum_to {shape=[]} (mul %x %w))\noutput \"z\" {kind=loss} %z\n"
                                "output \"y\" {kind=metric} (tanh %z)")),
              "differentiate: loss \"z\" is read by %5 = tanh (F), expected outputs only");
  CHECK_ERROR(text_of(kTwoLayers, with("adam")), "differentiate: there is no optimizer 'adam'; known: adamw, sgd, none");
  OptimizerParams params = with("sgd");
  params.lr = -0.5;
  CHECK_ERROR(text_of(kTwoLayers, params), "differentiate: lr is -0.5, expected a number of at least 0");
  params = with("sgd");
  params.clip = 0;
  CHECK_ERROR(text_of(kTwoLayers, params), "differentiate: clip is 0, expected a norm above 0");
}
