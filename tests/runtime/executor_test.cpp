#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ir/text.h"
#include "passes/lower.h"
#include "runtime/backends.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/null/null_backend.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/check_error.h"
#include "tests/support/placed_graphs.h"

using namespace skirl;

namespace {

bool same_bits(const TensorMap& a, const TensorMap& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.type() != tensor.type() ||
        std::memcmp(other->second.data(), tensor.data(), tensor.size_bytes()) != 0)
      return false;
  }
  return true;
}

/// Largest deviation of any output over three steps, relative to the largest magnitude of the output.
double deviation(const Graph& graph, const CpuOptions& options = {}) {
  const Plan plan = lower(graph, {});
  const auto cpu = make_cpu_runner(plan, 5, options);
  Interpreter reference(graph, 5);
  double worst = 0;
  for (std::int64_t step = 1; step <= 3; ++step) {
    const TensorMap inputs = random_inputs(graph, 9, step);
    const StepResult got = cpu->run(inputs, step);
    const StepResult expected = reference.run(inputs, step);
    REQUIRE(got.outputs.size() == expected.outputs.size());
    worst = std::max(worst, got.replica_deviation);
    for (const auto& [name, tensor] : expected.outputs) {
      const Tensor& other = got.outputs.at(name);
      REQUIRE(other.type() == tensor.type());
      double largest = 0;
      double difference = 0;
      for (std::int64_t i = 0; i < tensor.elems(); ++i) {
        largest = std::max(largest, std::abs(tensor.get(i)));
        difference = std::max(difference, std::abs(tensor.get(i) - other.get(i)));
        REQUIRE(std::isfinite(other.get(i)));
      }
      worst = std::max(worst, difference / std::max(largest, 1e-300));
    }
  }
  return worst;
}

/// All outputs of three steps, one after another.
std::vector<TensorMap> three_steps(const Plan& plan, const CpuOptions& options) {
  std::vector<TensorMap> outputs;
  const auto runner = make_cpu_runner(plan, 5, options);
  for (std::int64_t step = 1; step <= 3; ++step) outputs.push_back(runner->run(random_inputs(plan.graph, 9, step), step).outputs);
  outputs.push_back(runner->values());
  return outputs;
}

std::string run_error(const Plan& plan, const CpuOptions& options = {}) {
  try {
    make_cpu_runner(plan, 5, options)->run(random_inputs(plan.graph, 9, 1), 1);
  } catch (const RunError& error) {
    return error.what();
  }
  return "(no error)";
}

void failing_kernel(const KernelCall&) { throw std::runtime_error("index 7 is outside [0, 5)"); }
Kernel no_tanh(Op op) { return op == Op::Tanh ? nullptr : cpu_kernel(op); }
Kernel tanh_fails(Op op) { return op == Op::Tanh ? failing_kernel : cpu_kernel(op); }

const Graph kTwoReductions = parse(R"(mesh @s0 {dp:2} devices 0 1
%0 = input "x" {cut=0} : f64[4] @s0 [dp] F
%1 = sum_to {shape=[]} %0 : f64[] @s0 partial(dp) "a" F
%2 = sum_sq %0 : f64[] @s0 partial(dp) "b" F
%3 = all_reduce %1 : f64[] @s0 "a" F
%4 = all_reduce %2 : f64[] @s0 "b" F
output "a" {kind=metric} %3 F mesh=@s0
output "b" {kind=metric} %4 F mesh=@s0
)");

}  // namespace

TEST_CASE("cpu agrees with the interpreter on cut, sharded, staged and united graphs") {
  CHECK(deviation(dp_step()) <= 1e-12);
  CHECK(deviation(sharded_step()) <= 1e-12);
  CHECK(deviation(pipeline_step()) <= 1e-12);
  CHECK(deviation(union_step()) <= 1e-12);
}

TEST_CASE("cpu agrees with the interpreter on random graphs") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    CHECK(deviation(random_step(seed, 1 + static_cast<int>(seed % 4), 40)) <= 1e-12);
  }
}

