#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/text.h"
#include "passes/lower.h"
#include "runtime/backends.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/compiled.h"

using namespace skirl;
using namespace skirl::test;

/// Values that users of other systems got wrong, as small models; docs/faults.md says what the numbers stand for.
namespace {

/// One step on cpu from these inputs.
StepResult cpu_step(const std::string& model, const std::string& strategy, const OptimizerParams& optimizer, const TensorMap& inputs) {
  const Plan plan = lower(compiled(model, strategy, optimizer).placed, {});
  return backend_named("cpu").make(plan, 7)->run(inputs, 1);
}

Tensor tensor(DType dtype, const Shape& shape, const std::vector<double>& elements) {
  Tensor t(dtype, shape);
  for (std::size_t i = 0; i < elements.size(); ++i) t.set(static_cast<std::int64_t>(i), elements[i]);
  return t;
}

}  // namespace

TEST_CASE("the mean over all samples is the same with and without a pipeline, and a loss scale goes through", "[A01]") {
  for (const std::string strategy : {"pp(2, gpipe, mb=4)", "pp(2, 1f1b, mb=4)", "pp(1, mb=1)"})
    CHECK(broken(mlp_text(2, 4, 8), strategy) == "");
  const std::string summed = "sum (mul %x %y) weight ";
  for (const std::string strategy : {"pp(2, gpipe, mb=4)", "pp(2, 1f1b, mb=4)"}) {
    CHECK(broken(mlp_text(2, 4, 8, summed + "0.125"), strategy) == "");
    const std::string plain = mlp_text(2, 4, 8, summed + "0.125");
    const std::string scaled = mlp_text(2, 4, 8, summed + "128.0");  // 1024 times as much
    const TensorMap inputs = random_inputs(parse(plain), 3, 1);
    const StepResult expected = cpu_step(plain, strategy, gradients_only(), inputs);
    const StepResult got = cpu_step(scaled, strategy, gradients_only(), inputs);
    for (const char* gradient : {"gradient/l0.w", "gradient/l1.w"})
      for (std::int64_t i = 0; i < 16; ++i)
        CHECK(got.outputs.at(gradient).get(i) / 1024 == Approx(expected.outputs.at(gradient).get(i)).epsilon(1e-12));
  }
}

TEST_CASE("fewer microbatches than stages, or only one, run to the end", "[A02]") {
  for (const std::string schedule : {"gpipe", "1f1b"})
    for (const std::int64_t mb : {1, 2, 3}) CHECK(broken(mlp_text(4, 3, 6), "pp(4, " + schedule + ", mb=" + number(mb) + ")") == "");
}

TEST_CASE("a smaller last microbatch weighs by its samples", "[A03]") {
  for (const std::string schedule : {"gpipe", "1f1b"}) CHECK(broken(mlp_text(3, 3, 8), "pp(3, " + schedule + ", mb=3)") == "");
}

TEST_CASE("every layer is in one stage where the count does not divide", "[A04]") {
  for (const auto& [layers, ranks] : std::vector<std::pair<int, int>>{{5, 2}, {10, 4}}) {
    const std::string strategy = "pp(" + number(ranks) + ", mb=2)";
    const Graph placed = compiled(mlp_text(layers, 3, 4), strategy, adam()).placed;
    CHECK(count(placed, Op::Param) == layers);
    CHECK(count(placed, Op::AdamW) == layers);
    std::int64_t forward = 0;
    placed.for_each_node([&](NodeId node) { forward += placed[node].op == Op::Einsum && placed[node].phase == Phase::F ? 1 : 0; });
    CHECK(forward == 2 * layers);
    CHECK(broken(mlp_text(layers, 3, 4), strategy) == "");
  }
}

TEST_CASE("ZeRO meets a pipeline: three Adam steps are those of one device", "[A05]") {
  for (const std::string schedule : {"gpipe", "1f1b"})
    for (const std::int64_t level : {1, 2, 3})
      CHECK(broken(mlp_text(4, 3, 8), "pp(2, " + schedule + ", mb=4) + zero(" + number(level) + ", dp=2)") == "");
}

