#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ir/text.h"
#include "passes/lower.h"
#include "runtime/null/null_backend.h"
#include "tests/support/placed_graphs.h"

using namespace skirl;

namespace {

const NullCall& call_of(const Plan& plan, const std::vector<NullCall>& calls, DeviceId device, Op op, std::string_view name,
                        std::string_view tags = "") {
  for (const NullCall& call : calls) {
    const Node& node = plan.graph[call.node];
    if (call.device == device && node.op == op && plan.graph[node.name] == name && to_string(plan.graph, plan.graph[node.tags]) == tags)
      return call;
  }
  FAIL("no such call");
  return calls.front();
}

}  // namespace

TEST_CASE("instructions of one stream never overlap and run in their order") {
  const Plan plan = lower(random_step(11, 3, 100), {});
  const std::vector<NullCall> calls = record(plan);
  std::size_t expected = 0;
  for (const DeviceProgram& program : plan.devices) expected += program.instructions.size();
  CHECK(calls.size() == expected);
  for (const NullCall& a : calls)
    for (const NullCall& b : calls)
      if (a.device == b.device && a.stream == b.stream && a.position < b.position) CHECK(a.ended < b.started);
}

TEST_CASE("an instruction starts after all that it waits for") {
  const Plan plan = lower(random_step(12, 2, 100), {});
  const std::vector<NullCall> calls = record(plan);
  for (const NullCall& call : calls) {
    const DeviceProgram& program = plan.devices[call.device];
    const Instruction& instruction = program.instructions[call.position];
    for (std::uint32_t w = 0; w < instruction.wait_count; ++w)
      for (const NullCall& other : calls)
        if (other.device == call.device && other.position == program.waits[instruction.first_wait + w]) CHECK(other.ended < call.started);
  }
}

TEST_CASE("stages of a pipeline overlap, and a transfer runs beside compute") {
  const Plan plan = lower(pipeline_step(), {});
  const std::vector<NullCall> calls = record(plan);
  INFO(to_string(plan, calls));
  const NullCall& first = call_of(plan, calls, 0, Op::Einsum, "l0", "MB=0");
  const NullCall& second = call_of(plan, calls, 0, Op::Einsum, "l0", "MB=1");
  const NullCall& sent = call_of(plan, calls, 0, Op::Send, "l0", "MB=0");
  const NullCall& received = call_of(plan, calls, 1, Op::Recv, "l0", "MB=0");
  const NullCall& next = call_of(plan, calls, 1, Op::Einsum, "l1", "MB=0");
  CHECK(first.ended < sent.started);
  CHECK(overlap(second, sent));
  CHECK(received.ended < next.started);
  CHECK(sent.started < received.ended);
}

TEST_CASE("a gather of the next layer runs beside the compute of this one") {
  const Plan plan = lower(sharded_step(), {});
  const std::vector<NullCall> calls = record(plan);
  CHECK(overlap(call_of(plan, calls, 1, Op::AllGather, "b"), call_of(plan, calls, 1, Op::Einsum, "l0")));
}

TEST_CASE("a collective ends on no member before all have arrived") {
  const Plan plan = lower(sharded_step(), {});
  const std::vector<NullCall> calls = record(plan);
  for (const NullCall& a : calls)
    for (const NullCall& b : calls)
      if (a.node == b.node && plan.graph[a.node].op == Op::AllReduce) CHECK(a.started < b.ended);
}

TEST_CASE("the record as text names device, stream, instruction and waits") {
  const Plan plan = lower(parse(R"(streams compute other
mesh @s0 {dp:1} devices 4
%0 = input "x" : f64[2] @s0 F
%1 = tanh %0 : f64[2] @s0 "a" F LAYER=1
%2 = scale {factor=2} %1 : f64[2] @s0 "b" F stream=other
output "b" {kind=metric} %2 F mesh=@s0
)"),
                          {});
  CHECK(to_string(plan, record(plan)) ==
        "device 4 compute 0: %1 = tanh \"a\" (F LAYER=1)\n"
        "device 4 other 1: %2 = scale \"b\" (F) after 0\n"
        "device 4 compute 2: node 3 output \"b\" (F) after 1\n");
}