TEST_CASE("random delays, the number of workers and poisoned buffers change no bit") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    const Plan plan = lower(seed <= 2 ? sharded_step() : random_step(seed, 3, 40), {});
    const std::vector<TensorMap> expected = three_steps(plan, {.workers = 1});
    const auto check = [&](const CpuOptions& options) {
      const std::vector<TensorMap> got = three_steps(plan, options);
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(got[i], expected[i]));
    };
    check({.workers = 4});
    check({.workers = 4, .executor = {.delay_us = 200, .delay_seed = seed}});
    check({.workers = 4, .executor = {.delay_us = 50, .delay_seed = seed, .poison = true}});
  }
}

TEST_CASE("poison shows a buffer that is given away too early") {
  Plan plan = lower(dp_step(), {});
  const std::vector<TensorMap> expected = three_steps(plan, {.workers = 1});
  // The gradient's reduction reads a buffer that nobody has written: another one that is dead by then.
  DeviceProgram& program = plan.devices[0];
  std::uint32_t sum = 0;
  for (const Instruction& i : program.instructions)
    if (plan.graph[i.node].op == Op::Einsum && plan.graph[i.node].phase == Phase::BW) sum = program.refs[i.first_ref + 2];
  for (const Instruction& i : program.instructions)
    if (plan.graph[i.node].op == Op::AllReduce && program.refs[i.first_ref] == sum) {
      program.buffers.push_back({program.arena_bytes, program.buffers[sum].size_bytes});
      program.arena_bytes += 64;
      program.refs[i.first_ref] = static_cast<std::uint32_t>(program.buffers.size() - 1);
    }
  const std::vector<TensorMap> got = three_steps(plan, {.workers = 1, .executor = {.poison = true}});
  CHECK(std::isnan(got[0].at("gradient/w").get(0)));
  CHECK(std::isfinite(expected[0].at("gradient/w").get(0)));
}

TEST_CASE("the same batch at learning rate 0 gives the same gradients four times") {
  const std::string text = print(sharded_step());
  const auto at = text.find("lr=0.001");
  REQUIRE(at != std::string::npos);
  const Plan plan = lower(parse(std::string(text).replace(at, 8, "lr=0")), {});
  const auto runner = make_cpu_runner(plan, 5);
  const TensorMap inputs = random_inputs(plan.graph, 9, 1);
  const Tensor first = runner->run(inputs, 1).outputs.at("gradient/a");
  for (std::int64_t step = 2; step <= 4; ++step) {
    const Tensor again = runner->run(inputs, step).outputs.at("gradient/a");
    CHECK(std::memcmp(again.data(), first.data(), first.size_bytes()) == 0);
  }
}

TEST_CASE("two devices that reduce in opposite order are a deadlock, and it is said who waits for whom") {
  Plan plan = lower(kTwoReductions, {});
  std::vector<Instruction>& program = plan.devices[1].instructions;
  std::size_t first = 0;
  while (plan.graph[program[first].node].op != Op::AllReduce) ++first;
  std::size_t second = first + 1;
  while (plan.graph[program[second].node].op != Op::AllReduce) ++second;
  std::swap(program[first].node, program[second].node);
  // Both reductions have the same shapes, so the buffers may be exchanged too.
  std::swap(plan.devices[1].refs[program[first].first_ref], plan.devices[1].refs[program[second].first_ref]);
  CHECK(run_error(plan) ==
        "deadlock: nothing can go on, and 8 instructions are left\n"
        "  device 0: %3 = all_reduce \"a\" (F) on stream compute waits for device 1 to arrive\n"
        "  device 1: %4 = all_reduce \"b\" (F) on stream compute waits for device 0 to arrive");
}