TEST_CASE("the plan states whether gradients are reduced once a step or once a microbatch", "[A05]") {
  const auto reductions = [](const std::string& zero) {
    return count(compiled(mlp_text(4, 4, 8), "pp(2, 1f1b, mb=4) + " + zero, adam()).placed, Op::ReduceScatter);
  };
  CHECK(reductions("zero(1, dp=2)") == 4);   // one a parameter
  CHECK(reductions("zero(2, dp=2)") == 16);  // one a parameter and microbatch
}

namespace {

const char* const kTied = R"(
  input %ids "ids" : i64[4] cut 0 range 6
  input %labels "labels" : i64[4] cut 0 range 6
  param %table "table" : f64[6,4] normal(0.5)
  param %w "w" : f64[4,4] normal(0.5)
  param %v "v" : f64[4,4] normal(0.5)
  %x = embedding %table %ids LAYER=0
  %x = tanh (einsum "bi,ij->bj" %x %w) LAYER=1
  %x = tanh (einsum "bi,ij->bj" %x %v) LAYER=2
  %x = einsum "bh,vh->bv" %x %table LAYER=3
  loss "nll" = softmax_xent %x %labels ignore -1
)";

}  // namespace

TEST_CASE("a tied embedding on the first and the last stage stays one parameter", "[A06]") {
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    const std::string strategy = "pp(2, " + schedule + ", mb=2)";
    CHECK(broken(kTied, strategy, sgd(), 2) == "");
    const Compiled c = compiled(kTied, strategy, sgd());
    const Plan plan = lower(Graph(c.placed), {});
    const auto cpu = backend_named("cpu").make(plan, 7);
    for (const std::int64_t step : {1, 2}) CHECK(cpu->run(random_inputs(c.step, 3, step), step).replica_deviation == 0);
  }
}

TEST_CASE("with both uses on one device a tied parameter is stored once and nothing is sent for it", "[A06]") {
  const std::string v_shape = strategy_file(R"(
    {"op": "partition", "stages": 4},
    {"op": "split", "num_microbatches": 2},
    {"op": "place", "filter": {"PP": 0}, "devices": [0]}, {"op": "place", "filter": {"PP": 3}, "devices": [0]},
    {"op": "place", "filter": {"PP": "1..2"}, "devices": [1]})");
  CHECK(broken(kTied, v_shape, sgd(), 2) == "");
  const Graph placed = compiled(kTied, v_shape, sgd()).placed;
  CHECK(count(placed, Op::Param, "table") == 1);
  for (const Op op : {Op::AllReduce, Op::ReduceScatter, Op::AllGather, Op::View, Op::Join}) CHECK(count(placed, op) == 0);
  CHECK(count(placed, Op::Send, "table") == 0);
}

TEST_CASE("each microbatch has its own loss, whatever the order of the backwards", "[A07]") {
  for (const std::string order : {"012", "210"}) {
    std::string cells[2];
    for (const int stage : {0, 1}) {
      const auto cell = [&](char mb, const std::string& pass) {
        return "[{\"PP\": " + number(stage) + ", \"MB\": " + mb + ", \"PASS\": \"" + pass + "\"}]";
      };
      for (const char mb : std::string("012")) cells[stage] += cell(mb, "F") + ", ";
      for (const char mb : order) cells[stage] += cell(mb, "B") + (mb == order[2] ? "" : ", ");
    }
    const std::string strategy = strategy_file(R"(
      {"op": "partition", "stages": 2}, {"op": "split", "num_microbatches": 3},
      {"op": "place", "filter": {"PP": 0}, "devices": [0]}, {"op": "place", "filter": {"PP": 1}, "devices": [1]},
      {"op": "order", "filters": [)" + cells[0] +
                                               "]}, {\"op\": \"order\", \"filters\": [" + cells[1] + "]}");
    CHECK(broken(mlp_text(2, 3, 6), strategy) == "");
  }
}

TEST_CASE("a skip over a stage adds the gradients of both paths", "[A08]") {
  const std::string model = R"(
    input %x "x" : f64[8,3] cut 0
    input %y "y" : f64[8,3] cut 0
    param %a "a" : f64[3,3] normal(0.5)
    param %b "b" : f64[3,3] normal(0.5)
    param %c "c" : f64[3,3] normal(0.5)
    %s = einsum "bi,ij->bj" %x %a LAYER=0
    %t = einsum "bi,ij->bj" %s %b LAYER=1
    %u = einsum "bi,ij->bj" (add %t %s) %c LAYER=2
    loss "mse" = mse %u %y
  )";
  for (const std::string strategy : {"pp(3, gpipe, mb=4)", "pp(3, 1f1b, mb=4)", "pp(3, 1f1b, mb=4) + zero(2, dp=2)"})
    CHECK(broken(model, strategy) == "");
}

