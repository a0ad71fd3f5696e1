#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "models/builtin.h"
#include "passes/differentiate.h"
#include "passes/lower.h"
#include "passes/manager.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/null/null_backend.h"
#include "runtime/reference/interpreter.h"
#include "strategies/compose.h"
#include "tests/support/plan_checks.h"
#include "tools/testing.h"

using namespace skirl;

namespace {

Graph step_of(Graph model) {
  OptimizerParams optimizer;
  optimizer.clip = 0.5;
  return differentiate(std::move(model), optimizer);
}

Graph applied(const Graph& step, const std::string& strategy) {
  const Registry registry;
  return run_passes(step, strategy_directives(strategy, signature_of(step), registry), registry.passes());
}

Graph small_mlp() { return step_of(mlp({.layers = 4, .width = 5, .batch = 7}, DType::F64)); }

Graph small_gpt() {
  return step_of(gpt(
      {.layers = 2, .width = 8, .heads = 2, .kv_heads = 1, .head_dim = 4, .vocab = 11, .seq = 6, .batch = 4, .dropout = 0.1, .tied = true},
      DType::F64));
}

const char* const kStrategies[] = {
    "ddp(2)",
    "ddp(3)",
    "zero(1, dp=2)",
    "zero(2, dp=3)",
    "zero(3, dp=2)",
    "pp(2, gpipe, mb=3)",
    "pp(2, 1f1b, mb=4)",
    "pp(2, 1f1b, mb=4) + zero(1, dp=2)",
    "pp(2, gpipe, mb=2) + zero(3, dp=2)",
};

}  // namespace

TEST_CASE("plans of composed strategies run on cpu as the untouched graph is interpreted") {
  for (const Graph& step : {small_mlp(), small_gpt()})
    for (const char* strategy : kStrategies) {
      CAPTURE(strategy, step.node_count());
      const Plan plan = lower(applied(step, strategy), {});
      CHECK(memory_fault(plan) == "");
      Interpreter reference(step, 5);
      const auto cpu = make_cpu_runner(plan, 5, {.executor = {.poison = true}});
      const Deviation deviation = compare_steps(
          reference, *cpu, [&](std::int64_t number) { return random_inputs(step, 3, number); }, 3);
      INFO(deviation.worst);
      CHECK(deviation.max() <= 1e-10);
      CHECK(deviation.replicas == 0);
    }
}

TEST_CASE("a composed strategy gives the same bits under random delays, and from a plan that was saved and read") {
  const Graph step = small_gpt();
  const Plan plan = lower(applied(step, "pp(2, 1f1b, mb=4) + zero(1, dp=2)"), {});
  const Plan saved = parse_plan(print(plan), "saved");
  const auto first = make_cpu_runner(plan, 5, {.workers = 1});
  const auto delayed = make_cpu_runner(plan, 5, {.workers = 4, .executor = {.delay_us = 100, .delay_seed = 4}});
  const auto read = make_cpu_runner(saved, 5, {.workers = 2});
  for (std::int64_t number = 1; number <= 2; ++number) {
    const TensorMap inputs = random_inputs(step, 3, number);
    const TensorMap expected = first->run(inputs, number).outputs;
    for (const auto& runner : {delayed.get(), read.get()}) {
      const TensorMap got = runner->run(inputs, number).outputs;
      for (const auto& [name, tensor] : expected) {
        CAPTURE(name);
        CHECK(std::memcmp(got.at(name).data(), tensor.data(), tensor.size_bytes()) == 0);
      }
    }
  }
}
