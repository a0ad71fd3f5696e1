#include <catch2/catch.hpp>

#include "ir/error.h"
#include "ir/plan.h"
#include "ir/text.h"

using namespace skirl;

namespace {

const std::string kPlan = R"P(skirl plan 1
model "mlp(1,\{\"2\")"
strategy "ddp(2)"
threads 2
graph
streams compute p2p
mesh @s0 {dp:1} devices 3
mesh @s1 {dp:1} devices 5
%0 = param "w" {init=normal, scale=0.02, trainable=true} : f64[4] @s0 F
%1 = tanh %0 : f64[4] @s0 F
%2 = send %1 : f64[4] @s0 F stream=p2p
%3 = recv %2 : f64[4] @s1 F stream=p2p
output "y" {kind=metric} %3 U mesh=@s1
programs
device 3 arena 96
buffer 0 32
buffer 64 32
entry 0 0
run 1 compute 0 1
run 2 p2p 1 after 0
device 5 arena 32
buffer 0 32
run 3 p2p 0
run 4 compute 0 0 after 0
)P";

std::string refusal(const std::string& from, const std::string& to) {
  std::string text = kPlan;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  try {
    parse_plan(text, "p.plan");
    return "(no error)";
  } catch (const Error& error) {
    return error.complaint() + " at " + error.at();
  }
}

}  // namespace

TEST_CASE("a plan comes back byte for byte, with its ids") {
  const Plan plan = parse_plan(kPlan, "p.plan");
  CHECK(print(plan) == kPlan);
  CHECK(plan.model == "mlp(1,{\"2\")");
  CHECK(plan.threads_per_kernel == 2);
  REQUIRE(plan.devices.size() == 2);
  CHECK(plan.devices[0].refs == std::vector<std::uint32_t>{0, 1, 1});
  CHECK(plan.devices[1].refs == std::vector<std::uint32_t>{0, 0, 0});
  CHECK(plan.devices[0].waits == std::vector<std::uint32_t>{0});
  CHECK(plan.devices[0].entries.front().first == NodeId(0u));
  CHECK(plan.graph[plan.devices[1].instructions[0].node].op == Op::Recv);
  CHECK(plan.devices[1].instructions[1].wait_count == 1);
}

TEST_CASE("a plan keeps the order of its graph where a recv does not follow its send") {
  std::string text = kPlan;
  const auto replace = [&](const std::string& from, const std::string& to) { text.replace(text.find(from), from.size(), to); };
  replace("%3 = recv", "%9 = tanh %1 : f64[4] @s0 F\n%3 = recv");
  replace("run 4 compute", "run 5 compute");
  replace("run 3 p2p", "run 4 p2p");
  replace("device 5", "run 3 compute 1 0 after 1\ndevice 5");
  const Plan plan = parse_plan(text, "p.plan");
  CHECK(plan.graph[NodeId(3u)].op == Op::Tanh);
  CHECK(print(parse_plan(print(plan), "again")) == print(plan));
  CHECK(parse_plan(print(plan), "again").graph[NodeId(3u)].op == Op::Tanh);
}

TEST_CASE("a damaged plan is refused with file and line") {
  CHECK(refusal("skirl plan 1", "skirl plan 2") == "found 'skirl', expected a plan, whose first line is 'skirl plan 1' at p.plan:1");
  CHECK(refusal("programs", "program") == "the plan has no line 'programs', expected one behind the graph at p.plan");
  CHECK(refusal("threads 2", "threads 0") == "found '0', expected threads a kernel, 1 to 9999 at p.plan:4");
  CHECK(refusal("tanh %0 : f64[4]", "tanh %0 : f64[5]") == "tanh: the text says f64[5], its operands give f64[4] at p.plan:10");
  CHECK(
      refusal("%2 = send %1 : f64[4] @s0 F", "%2 = send %1 : f64[4] @s0 partial(dp) F")
          .starts_with(
              "the graph of the plan breaks rule R8: %2 = send (F): the result is @s0 partial(dp), expected the operand's @s0 at p.plan"));
  CHECK(refusal("device 5", "device 2") == "device 2 is not above the one before at p.plan:21");
  CHECK(refusal("buffer 64 32", "buffer 64 33") == "the size of a buffer is 33, expected 0 to 32 at p.plan:17");
  CHECK(refusal("buffer 64 32", "buffer 64 31") == "buffer 1 has 31 bytes, its value 32 at p.plan:19");
  CHECK(refusal("buffer 64 32", "buffer -64 32") == "found '-', expected the offset of a buffer at p.plan:17");
  CHECK(refusal("entry 0 0", "entry 1 0") == "%1 = tanh (F) does not enter the step at p.plan:18");
  CHECK(refusal("entry 0 0\n", "") == "device 3 does not run %0 = param \"w\" (F) at p.plan:20");
  CHECK(refusal("entry 0 0", "entry 0 2") == "the buffer is 2, expected 0 to 1 at p.plan:18");
  CHECK(refusal("run 1 compute 0 1", "run 9 compute 0 1") == "the node is 9, expected 0 to 4 at p.plan:19");
  CHECK(refusal("run 1 compute 0 1", "run 1 compute 0 99999999999999999999") ==
        "found '99999999999999999999', expected the buffer at p.plan:19");
  CHECK(refusal("run 1 compute 0 1", "run 1 compute 0") == "found the end of the line, expected the buffer at p.plan:19");
  CHECK(refusal("run 1 compute 0 1", "run 1 compute 0 1 0") == "found '0', expected the end of the line at p.plan:19");
  CHECK(refusal("run 1 compute", "run 1 compte") == "unknown stream 'compte'; known: compute, p2p at p.plan:19");
  CHECK(refusal("after 0", "after 1") == "the instruction to wait for is 1, expected 0 to 0 at p.plan:20");
  CHECK(refusal("run 2 p2p 1 after 0", "run 1 p2p 1 after 0") == "%1 = tanh (F) stands twice on device 3 at p.plan:20");
  CHECK(refusal("run 2 p2p 1 after 0", "run 3 p2p 1 after 0") == "%3 = recv (F) is on @s1, not on device 3 at p.plan:20");
  CHECK(refusal("run 2 p2p 1 after 0\n", "") == "device 3 does not run %2 = send (F) at p.plan:20");
  CHECK(refusal("run 3 p2p 0\n", "jump\n") == "found 'jump', expected 'device', 'buffer', 'entry' or 'run' at p.plan:23");
}

TEST_CASE("a plan whose buffers do not hold what is read is refused") {
  CHECK(refusal("run 1 compute 0 1", "run 1 compute 1 1") ==
        "device 3: %1 = tanh (F) uses buffer 1, which does not hold operand 0 at p.plan");
  CHECK(refusal("buffer 64 32", "buffer 0 32") == "device 3: %1 = tanh (F) uses buffer 0, whose bytes another buffer has taken at p.plan");
}