TEST_CASE("a skip between stages of one device is not sent over the other", "[A08]") {
  const std::string model = R"(
    input %x "x" : f64[8,3] cut 0
    input %y "y" : f64[8,3] cut 0
    param %a "a" : f64[3,3] normal(0.5)
    param %b "b" : f64[3,3] normal(0.5)
    param %c "c" : f64[3,3] normal(0.5)
    param %d "d" : f64[3,3] normal(0.5)
    %s = einsum "bi,ij->bj" %x %a LAYER=0
    %t = tanh (einsum "bi,ij->bj" %s %b) LAYER=1
    %t = tanh (einsum "bi,ij->bj" %t %c) LAYER=2
    %u = einsum "bi,ij->bj" (add %t %s) %d LAYER=3
    loss "mse" = mse %u %y
  )";
  CHECK(broken(model, strategy_file(R"(
    {"op": "partition", "stages": 4}, {"op": "split", "num_microbatches": 2},
    {"op": "place", "filter": {"PP": 0}, "devices": [0]}, {"op": "place", "filter": {"PP": 1}, "devices": [1]},
    {"op": "place", "filter": {"PP": 2}, "devices": [0]}, {"op": "place", "filter": {"PP": 3}, "devices": [1]})")) == "");
}

namespace {

const char* const kThreeFour = R"(
  input %x "x" : f64[2,2] cut 0
  param %w "w" : f64[2] constant(1.0)
  loss "loss" = sum (mul %x %w)
)";

}  // namespace

TEST_CASE("the gradient norm of (3, 4) is 5 in every layout, and clipping gives (0.6, 0.8)", "[A13]") {
  const TensorMap inputs{{"x", tensor(DType::F64, {2, 2}, {1, 1, 2, 3})}};
  for (const std::string strategy : {"ddp(1)", "ddp(2)", "zero(1, dp=2)", "zero(2, dp=2)", "zero(3, dp=2)", "zero(1, dp=3)"}) {
    INFO(strategy);
    const StepResult got = cpu_step(kThreeFour, strategy, sgd(1.0), inputs);
    CHECK(got.outputs.at("metric/grad_norm").get(0) == Approx(5).epsilon(1e-12));
    CHECK(got.outputs.at("gradient/w").get(0) == Approx(0.6).epsilon(1e-6));
    CHECK(got.outputs.at("gradient/w").get(1) == Approx(0.8).epsilon(1e-6));
    CHECK(got.replica_deviation == 0);
  }
}

TEST_CASE("the norm counts shards once and replicas once on a mesh of both", "[A13]") {
  const TensorMap inputs{{"x", tensor(DType::F64, {2, 2}, {1, 1, 2, 3})}};
  const std::string strategy = strategy_file(R"(
    {"op": "place", "devices": [0, 1, 2, 3], "axes": {"copies": 2, "dp": 2}},
    {"op": "replicate", "axis": "dp", "shard_optimizer": true, "shard_grads": true})");
  const StepResult got = cpu_step(kThreeFour, strategy, sgd(1.0), inputs);
  CHECK(got.outputs.at("metric/grad_norm").get(0) == Approx(5).epsilon(1e-12));
  CHECK(got.outputs.at("gradient/w").get(0) == Approx(0.6).epsilon(1e-6));
  CHECK(got.replica_deviation == 0);
}

