#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/lower.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/null/null_backend.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/compiled.h"
#include "tools/testing.h"

using namespace skirl;
using namespace skirl::test;

/// Orders, waits and memory that users of other systems got wrong, read off graph and plan.
namespace {

Plan plan_of(const std::string& model, const std::string& strategy, const OptimizerParams& optimizer = adam()) {
  return lower(compiled(model, strategy, optimizer).placed, {});
}

/// How many microbatches have a forward activation alive on this device at once, in the order of its program.
std::size_t live_microbatches(const Plan& plan, const DeviceProgram& program) {
  const Graph& g = plan.graph;
  std::map<NodeId, std::size_t> position;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) position[program.instructions[i].node] = i;
  std::map<std::int64_t, std::pair<std::size_t, std::size_t>> alive;  // microbatch → first made, last read
  for (const auto& [node, at] : position) {
    if (g[node].phase != Phase::F || g[node].op == Op::Send || tag_of(g, node, "MB") < 0) continue;
    std::size_t last = at;
    g.for_each_result(node, [&](ValueId value) {
      if (g[value].role != Role::Activation) return;
      g.for_each_use(value, [&](UseId use) {
        if (position.count(g[use].user) != 0) last = std::max(last, position.at(g[use].user));
      });
    });
    if (last == at) continue;
    const auto [it, fresh] = alive.try_emplace(tag_of(g, node, "MB"), at, last);
    it->second = {std::min(it->second.first, at), std::max(it->second.second, last)};
  }
  std::size_t peak = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    peak = std::max<std::size_t>(peak, static_cast<std::size_t>(std::count_if(alive.begin(), alive.end(), [&](const auto& entry) {
                                   return entry.second.first <= i && i < entry.second.second;
                                 })));
  return peak;
}

/// Arena bytes that are neither what enters a step nor gradients.
std::int64_t working_bytes(const Plan& plan, std::size_t device) {
  const DeviceProgram& program = plan.devices[device];
  std::int64_t bytes = program.arena_bytes;
  for (const auto& [node, buffer] : program.entries) bytes -= program.buffers[buffer].size_bytes;
  return bytes;
}

/// Whether `from` can be reached backward from `node` along data.
bool comes_from(const Graph& g, NodeId node, const std::function<bool(NodeId)>& found) {
  std::set<NodeId> seen;
  std::vector<NodeId> open{node};
  while (!open.empty()) {
    const NodeId at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    if (found(at)) return true;
    g.for_each_operand(at, [&](ValueId value, std::size_t) { open.push_back(g[value].producer); });
  }
  return false;
}

}  // namespace

TEST_CASE("a stage starts when all that is sent to it has arrived, however late one part is", "[A09]") {
  const std::string model = R"(
    input %x "x" : f64[4,3] cut 0
    input %y "y" : f64[4,3] cut 0
    param %a "a" : f64[3,3] normal(0.5)
    param %b "b" : f64[3,3] normal(0.5)
    %h = einsum "bi,ij->bj" %x %a LAYER=0
    %u = tanh %h LAYER=0
    %v = silu %h LAYER=0
    %w = gelu %h LAYER=0
    %o = einsum "bi,ij->bj" (mul %u (mul %v %w)) %b LAYER=1
    loss "mse" = mse %o %y LAYER=1
  )";
  const Compiled c = compiled(model, "pp(2, mb=2)", adam());
  CHECK(count(c.placed, Op::Send) == 2 * (3 + 3));
  const Plan plan = lower(Graph(c.placed), {});
  for (const std::uint64_t seed : {1, 2, 3}) {
    Interpreter reference(c.step, 7);
    const auto late = make_cpu_runner(plan, 7, {.workers = 3, .executor = {.delay_us = 500, .delay_seed = seed, .poison = true}});
    const Deviation deviation = compare_steps(
        reference, *late, [&](std::int64_t step) { return random_inputs(c.step, 3, step); }, 2);
    CHECK(deviation.max() <= 1e-10);
  }
}

TEST_CASE("two ranks that both send before they receive are refused, with the cycle", "[A10]") {
  const Graph crossed = parse(R"(
    mesh @s0 {dp:1} devices 0
    mesh @s1 {dp:1} devices 1
    %0 = input "a" : f64[4] @s0
    %1 = input "b" : f64[4] @s1
    %2 = send %0 : f64[4] @s0 "a"
    %3 = send %1 : f64[4] @s1 "b"
    %4 = recv %2 : f64[4] @s1 "a" after=[%3]
    %5 = recv %3 : f64[4] @s0 "b" after=[%2]
    output "a" {kind=metric} %4
    output "b" {kind=metric} %5
  )");
  const std::vector<Breach> breaches = verify(crossed);
  REQUIRE(breaches.size() == 1);
  CHECK(breaches.front().rule == 2);
  CHECK(breaches.front().message ==
        "%2 = send \"a\" (F): a cycle: %2 (send \"a\", @s0 to @s1) -> %3 (send \"b\", @s1 to @s0) -> %2 (send \"a\", @s0 to @s1)");
}

