#include "passes/differentiate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

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

const char* const kNamedLayers = R"(
  input %x "x" : f64[4,3] cut 0
  input %t "t" : f64[4,2] cut 0
  param %a "a" : f64[3,5]
  param %b "b" : f64[5,2]
  %h = tanh (einsum "bi,ij->bj" %x %a "up")   LAYER=0
  %y = einsum "bi,ij->bj" %h %b "down"   LAYER=1
  loss "mse" = mse %y %t   LAYER=1)";

Graph step_of(const std::string& model, const OptimizerParams& params) {
  Graph step = differentiate(parse(model), params);
  for (const Breach& breach : verify(step)) FAIL_CHECK("R" << breach.rule << ": " << breach.message);
  return step;
}

std::vector<NodeId> nodes(const Graph& g, Op op, const std::string& name = {}) {
  std::vector<NodeId> found;
  g.for_each_node([&](NodeId node) {
    if (g[node].op == op && (name.empty() || g[g[node].name] == name)) found.push_back(node);
  });
  return found;
}

/// "kind/name" of everything that leaves the step.
std::set<std::string> output_keys(const Graph& g) {
  std::set<std::string> keys;
  for (const NodeId node : nodes(g, Op::Output)) keys.insert(g.attrs<OutputAttrs>(node).kind + "/" + g[g[node].name]);
  return keys;
}

std::size_t in_phase(const Graph& g, Phase phase) {
  std::size_t count = 0;
  g.for_each_node([&](NodeId node) { count += g[node].phase == phase; });
  return count;
}

NodeId output_producer(const Graph& g, const std::string& kind, const std::string& name) {
  for (const NodeId node : nodes(g, Op::Output, name))
    if (g.attrs<OutputAttrs>(node).kind == kind) return g[g.operand(node, 0)].producer;
  return NodeId();
}

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

TEST_CASE("what leaves a step depends on the optimizer") {
  const std::set<std::string> gradients{"loss/mse", "gradient/a", "gradient/b"};
  const auto with = [&](std::set<std::string> more) {
    more.insert(gradients.begin(), gradients.end());
    return more;
  };
  CHECK(output_keys(step_of(kNamedLayers, {.optimizer = "none"})) == gradients);
  CHECK(output_keys(step_of(kNamedLayers, {.optimizer = "none", .clip = 1})) == with({"metric/grad_norm"}));
  CHECK(output_keys(step_of(kNamedLayers, {.optimizer = "sgd"})) == with({"param/a", "param/b"}));
  CHECK(output_keys(step_of(kNamedLayers, {.optimizer = "sgd", .momentum = 0.9})) ==
        with({"param/a", "param/b", "state/a.momentum", "state/b.momentum"}));
  CHECK(output_keys(step_of(kNamedLayers, {})) == with({"param/a", "param/b", "state/a.m", "state/a.v", "state/b.m", "state/b.v"}));
}

TEST_CASE("updates, states and norms carry the tags that the readers of their parameter have in common") {
  const Graph g = step_of(kNamedLayers, {.clip = 1});
  for (const Op op : {Op::Param, Op::SumSq, Op::AdamW}) {
    REQUIRE(nodes(g, op, "a").size() == 1);
    CHECK(to_string(g, g[g[nodes(g, op, "a").front()].tags]) == "LAYER=0");
  }
  CHECK(to_string(g, g[g[nodes(g, Op::State, "b.m").front()].tags]) == "LAYER=1");
  CHECK(to_string(g, g[g[nodes(g, Op::ClipCoef).front()].tags]).empty());
}

TEST_CASE("a parameter that no loss reads is left alone") {
  const Graph g = step_of(R"(
    input %x "x" : f64[4] cut 0
    param %w "w" : f64[4]
    param %idle "idle" : f64[4]
    output "aside" (mul %x %idle)
    loss "l" = sum (mul %x %w))",
                          {});
  CHECK(output_keys(g) == std::set<std::string>{"loss/l", "metric/aside", "gradient/w", "param/w", "state/w.m", "state/w.v"});
}

TEST_CASE("a value with two readers has one sum of its gradients, in its own phase") {
  const Graph g = step_of(R"(
    input %x "x" : f64[4,3] cut 0
    param %w "w" : f64[3,3]
    %h = einsum "bi,ij->bj" %x %w "up"   LAYER=0
    loss "l" = sum (add %h (tanh %h)))",
                          {.optimizer = "none"});
  REQUIRE(nodes(g, Op::Sum).size() == 1);
  CHECK(g[nodes(g, Op::Sum).front()].phase == Phase::BI);
  CHECK(g[g[nodes(g, Op::Sum).front()].name] == "up");
  CHECK(to_string(g, g[g[nodes(g, Op::Sum).front()].tags]) == "LAYER=0");
}