TEST_CASE("a side input is cut with the microbatch if it has a batch dimension, else it is the same for all", "[A15]") {
  const auto model = [](const std::string& mask) {
    return R"(
      input %x "x" : f64[4,2] cut 0
      input %m "m" : f64)" +
           mask + R"(
      param %w "w" : f64[2,2] normal(0.5)
      loss "loss" = sum (mul %m (mul (einsum "bi,ij->bj" %x %w) (einsum "bi,ij->bj" %x %w)))
    )";
  };
  const std::string microbatches = strategy_file(R"({"op": "split", "num_microbatches": 4}, {"op": "place", "devices": [0]})");
  for (const std::string& strategy : {microbatches, std::string("ddp(2)"), std::string("ddp(4)")})
    for (const std::string mask : {"[4,2] cut 0", "[1,2]", "[]"}) CHECK(broken(model(mask), strategy) == "");
  // rows (1,0),(0,1),(1,1),(0,0) and w = 1: d/dw of the sum of (x w)² where the mask is 1
  const std::string rows = R"(
    input %x "x" : f64[4,2] cut 0
    input %m "m" : f64[4,2] cut 0
    param %w "w" : f64[2] constant(1.0)
    loss "loss" = sum (mul %m (mul %x %w))
  )";
  const TensorMap inputs{{"x", tensor(DType::F64, {4, 2}, {1, 10, 2, 20, 4, 40, 8, 80})},
                         {"m", tensor(DType::F64, {4, 2}, {1, 0, 0, 1, 1, 1, 0, 0})}};
  const StepResult got = cpu_step(rows, microbatches, gradients_only(), inputs);
  CHECK(got.outputs.at("gradient/w").get(0) == 5);
  CHECK(got.outputs.at("gradient/w").get(1) == 60);
}

TEST_CASE("small gradients are not lost by adding in bf16", "[A16]") {
  const auto gradient = [](std::int64_t batch, const std::string& strategy, const std::vector<double>& each) {
    const std::string model = "input %x \"x\" : bf16[" + number(batch) + R"(] cut 0
      param %w "w" : f32[] constant(1.0)
      %c = cast %w {dtype=bf16}
      loss "loss" = sum (mul %x %c)
    )";
    return cpu_step(model, strategy, gradients_only(), {{"x", tensor(DType::BF16, {batch}, each)}}).outputs.at("gradient/w").get(0);
  };
  const auto in_microbatches = [](std::int64_t mb, const std::string& axes, const std::string& devices) {
    return strategy_file("{\"op\": \"split\", \"num_microbatches\": " + number(mb) + "}, {\"op\": \"place\", \"devices\": [" + devices +
                         "], \"axes\": {" + axes + "}}, {\"op\": \"replicate\", \"axis\": \"dp\"}");
  };
  CHECK(gradient(2, in_microbatches(2, "\"dp\": 1", "0"), {256, 1}) == 257);
  CHECK(gradient(512, in_microbatches(512, "\"dp\": 1", "0"), std::vector<double>(512, 1)) == 512);
  CHECK(gradient(512, in_microbatches(256, "\"dp\": 2", "0, 1"), std::vector<double>(512, 1)) == 512);
  CHECK(gradient(2, "ddp(2)", {256, 1}) == 257);
}

TEST_CASE("the type in which gradients are added is a property of the sum", "[A16]") {
  const std::string model = R"(
    input %x "x" : bf16[512] cut 0
    param %w "w" : bf16[] constant(1.0)
    loss "loss" = sum (mul %x %w)
  )";
  const std::string strategy = strategy_file(R"({"op": "split", "num_microbatches": 512}, {"op": "place", "devices": [0]})");
  const TensorMap inputs{{"x", tensor(DType::BF16, {512}, std::vector<double>(512, 1))}};
  Graph placed = compiled(model, strategy, gradients_only()).placed;
  const auto gradient = [&](const Graph& graph) { return Interpreter(graph, 7).run(inputs, 1).outputs.at("gradient/w").get(0); };
  CHECK(gradient(placed) == 512);
  placed.for_each_node([&](NodeId node) {
    if (placed[node].op == Op::Sum && placed[node].phase == Phase::U) placed[node].attrs = placed.intern(Attrs(SumAttrs{DType::BF16}));
  });
  CHECK(gradient(placed) == 256);
}