TEST_CASE("1F1B holds as many microbatches as there are stages behind, whatever the number of microbatches", "[A23]") {
  for (const std::int64_t mb : {4, 32}) {
    const Plan plan = plan_of(mlp_text(8, 3, mb), "pp(4, 1f1b, mb=" + number(mb) + ")");
    REQUIRE(plan.devices.size() == 4);
    for (std::size_t rank = 0; rank < 4; ++rank) CHECK(live_microbatches(plan, plan.devices[rank]) <= 4 - rank + 1);  // one in transfer
  }
}

TEST_CASE("GPipe holds all microbatches", "[A23]") {
  for (const std::int64_t mb : {4, 8}) {
    const Plan plan = plan_of(mlp_text(8, 3, mb), "pp(4, gpipe, mb=" + number(mb) + ")");
    CHECK(live_microbatches(plan, plan.devices[0]) == static_cast<std::size_t>(mb));
  }
}

TEST_CASE("under 1F1B only gradient terms and scalars grow with the number of microbatches", "[A23]") {
  const auto plan = [](std::int64_t mb) { return plan_of(mlp_text(8, 3, 64 * mb), "pp(4, 1f1b, mb=" + number(mb) + ")"); };
  const Plan few = plan(4);
  const Plan many = plan(32);
  const std::int64_t activation = 64 * 3 * 8;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const std::int64_t grown = working_bytes(many, rank) - working_bytes(few, rank);
    INFO("rank " << rank << ": " << grown << " bytes");
    CHECK(grown <= 28 * 4 * 128);
    CHECK(grown < 28 * activation / 2);
  }
}

TEST_CASE("a value that is reported keeps nothing else alive", "[A34]") {
  const auto plan = [](std::int64_t mb) {
    return plan_of(mlp_text(4, 3, 64 * mb) + "output \"x\" %x\n", "pp(4, 1f1b, mb=" + number(mb) + ")");
  };
  const Plan few = plan(4);
  const Plan many = plan(64);
  const std::int64_t returned = 60 * 64 * 3 * 8;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const std::int64_t grown = working_bytes(many, rank) - working_bytes(few, rank);
    INFO("rank " << rank << ": " << grown << " bytes, of which the value itself " << returned);
    CHECK(grown <= 60 * 4 * 128 + (rank == 3 ? 2 * returned : 0));  // the parts, and all of them together
  }
}

TEST_CASE("in a plan that is saved and read, every reduction comes from its gradients and every node runs once", "[A29]") {
  const Plan written = plan_of(mlp_text(4, 4, 8), "pp(2, mb=2) + zero(2, dp=2)");
  const Plan plan = parse_plan(print(written), "saved");
  const Graph& g = plan.graph;
  CHECK(verify(g).empty());
  CHECK(topological_order(g).size() == g.node_count());
  int reductions = 0;
  g.for_each_node([&](NodeId node) {
    if (g[node].op == Op::Recv) CHECK(g[g[g.operand(node, 0)].producer].op == Op::Send);
    if (g[node].op != Op::ReduceScatter && g[node].op != Op::AllReduce) return;
    if (g[g.result(node)].role != Role::Gradient) return;
    ++reductions;
    CHECK(comes_from(g, node,
                     [&](NodeId from) { return g[from].phase == Phase::BW && g[from].op == Op::Einsum && g[from].name == g[node].name; }));
  });
  CHECK(reductions == 8);  // four parameters, two microbatches
  std::set<std::pair<DeviceId, std::uint32_t>> ran;
  std::size_t instructions = 0;
  for (const NullCall& call : record(plan)) CHECK(ran.emplace(call.device, call.position).second);
  for (const DeviceProgram& program : plan.devices) instructions += program.instructions.size();
  CHECK(ran.size() == instructions);
}

TEST_CASE("a plan that cannot finish is refused before it runs and says who waits", "[A29]") {
  Plan plan = plan_of(mlp_text(2, 3, 4), "pp(2, mb=2)");
  // device 1 is told to send its first gradient before it receives the activation that it comes from
  std::vector<Instruction>& program = plan.devices[1].instructions;
  const auto at = [&](Op op) {
    return std::find_if(program.begin(), program.end(), [&](const Instruction& i) { return plan.graph[i.node].op == op; });
  };
  const auto received = at(Op::Recv);
  const auto sent = at(Op::Send);
  REQUIRE((received != program.end() && sent != program.end() && received < sent));
  std::swap(received->wait_count, sent->wait_count);
  std::swap(received->first_wait, sent->first_wait);
  std::string message;
  try {
    std::rotate(received, sent, sent + 1);
    record(plan);
  } catch (const std::exception& error) {
    message = error.what();
  }
  INFO(message);
  CHECK(message.find("device 0") != std::string::npos);
  CHECK(message.find("device 1") != std::string::npos);
}
