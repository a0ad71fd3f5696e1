#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ir/text.h"
#include "passes/lower.h"
#include "tests/support/check_error.h"
#include "tests/support/placed_graphs.h"
#include "tests/support/plan_checks.h"

using namespace skirl;

namespace {

/// "all_gather a, einsum l0, …": what the graph's nodes are, in order, without its sources.
std::string order_of(const Graph& graph) {
  std::string text;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == Op::Input || graph[node].op == Op::Param || graph[node].op == Op::State) return;
    text += (text.empty() ? "" : ", ") + std::string(info(graph[node].op).name) +
            (graph[node].name.valid() ? " " + graph[graph[node].name] : "");
  });
  return text;
}

const Instruction* find(const Plan& plan, const DeviceProgram& program, Op op, std::string_view name) {
  for (const Instruction& i : program.instructions)
    if (plan.graph[i.node].op == op && plan.graph[plan.graph[i.node].name] == name) return &i;
  return nullptr;
}

}  // namespace

TEST_CASE("lower puts gathers directly before their first reader, and updated values leave at once") {
  const Plan plan = lower(sharded_step(), {});
  CHECK(order_of(plan.graph) ==
        "all_gather a, einsum l0, all_gather b, einsum l1, output b, sum_to sum, all_reduce sum, output sum, einsum l1, einsum l0, "
        "reduce_scatter l0, "
        "output a, adamw a, output a, output a.m, output a.v");
}

TEST_CASE("lower puts recomputed work directly before its first reader") {
  const Plan plan = lower(parse(R"(mesh @s0 {dp:1} devices 0
%0 = input "x" : f64[2,2] @s0 F
%1 = tanh %0 : f64[2,2] @s0 "a" F
%2 = tanh %0 : f64[2,2] @s0 "again" BI RE
%3 = scale {factor=2} %2 : f64[2,2] @s0 "again2" BI RE
%4 = scale {factor=2} %1 : f64[2,2] @s0 "b" F
%5 = add %4 %3 : f64[2,2] @s0 "c" BI
output "c" {kind=metric} %5 F mesh=@s0
)"),
                          {});
  CHECK(order_of(plan.graph) == "tanh a, scale b, tanh again, scale again2, add c, output c");
}

TEST_CASE("a program has an instruction for what its device does, in the order of the graph") {
  const Plan plan = lower(pipeline_step(), {});
  REQUIRE(plan.devices.size() == 2);
  for (const DeviceProgram& program : plan.devices) {
    CHECK(std::is_sorted(program.instructions.begin(), program.instructions.end(),
                         [](const Instruction& a, const Instruction& b) { return a.node < b.node; }));
    for (const Instruction& i : program.instructions) CHECK(plan.graph[plan.graph[i.node].mesh].position(program.device) == 0);
  }
  CHECK(plan.devices[0].instructions.size() == 12);
  CHECK(plan.devices[1].instructions.size() == 14);
}

TEST_CASE("an instruction waits for operands of other streams, once") {
  const Plan plan = lower(dp_step(), {});
  const DeviceProgram& program = plan.devices[0];
  const auto waits = [&](Op op, std::string_view name) {
    const Instruction* i = find(plan, program, op, name);
    REQUIRE(i);
    std::string text;
    for (std::uint32_t w = 0; w < i->wait_count; ++w) {
      const Instruction& other = program.instructions[program.waits[i->first_wait + w]];
      CHECK(other.stream != i->stream);
      text +=
          (text.empty() ? "" : ", ") + std::string(info(plan.graph[other.node].op).name) + " " + plan.graph[plan.graph[other.node].name];
    }
    return text;
  };
  CHECK(waits(Op::AllReduce, "l0") == "einsum l0");
  CHECK(waits(Op::Sgd, "w") == "");  // the gradient's output has waited for the reduction
  CHECK(waits(Op::Einsum, "l0") == "");
}

TEST_CASE("control edges of other streams become waits, through fences") {
  const Plan plan = lower(parse(R"(streams compute other
mesh @s0 {dp:1} devices 3
%0 = input "x" : f64[2] @s0 F
%1 = tanh %0 : f64[2] @s0 "a" F
^0 = fence F after=[%1]
^1 = fence F after=[^0]
%2 = tanh %0 : f64[2] @s0 "b" F stream=other after=[^1]
output "a" {kind=metric} %1 F mesh=@s0
output "b" {kind=metric} %2 F mesh=@s0
)"),
                          {});
  const Instruction* b = find(plan, plan.devices.at(0), Op::Tanh, "b");
  REQUIRE(b);
  REQUIRE(b->wait_count == 1);
  CHECK(plan.devices[0].waits[b->first_wait] == 0);
}