TEST_CASE("valid tokens are counted over the whole batch", "[A17]") {
  // x = (-a, a) and label 0 give the gradient a at w = 0; the first sequence has one valid token, the second three
  const std::string model = R"(
    input %x "x" : f64[2,3,2] cut 0
    input %labels "labels" : i64[2,3] cut 0 range 2
    param %w "w" : f64[] zeros
    %h = mul %x %w LAYER=0
    %h = scale %h {factor=1.0} LAYER=1
    loss "nll" = softmax_xent %h %labels ignore -1 LAYER=1
  )";
  const TensorMap inputs{{"x", tensor(DType::F64, {2, 3, 2}, {-4, 4, -9, 9, -9, 9, -1, 1, -1, 1, -1, 1})},
                         {"labels", tensor(DType::I64, {2, 3}, {0, -1, -1, 0, 0, 0})}};
  const std::string one_rank = strategy_file(R"({"op": "split", "num_microbatches": 2}, {"op": "place", "devices": [0]})");
  for (const std::string& strategy : {one_rank, std::string("ddp(2)"), std::string("pp(2, mb=2)"), std::string("pp(2, gpipe, mb=2)")}) {
    INFO(strategy);
    CHECK(cpu_step(model, strategy, gradients_only(), inputs).outputs.at("gradient/w").get(0) == Approx(1.75).epsilon(1e-12));
  }
}

TEST_CASE("a limit that is broken is named with its value, the limit and a legal choice", "[A20]") {
  const auto refusal = [](const std::string& strategy) {
    try {
      static_cast<void>(compiled(mlp_text(3, 2, 6), strategy, adam()));
    } catch (const Error& error) {
      return error.complaint() + " | " + error.help();
    }
    return std::string("(accepted)");
  };
  CHECK(refusal("pp(6, mb=3)") == "pp: 6 stages of 3 layers leave stage 3 without layers | at most 3 ranks");
  CHECK(refusal("pp(3, mb=7)") == "pp: 7 microbatches cannot be made of 6 samples | at most mb=6, or a larger batch");
  CHECK(refusal("zero(4, dp=2)") == "zero: level is 4, expected 1 (optimizer states), 2 (and gradients) or 3 (and parameters) | ");
}

TEST_CASE("a batch of another shape is refused before anything runs, and the next step is right", "[A22]") {
  const std::string model = mlp_text(2, 3, 8);
  const Compiled c = compiled(model, "pp(2, mb=2)", sgd());
  const Plan plan = lower(Graph(c.placed), {});
  const auto cpu = backend_named("cpu").make(plan, 7);
  Interpreter reference(c.step, 7);
  const auto same = [&](std::int64_t step) {
    const TensorMap inputs = random_inputs(c.step, 3, step);
    return cpu->run(inputs, step).outputs.at("loss/loss").get(0) ==
           Approx(reference.run(inputs, step).outputs.at("loss/loss").get(0)).epsilon(1e-12);
  };
  CHECK(same(1));
  for (const std::int64_t rows : {10, 6, 16}) {
    TensorMap other = random_inputs(parse(mlp_text(2, 3, rows)), 3, 2);
    CHECK_THROWS_AS(cpu->run(other, 2), Error);
  }
  CHECK(same(2));
}

