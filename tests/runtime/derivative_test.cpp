#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "ir/builder.h"
#include "ir/text.h"
#include "passes/differentiate.h"
#include "runtime/reference/interpreter.h"

using namespace skirl;

namespace {

struct Model {
  const char* what;
  const char* text;
};

/// Every operator that has a derivative, with odd shapes and with all its operands wanting a gradient.
const Model kModels[] = {
    {"einsum, both operands, a batch letter and a contraction", R"(
      param %a "a" : f64[2,3,5] normal(0.5)
      param %b "b" : f64[2,5,4] normal(0.5)
      input %t "t" : f64[2,4,3]
      loss "l" = mse (einsum "xij,xjk->xki" %a %b) %t)"},
    {"einsum, outer and inner products", R"(
      param %a "a" : f64[3] normal(0.5)
      param %b "b" : f64[5] normal(0.5)
      param %c "c" : f64[5,3] normal(0.5)
      %outer = einsum "i,j->ij" %a %b
      %inner = einsum "ij,ji->" %outer %c
      input %t "t" : f64[]
      loss "l" = mse %inner %t)"},
    {"add, broadcast on both sides", R"(
      param %a "a" : f64[2,1,3] normal(0.5)
      param %b "b" : f64[5,1] normal(0.5)
      input %t "t" : f64[2,5,3]
      loss "l" = mse (add %a %b) %t)"},
    {"mul, broadcast on both sides, and a square", R"(
      param %a "a" : f64[2,1,3] normal(0.5)
      param %b "b" : f64[5,1] normal(0.5)
      input %t "t" : f64[2,5,3]
      %c = mul %a %b
      loss "l" = mse (add (mul %c %c) %c) %t)"},
    {"scale and tanh", R"(
      param %a "a" : f64[7] normal(1)
      input %t "t" : f64[7]
      loss "l" = mse (scale (tanh %a) {factor=-1.7}) %t)"},
    {"gelu", R"(
      param %a "a" : f64[11] normal(2)
      input %t "t" : f64[11]
      loss "l" = mse (gelu %a) %t)"},
    {"silu", R"(
      param %a "a" : f64[11] normal(2)
      input %t "t" : f64[11]
      loss "l" = mse (silu %a) %t)"},
    {"swiglu", R"(
      param %a "a" : f64[11] normal(2)
      param %b "b" : f64[11] normal(2)
      input %t "t" : f64[11]
      loss "l" = mse (swiglu %a %b) %t)"},
    {"swiglu of a parameter and an input, and the other way round", R"(
      param %a "a" : f64[11] normal(2)
      input %t "t" : f64[11]
      loss "l" = mse (swiglu %a %t) %t
      loss "m" = mse (swiglu %t %a) %t)"},
    {"sum_to, dimensions of size 1 and missing ones", R"(
      param %a "a" : f64[2,5,3,1] normal(0.5)
      input %t "t" : f64[1,3,1]
      loss "l" = mse (sum_to %a {shape=[1,3,1]}) %t
      loss "all" = sum (mul %a %a) weight 0.3)"},
    {"layer_norm", R"(
      param %x "x" : f64[2,3,5] normal(1)
      param %gamma "gamma" : f64[5] normal(1)
      param %beta "beta" : f64[5] normal(1)
      input %t "t" : f64[2,3,5]
      %y, %mean, %rstd = layer_norm %x %gamma %beta {eps=1e-3}
      loss "l" = mse (tanh %y) %t)"},
    {"rms_norm", R"(
      param %x "x" : f64[3,5] normal(1)
      param %gamma "gamma" : f64[5] normal(1)
      input %t "t" : f64[3,5]
      loss "l" = mse (tanh (rms_norm %x %gamma {eps=1e-3})) %t)"},
    {"rope and its inverse", R"(
      param %x "x" : f64[2,3,1,4] normal(1)
      input %t "t" : f64[2,3,1,4]
      %y = tanh (rope %x {base=10, inverse=false})
      loss "l" = mse (rope (mul %y %x) {base=3, inverse=true}) %t)"},
    {"attention, causal, three query heads a head of keys", R"(
      param %q "q" : f64[2,3,6,3] normal(1)
      param %k "k" : f64[2,3,2,3] normal(1)
      param %v "v" : f64[2,3,2,5] normal(1)
      input %t "t" : f64[2,3,6,5]
      %o, %lse = attention %q %k %v {causal=true, scale=0.7}
      loss "l" = mse %o %t)"},
    {"attention, not causal, more keys than queries", R"(
      param %q "q" : f64[1,2,2,3] normal(1)
      param %k "k" : f64[1,5,2,3] normal(1)
      param %v "v" : f64[1,5,2,2] normal(1)
      input %t "t" : f64[1,2,2,2]
      loss "l" = mse (attention %q %k %v {causal=false, scale=1.3}) %t)"},
    {"embedding, with rows that are read twice and rows that are not", R"(
      param %table "table" : f64[5,3] normal(1)
      input %ids "ids" : i64[2,7] range 3
      input %t "t" : f64[2,7,3]
      loss "l" = mse (embedding %table %ids) %t)"},
    {"embedding of positions", R"(
      param %table "table" : f64[5,3] normal(1)
      input %t "t" : f64[4,3]
      %at = iota {shape=[4]}
      loss "l" = mse (embedding %table %at) %t)"},
    {"softmax_xent, some labels ignored", R"(
      param %x "x" : f64[3,4,5] normal(2)
      input %labels "labels" : i32[3,4] range 5
      loss "l" = softmax_xent %x %labels ignore 2 weight 0.7)"},
    {"sq_error, of the target too", R"(
      param %x "x" : f64[3,4] normal(1)
      param %y "y" : f64[3,4] normal(1)
      loss "l" = mse (mul %x %y) %y weight 2.5)"},
    {"dropout", R"(
      param %x "x" : f64[5,7] normal(1)
      input %t "t" : f64[5,7]
      loss "l" = mse (dropout (tanh (dropout %x {p=0.4})) {p=0.2}) %t)"},
    {"sum, one operand twice", R"(
      param %a "a" : f64[3] normal(1)
      param %b "b" : f64[3] normal(1)
      input %t "t" : f64[3]
      loss "l" = mse (sum %a (tanh %b) %a {accumulate=f64}) %t)"},
    {"slice, pad and concat", R"(
      param %a "a" : f64[3,5] normal(1)
      param %b "b" : f64[3,2] normal(1)
      input %t "t" : f64[3,9]
      %part = slice %a {dim=1, start=1, size=3}
      %wide = pad %b {dim=1, start=1, size=4}
      loss "l" = mse (concat (tanh %part) %b (mul %wide %wide) {dim=1}) %t)"},
    {"cast, from f32", R"(
      param %a "a" : f32[3,4] normal(1)
      input %t "t" : f64[3,4]
      loss "l" = mse (tanh (cast %a {dtype=f64})) %t)"},
    {"a tied parameter, a frozen one, two losses", R"(
      param %w "w" : f64[5,3] normal(0.7)
      param %frozen "frozen" : f64[3,3] normal(0.7) frozen
      input %ids "ids" : i64[4] range 5
      input %y "y" : f64[4,3]
      %x = tanh (einsum "bi,ij->bj" (embedding %w %ids) %frozen)
      loss "middle" = mse %x %y weight 0.25
      loss "end" = softmax_xent (einsum "bi,vi->bv" %x %w) %ids)"},
};

Graph derived(const Model& model) { return differentiate(parse(model.text, model.what), {.optimizer = "none"}); }

/// The step with inputs in place of its parameters, so that each element of them can be moved.
Graph with_free_parameters(Graph g) {
  std::vector<NodeId> params;
  g.for_each_node([&](NodeId node) {
    if (g[node].op == Op::Param) params.push_back(node);
  });
  for (const NodeId param : params) {
    Builder b(g);
    const std::string name = g[g[param].name];
    const TensorType type = g.type(g.result(param));
    g.replace_uses(g.result(param), b.source(Op::Input, name, type, InputAttrs{}));
    g.erase(param);
  }
  return g;
}

double total_loss(const StepResult& result) {
  double total = 0;
  for (const auto& [key, tensor] : result.outputs)
    if (key.rfind("loss/", 0) == 0) total += tensor.get(0);
  return total;
}

/// Largest difference of a gradient that the step gives from the central difference of its losses, over the largest element of that
/// gradient.
double gradient_error(const Graph& step) {
  constexpr std::uint64_t kSeed = 3;
  constexpr double kEps = 1e-6;
  TensorMap values = random_inputs(step, kSeed, 1);
  for (const auto& [key, tensor] : Interpreter(step, kSeed).values()) values[key.substr(key.find('/') + 1)] = tensor;
  Interpreter runner(with_free_parameters(step), kSeed);
  const StepResult at = runner.run(values, 1);
  double worst = 0;
  for (const auto& [key, gradient] : at.outputs) {
    if (key.rfind("gradient/", 0) != 0) continue;
    Tensor& param = values.at(key.substr(key.find('/') + 1));
    double largest = 0;
    double difference = 0;
    for (std::int64_t i = 0; i < param.elems(); ++i) {
      const double x = param.get(i);
      param.set(i, x + kEps);
      const double above = param.get(i);  // as the dtype holds it
      const double higher = total_loss(runner.run(values, 1));
      param.set(i, x - kEps);
      const double below = param.get(i);
      const double lower = total_loss(runner.run(values, 1));
      param.set(i, x);
      largest = std::max(largest, std::abs(gradient.get(i)));
      difference = std::max(difference, std::abs((higher - lower) / (above - below) - gradient.get(i)));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

std::size_t gradients(const Graph& step) {
  std::size_t count = 0;
  step.for_each_node([&](NodeId node) { count += step[node].op == Op::Output && step.attrs<OutputAttrs>(node).kind == "gradient"; });
  return count;
}

std::size_t trainable_parameters(const Graph& step) {
  std::size_t count = 0;
  step.for_each_node([&](NodeId node) { count += step[node].op == Op::Param && step.attrs<ParamAttrs>(node).trainable; });
  return count;
}

}  // namespace

TEST_CASE("the gradient of every parameter is the slope of the losses") {
  for (const Model& model : kModels) {
    INFO(model.what);
    const Graph step = derived(model);
    CHECK(gradients(step) == trainable_parameters(step));
    CHECK(gradient_error(step) < 1e-6);
  }
}

TEST_CASE("every operator that has a derivative stands in a model whose gradients are checked") {
  std::set<Op> seen;
  for (const Model& model : kModels) {
    const Graph forward = parse(model.text, model.what);
    forward.for_each_node([&](NodeId node) { seen.insert(forward[node].op); });
  }
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    INFO(info(op).name);
    CHECK((info(op).derive == nullptr || seen.count(op) == 1));
  }
}

TEST_CASE("a backward node that is off by a thousandth is noticed") {
  Graph step = derived({"scale", R"(
    param %a "a" : f64[7] normal(1)
    input %t "t" : f64[7]
    loss "l" = mse (scale (tanh %a) {factor=2}) %t)"});
  REQUIRE(gradient_error(step) < 1e-6);
  step.for_each_node([&](NodeId node) {
    if (step[node].op == Op::Scale && step[node].phase != Phase::F) step[node].attrs = step.intern(Attrs{ScaleAttrs{2.002}});
  });
  CHECK(gradient_error(step) == Approx(1e-3).epsilon(0.1));
}

TEST_CASE("where every label is ignored, the loss and all gradients are 0") {
  const Graph step = derived({"ignored", R"(
    input %labels "labels" : i64[3] range 1
    param %x "x" : f64[3,4] normal(1)
    loss "l" = softmax_xent %x %labels ignore 0)"});
  const StepResult result = Interpreter(step, 3).run(random_inputs(step, 3, 1), 1);
  CHECK(result.outputs.at("loss/l").get(0) == 0);
  const Tensor& gradient = result.outputs.at("gradient/x");
  for (std::int64_t i = 0; i < gradient.elems(); ++i) CHECK(gradient.get(i) == 0);
}