TEST_CASE("a standstill within one device names the instruction that is waited for") {
  Plan plan = lower(parse(R"(streams compute other
mesh @s0 {dp:1} devices 0
%0 = input "x" : f64[2] @s0 F
%1 = tanh %0 : f64[2] @s0 "a" F
%2 = tanh %0 : f64[2] @s0 "b" F stream=other
output "a" {kind=metric} %1 F mesh=@s0
output "b" {kind=metric} %2 F mesh=@s0
)"),
                    {});
  DeviceProgram& program = plan.devices[0];
  REQUIRE(plan.graph[program.instructions[0].node].op == Op::Tanh);
  std::uint32_t other = 1;
  while (plan.graph[program.instructions[other].node].op != Op::Tanh) ++other;
  const auto wait = [&](std::uint32_t from, std::uint32_t to) {
    program.instructions[from].first_wait = static_cast<std::uint32_t>(program.waits.size());
    program.instructions[from].wait_count = 1;
    program.waits.push_back(to);
  };
  wait(0, other);
  wait(other, 0);
  const std::string error = run_error(plan);
  CHECK(error.find("device 0: %1 = tanh \"a\" (F) on stream compute waits for %2 = tanh \"b\" (F)") != std::string::npos);
  CHECK(error.find("device 0: %2 = tanh \"b\" (F) on stream other waits for %1 = tanh \"a\" (F)") != std::string::npos);
}

TEST_CASE("a kernel that fails ends the step with device, instruction and cause, and the runner stays ended") {
  const Plan plan = lower(dp_step(), {});
  const auto runner = make_cpu_runner(plan, 5, {.workers = 2, .kernels = tanh_fails});
  const TensorMap inputs = random_inputs(plan.graph, 9, 1);
  CHECK_THROWS_WITH(runner->run(inputs, 1),
                    Catch::Contains("= tanh \"act\" (F) failed: index 7 is outside [0, 5)") && Catch::StartsWith("device "));
  CHECK_THROWS_WITH(runner->run(inputs, 2), Catch::StartsWith("a step has failed before: device "));
}

TEST_CASE("an operator without a kernel is refused before anything runs") {
  const Plan plan = lower(dp_step(), {});
  CHECK_ERROR(make_cpu_runner(plan, 5, {.kernels = no_tanh}), "backend cpu has no kernel for '%4 = tanh \"act\" (F)'");
}

TEST_CASE("inputs that are missing or of another shape are refused before anything runs") {
  const Plan plan = lower(dp_step(), {});
  const auto runner = make_cpu_runner(plan, 5, {.kernels = tanh_fails});
  CHECK_ERROR(runner->run({}, 1), "no input 'x' is given, expected f64[5,3]");
  CHECK_ERROR(runner->run({{"x", Tensor(DType::F64, {6, 3})}}, 1), "input 'x' is f64[6,3], expected f64[5,3]");
  CHECK_ERROR(runner->run({{"x", Tensor(DType::F32, {5, 3})}}, 1), "input 'x' is f32[5,3], expected f64[5,3]");
}

TEST_CASE("an instruction that one device lacks is refused") {
  Plan plan = lower(dp_step(), {});
  std::vector<Instruction>& program = plan.devices[1].instructions;
  for (std::size_t i = 0; i < program.size(); ++i)
    if (plan.graph[program[i].node].op == Op::AllReduce && plan.graph[program[i].node].phase == Phase::F) program[i].node = program[0].node;
  CHECK_THROWS_AS(record(plan), std::exception);
}

TEST_CASE("backends are known by name") {
  CHECK(backend_named("cpu").name == "cpu");
  CHECK(backend_table().size() >= 3);
  CHECK_ERROR(backend_named("gpu"), "no backend 'gpu'; known: cpu, null, reference");
  const Plan plan = lower(dp_step(), {});
  const TensorMap inputs = random_inputs(plan.graph, 9, 1);
  const StepResult cpu = backend_named("cpu").make(plan, 3)->run(inputs, 1);
  const StepResult reference = backend_named("reference").make(plan, 3)->run(inputs, 1);
  CHECK(std::abs(cpu.outputs.at("loss/mse").get(0) - reference.outputs.at("loss/mse").get(0)) <= 1e-12);
  CHECK(backend_named("null").make(plan, 3)->run(inputs, 1).outputs.empty());
}