TEST_CASE("frozen layers stay frozen bit for bit and nothing works for them", "[A24]") {
  const std::string model = mlp_text(4, 4, 8, "mse %x %y", {1, 3});
  for (const std::string strategy :
       {"zero(1, dp=2)", "zero(2, dp=2)", "zero(3, dp=2)", "pp(2, mb=2)", "pp(2, gpipe, mb=2) + zero(3, dp=2)"}) {
    INFO(strategy);
    CHECK(broken(model, strategy) == "");
    const Compiled c = compiled(model, strategy, adam());
    const Graph& g = c.placed;
    g.for_each_node([&](NodeId node) {
      const std::string& name = g[g[node].name];
      const bool of_frozen = name.starts_with("l1.w") || name.starts_with("l3.w");
      if (of_frozen) CHECK((g[node].op == Op::Param || g[node].op == Op::AllGather || g[node].op == Op::Output));
      if (of_frozen && g[node].op == Op::Output) CHECK(g.attrs<OutputAttrs>(node).kind == "param");
      if (g[node].phase == Phase::BW && g[node].op == Op::Einsum) CHECK((tag_of(g, node, "LAYER") % 2 == 0));
    });
    CHECK(count(g, Op::AdamW) == 2);
    const Plan plan = lower(Graph(g), {});
    const auto cpu = backend_named("cpu").make(plan, 7);
    const TensorMap before = cpu->values();
    for (const std::int64_t step : {1, 2}) cpu->run(random_inputs(c.step, 3, step), step);
    const TensorMap after = cpu->values();
    for (const char* frozen : {"param/l1.w", "param/l3.w"})
      for (std::int64_t i = 0; i < 16; ++i) CHECK(after.at(frozen).get(i) == before.at(frozen).get(i));
    CHECK(after.at("param/l0.w").get(0) != before.at("param/l0.w").get(0));
  }
}

TEST_CASE("sizes that do not divide by the shards are stored and gathered in order", "[A27]") {
  const std::string model = R"(
    input %ids "ids" : i64[3] cut 0 range 7
    input %labels "labels" : i64[3] cut 0 range 7
    param %table "table" : f64[7,9] normal(0.5)
    param %a "a" : f64[9,3] normal(0.5)
    param %b "b" : f64[3,5] normal(0.5)
    param %c "c" : f64[1,5] normal(0.5)
    param %d "d" : f64[5,7] normal(0.5)
    %x = embedding %table %ids
    %x = tanh (einsum "bi,ij->bj" %x %a)
    %x = tanh (add (einsum "bi,ij->bj" %x %b) %c)
    loss "nll" = softmax_xent (einsum "bi,ij->bj" %x %d) %labels ignore -1
  )";
  for (const std::string strategy : {"zero(3, dp=2)", "zero(3, dp=3)", "zero(2, dp=2)", "zero(1, dp=3)", "zero(3, dp=5)"}) {
    INFO(strategy);
    OptimizerParams clipped = adam();
    clipped.clip = 0.1;
    CHECK(broken(model, strategy, clipped) == "");
    const Graph placed = compiled(model, strategy, adam()).placed;
    const Plan plan = lower(Graph(placed), {});
    const TensorMap stored = backend_named("cpu").make(plan, 7)->values();
    placed.for_each_node([&](NodeId node) {
      if (placed[node].op != Op::Param) return;
      const Tensor whole = initial_value(placed, node, 7);
      const Tensor& gathered = stored.at("param/" + placed[placed[node].name]);
      REQUIRE(gathered.elems() == whole.elems());
      for (std::int64_t i = 0; i < whole.elems(); ++i) CHECK(gathered.get(i) == whole.get(i));
    });
  }
}