TEST_CASE("the losses alone state scales; the gradient that enters each is weight over count") {
  const Graph g = step_of(R"(
    input %x "x" : f32[4,3] cut 0
    input %t "t" : i64[4] cut 0 range 3
    param %w "w" : f32[3,3]
    %y = einsum "bi,ij->bj" %x %w
    loss "mse" = mse %y %x weight 0.5
    loss "nll" = softmax_xent %y %t ignore -1 weight 2)",
                          {.optimizer = "none"});
  const std::vector<NodeId> scales = nodes(g, Op::LossScale);
  REQUIRE(scales.size() == 2);
  std::set<double> weights;
  for (const NodeId node : scales) {
    CHECK(g[node].phase == Phase::BI);
    weights.insert(g.attrs<LossAttrs>(node).weight);
    CHECK(g[node].operand_count == (g.attrs<LossAttrs>(node).count ? 0 : 1));
  }
  CHECK(weights == std::set<double>{0.5, 2});
  CHECK(nodes(g, Op::CountValid).size() == 1);  // the same count for the loss and for its gradient
  CHECK(nodes(g, Op::Scale).empty());
}

TEST_CASE("clipping casts its coefficient once for each element type, and gradients leave as the update reads them") {
  const Graph g = step_of(R"(
    input %x "x" : f32[4,3] cut 0
    param %a "a" : f32[3,3]
    param %b "b" : f32[3,3]
    loss "l" = sum (einsum "bi,ij->bj" (einsum "bi,ij->bj" %x %a) %b))",
                          {.optimizer = "sgd", .clip = 0.5});
  std::size_t casts = 0;
  for (const NodeId node : nodes(g, Op::Cast)) casts += g[node].phase == Phase::U;
  CHECK(casts == 1);
  REQUIRE(nodes(g, Op::ClipCoef).size() == 1);
  CHECK(g.attrs<ClipAttrs>(nodes(g, Op::ClipCoef).front()).max_norm == 0.5);
  CHECK(nodes(g, Op::SumSq).size() == 2);
  for (const NodeId update : nodes(g, Op::Sgd)) {
    const NodeId clipped = g[g.operand(update, 1)].producer;
    CHECK(g[clipped].op == Op::Mul);
    CHECK(g[clipped].phase == Phase::U);
    CHECK(output_producer(g, "gradient", g[g[update].name]) == clipped);
  }
  const Graph wide = step_of(kNamedLayers, {.optimizer = "sgd", .clip = 0.5});
  CHECK(nodes(wide, Op::Cast).empty());
}

TEST_CASE("forward nodes get names of their own, which key their random numbers") {
  const Graph g = step_of(R"(
    input %x "x" : f64[4,3] cut 0
    param %w "w" : f64[3,3]
    %a = dropout (einsum "bi,ij->bj" %x %w) {p=0.5}
    %b = dropout (einsum "bi,ij->bj" %a %w) {p=0.5}
    loss "l" = sum %b)",
                          {.optimizer = "none"});
  std::set<std::string> forward;
  std::set<std::string> backward;
  for (const NodeId node : nodes(g, Op::Dropout)) (g[node].phase == Phase::F ? forward : backward).insert(g[g[node].name]);
  CHECK(forward.size() == 2);
  CHECK(backward == forward);  // the mask is drawn again
}

TEST_CASE("nothing is computed for a frozen parameter, nor before all that is trained") {
  const std::string model = R"(
    input %x "x" : f64[4,3] cut 0
    param %first "first" : f64[3,3] frozen
    param %last "last" : f64[3,3]
    param %frozen "frozen" : f64[3,3] frozen
    %h = tanh (einsum "bi,ij->bj" %x %first "up")
    loss "l" = sum (tanh (einsum "bi,ij->bj" (einsum "bi,ij->bj" %h %last "middle") %frozen "down")))";
  const Graph g = step_of(model, {});
  CHECK(output_keys(g) == std::set<std::string>{"loss/l", "gradient/last", "param/last", "state/last.m", "state/last.v"});
  CHECK(nodes(g, Op::State).size() == 2);
  CHECK(nodes(g, Op::AdamW).size() == 1);
  CHECK(nodes(g, Op::Einsum, "up").size() == 1);      // nothing before it wants a gradient
  CHECK(nodes(g, Op::Einsum, "middle").size() == 2);  // its weight's
  REQUIRE(nodes(g, Op::Einsum, "down").size() == 2);  // its input's: gradients pass through the frozen layer
  CHECK(g[nodes(g, Op::Einsum, "down").back()].phase == Phase::BI);
  CHECK(in_phase(g, Phase::BW) == 1);
}

TEST_CASE("a step is not differentiated again") {
  CHECK_ERROR(differentiate(differentiate(parse(kTwoLayers), with("none")), with("none")),
              "differentiate: %9 = loss_scale \"mse\" (BI) is no forward node at home; differentiation comes first");
  OptimizerParams params = with("sgd");
  params.momentum = std::nan("");
  CHECK_ERROR(text_of(kTwoLayers, params), "differentiate: momentum is nan, expected a number of at least 0");
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