TEST_CASE("parameters and states leave by the buffer that they entered by") {
  const Plan plan = lower(dp_step(), {});
  for (const DeviceProgram& program : plan.devices) {
    std::size_t left = 0;
    for (const Instruction& i : program.instructions) {
      if (plan.graph[i.node].op != Op::Output) continue;
      const std::string& kind = plan.graph.attrs<OutputAttrs>(i.node).kind;
      for (const auto& [node, buffer] : program.entries)
        if (plan.graph[node].op != Op::Input && (kind == "param" || kind == "state") && plan.graph[node].name == plan.graph[i.node].name)
          left += program.refs[i.first_ref + 1] == buffer ? 1 : 0;
    }
    CHECK(left == 2);
  }
}

TEST_CASE("live buffers never share bytes") {
  for (const Graph& graph : {dp_step(), sharded_step(), pipeline_step(), union_step()}) CHECK(memory_fault(lower(graph, {})) == "");
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    CHECK(memory_fault(lower(random_step(seed, 1 + static_cast<int>(seed % 4), 60), {})) == "");
  }
}

TEST_CASE("the check of buffers sees a missing wait and a shared buffer") {
  Plan plan = lower(random_step(3, 2, 60), {});
  Plan hasty = plan;
  for (Instruction& i : hasty.devices[0].instructions) i.wait_count = 0;
  CHECK(memory_fault(hasty) != "");
  for (PlanBuffer& buffer : plan.devices[1].buffers) buffer.offset_bytes = 0;
  CHECK(memory_fault(plan) != "");
}

TEST_CASE("bytes are used again: the arena is smaller than its buffers together") {
  const Plan plan = lower(random_step(5, 2, 200, 100000), {});
  std::int64_t total = 0;
  for (const PlanBuffer& buffer : plan.devices[0].buffers) total += buffer.size_bytes;
  CHECK(plan.devices[0].arena_bytes < total / 3);
}

TEST_CASE("an instruction that can have other bytes does not wait for a transfer to let go of its own") {
  const Plan plan = lower(pipeline_step(), {});
  const DeviceProgram& program = plan.devices[0];
  const auto second = std::find_if(program.instructions.begin(), program.instructions.end(), [&](const Instruction& i) {
    return to_string(plan.graph, plan.graph[plan.graph[i.node].tags]) == "MB=1";
  });
  REQUIRE(second != program.instructions.end());
  CHECK(plan.graph[second->node].op == Op::Einsum);
  CHECK(second->wait_count == 0);
}

TEST_CASE("two plans of one graph are equal, and one device alone lowers to the same program") {
  for (const Graph& graph : {sharded_step(), union_step(), random_step(7, 3, 80)}) {
    const Plan plan = lower(graph, {});
    CHECK(print(plan) == print(lower(graph, {})));
    Plan single = plan;
    for (DeviceProgram& program : single.devices) program = lower_device(plan.graph, program.device);
    CHECK(print(single) == print(plan));
  }
}

TEST_CASE("an empty shard takes no bytes") {
  const Plan plan = lower(sharded_step(), {});
  const DeviceProgram& program = plan.devices[2];  // parameter a has 2 rows for 3 devices
  for (const auto& [node, buffer] : program.entries)
    if (plan.graph[plan.graph[node].name] == "a") CHECK(program.buffers[buffer].size_bytes == 0);
}

TEST_CASE("lower refuses nodes at home") {
  CHECK_ERROR(lower(parse(R"(mesh @s0 {dp:1} devices 0
%0 = input "x" : f64[2] F
%1 = tanh %0 : f64[2] @s0 "a" F
%2 = tanh %1 : f64[2] "b" F LAYER=1
output "b" {kind=metric} %2 F
)"),
                    {}),
              "lower: 3 nodes are still at home @: %0 = input \"x\" (F), %2 = tanh \"b\" (F LAYER=1), node 3 output \"b\" (F)");
}

TEST_CASE("lower refuses a control edge that makes a reader wait for the overwriting of what it reads") {
  CHECK_ERROR(lower(parse(R"(mesh @s0 {dp:1} devices 0
%0 = param "w" {init=normal, scale=1, trainable=true} : f64[2] @s0 F
%1 = tanh %0 : f64[2] @s0 "a" F
^0 = output "w" {kind=param} %1 U mesh=@s0
%2 = tanh %0 : f64[2] @s0 "b" F after=[^0]
output "b" {kind=metric} %2 F mesh=@s0
)"),
                    {}),
              "lower: no order lets every node read the old values before 'node 2 output \"w\" (U)' is overwritten");
}

TEST_CASE("an input or parameter that nobody reads is not part of the plan") {
  const Plan plan = lower(parse(R"(mesh @s0 {dp:1} devices 0
%0 = input "unused" : f64[2] F
%1 = param "idle" {init=constant, scale=1, trainable=true} : f64[2] F
%2 = input "x" : f64[2] @s0 F
output "x" {kind=metric} %2 F mesh=@s0
)"),
                          {});
  CHECK(plan.devices.at(0).entries.size() == 1);
}