TEST_CASE("layers keep name and initial value in stages of stated sizes", "[A28]") {
  const std::string model = mlp_text(7, 2, 4);
  const auto sized = [](const std::string& sizes) {
    return strategy_file(R"({"op": "partition", "sizes": )" + sizes + R"(}, {"op": "split", "num_microbatches": 2},
      {"op": "place", "filter": {"PP": 0}, "devices": [0]}, {"op": "place", "filter": {"PP": 1}, "devices": [1]},
      {"op": "place", "filter": {"PP": 2}, "devices": [0]}, {"op": "place", "filter": {"PP": 3}, "devices": [1]})");
  };
  for (const auto& [sizes, stages] :
       std::vector<std::pair<std::string, std::vector<int>>>{{"[2,2,2,1]", {0, 0, 1, 1, 2, 2, 3}}, {"[1,2,2,2]", {0, 1, 1, 2, 2, 3, 3}}}) {
    CHECK(broken(model, sized(sizes)) == "");
    const Compiled c = compiled(model, sized(sizes), adam());
    const Plan plan = lower(Graph(c.placed), {});
    const TensorMap stored = backend_named("cpu").make(plan, 7)->values();
    c.step.for_each_node([&](NodeId node) {
      if (c.step[node].op != Op::Param) return;
      const Tensor expected = initial_value(c.step, node, 7);
      for (std::int64_t i = 0; i < 4; ++i) CHECK(stored.at("param/" + c.step[c.step[node].name]).get(i) == expected.get(i));
    });
    c.placed.for_each_node([&](NodeId node) {
      if (c.placed[node].op != Op::Einsum) return;
      const std::size_t layer = static_cast<std::size_t>(tag_of(c.placed, node, "LAYER"));
      CHECK(tag_of(c.placed, node, "PP") == stages[layer]);
    });
  }
  CHECK(broken(model, sized("[2,2,2,2]")).starts_with("partition: the sizes add up to 8 layers, the model has 7"));
  CHECK(broken(model, strategy_file(R"({"op": "partition", "stages": 1, "sizes": [1]}, {"op": "place", "devices": [0]})"))
            .starts_with("partition: the sizes add up to 1 layers, the model has 7"));
  CHECK(broken(model, strategy_file(R"({"op": "partition", "stages": 2, "sizes": [4, 2, 1]}, {"op": "place", "devices": [0]})"))
            .starts_with("stages is 2, but sizes lists 3"));
}

TEST_CASE("gradients alone can be asked for, of mean and of summed losses", "[A30]") {
  for (const std::string loss : {"mse %x %y", "sum (mul %x %y)"})
    for (const std::string strategy : {"pp(2, gpipe, mb=4)", "pp(2, 1f1b, mb=4)", "pp(2, mb=4) + ddp(2)"})
      CHECK(broken(mlp_text(2, 3, 8, loss), strategy, gradients_only()) == "");
  const Graph placed = compiled(mlp_text(2, 3, 8), "pp(2, mb=4)", gradients_only()).placed;
  CHECK(count(placed, Op::AdamW) + count(placed, Op::Sgd) + count(placed, Op::State) == 0);
  for (const std::string strategy : {"pp(2, gpipe, mb=4)", "pp(2, 1f1b, mb=4) + zero(2, dp=2)"})
    CHECK(broken(mlp_text(2, 3, 8, "mse %x %y", {0}), strategy) == "");  // the only update is on stage 1
}

TEST_CASE("an integer mask, a table without gradient and an unused activation cross a boundary", "[A31]") {
  const std::string model = R"(
    input %x "x" : f64[4,3] cut 0
    input %y "y" : f64[4,3] cut 0
    input %m "m" : f64[4,3] cut 0
    input %t "t" : f64[3,3]
    param %a "a" : f64[3,3] normal(0.5)
    param %b "b" : f64[3,3] normal(0.5)
    param %c "c" : f64[3,3] normal(0.5)
    %h = tanh (einsum "bi,ij->bj" %x %a) LAYER=0
    %mask = cast %m {dtype=i64} LAYER=0
    %table = scale %t {factor=0.5} LAYER=0
    %unused = tanh %h LAYER=0
    %h = tanh (add (einsum "bi,ij->bj" %h %b) (einsum "bi,ij->bj" %h %table)) LAYER=1
    %h = einsum "bi,ij->bj" (mul %h (cast %mask {dtype=f64})) %c LAYER=2
    %gone = scale %unused {factor=2.0} LAYER=1
    loss "mse" = mse %h %y LAYER=2
  )";
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    CHECK(broken(model, "pp(3, " + schedule + ", mb=2)") == "");
    CHECK(broken(model, "pp(3, " + schedule + ", mb=2) + zero(2, dp=2)") == "");
  }
}
