#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "passes/lower.h"
#include "runtime/backends.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/compiled.h"
#include "tests/support/law1.h"
#include "tools/testing.h"

using namespace skirl;
using namespace skirl::test;

/// Passes that are wrong on purpose: law 1 fails after exactly that pass, or verify refuses what it leaves.
namespace {

std::vector<NodeId> nodes_of(
    const Graph& graph, Op op, const std::function<bool(NodeId)>& wanted = [](NodeId) { return true; }) {
  std::vector<NodeId> found;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == op && wanted(node)) found.push_back(node);
  });
  REQUIRE(!found.empty());
  return found;
}

NodeId reduction_of_a_gradient(const Graph& graph) {
  return nodes_of(graph, Op::AllReduce, [&](NodeId node) { return graph[graph.result(node)].role == Role::Gradient; }).front();
}

Graph nothing(Graph graph) { return graph; }

/// The update reads what one device has.
Graph drop_reduction(Graph graph) {
  const NodeId reduction = reduction_of_a_gradient(graph);
  graph.replace_uses(graph.result(reduction), graph.operand(reduction, 0));
  graph.erase(reduction);
  return graph;
}

/// The same, and the value is said to be whole.
Graph drop_reduction_and_relabel(Graph graph) {
  const NodeId reduction = reduction_of_a_gradient(graph);
  const ValueId term = graph.operand(reduction, 0);
  graph[term].layout = graph.replicate(graph[reduction].mesh);
  return drop_reduction(std::move(graph));
}

/// A gradient's sum over microbatches forgets the last term.
Graph drop_term(Graph graph) {
  const NodeId sum = nodes_of(graph, Op::Sum, [&](NodeId node) { return graph[graph.result(node)].role == Role::Gradient; }).front();
  std::vector<ValueId> terms = graph.operand_list(sum);
  terms.pop_back();
  graph.set_operands(sum, terms);
  return graph;
}

/// The mean over the batch is taken already.
Graph divide_twice(Graph graph) {
  const NodeId reduction = reduction_of_a_gradient(graph);
  const ValueId gradient = graph.result(reduction);
  const Node like = graph[reduction];
  const ResultInit result{graph[gradient].type, graph[gradient].layout, graph[gradient].role};
  const NodeId half =
      graph.add({Op::Scale, {&gradient, 1}, {&result, 1}, graph.intern(Attrs(ScaleAttrs{0.5})), Phase::U, like.tags, like.mesh});
  graph.replace_uses(gradient, graph.result(half));
  graph.set_operand(half, 0, gradient);
  return graph;
}

/// What stage 1 makes is not used: its readers get what it was given.
Graph skip_stage(Graph graph) {
  for (const NodeId node : nodes_of(graph, Op::Tanh, [&](NodeId n) { return tag_of(graph, n, "LAYER") == 1; })) {
    const NodeId product = graph[graph.operand(node, 0)].producer;
    const ValueId made = graph.result(node);
    std::vector<std::pair<NodeId, std::size_t>> readers;
    graph.for_each_use(made, [&](UseId use) {
      if (graph[graph[use].user].phase == Phase::F) readers.emplace_back(graph[use].user, graph.operand_index(use));
    });
    for (const auto& [reader, i] : readers) graph.set_operand(reader, i, graph.operand(product, 0));
  }
  return graph;
}

/// Every microbatch draws the mask of the first.
Graph key_dropout_by_the_local_index(Graph graph) {
  for (const NodeId node : nodes_of(graph, Op::Dropout)) graph[node].origin = OriginId();
  return graph;
}

/// One gradient stands twice in the sum of squares.
Graph count_a_replica(Graph graph) {
  const NodeId total = nodes_of(graph, Op::Sum, [&](NodeId node) { return graph[graph[node].name] == "grad_norm"; }).front();
  std::vector<ValueId> squares = graph.operand_list(total);
  squares.push_back(squares.front());
  graph.set_operands(total, squares);
  return graph;
}

/// Every replica's squares are said to be terms of the total.
Graph add_the_replicas(Graph graph) {
  const NodeId norm = nodes_of(graph, Op::ClipCoef).front();
  const ValueId total = graph.operand(norm, 0);
  const NodeId sum = graph[total].producer;
  const ResultInit whole{graph[total].type, graph[total].layout, graph[total].role};
  const LayoutId terms = graph.intern(with_partial(graph.layout(total), 0));
  for (const NodeId node : nodes_of(graph, Op::SumSq)) graph[graph.result(node)].layout = terms;
  graph[total].layout = terms;
  const NodeId added = graph.add({Op::AllReduce, {&total, 1}, {&whole, 1}, AttrsId(), Phase::U, TagSetId(), graph[sum].mesh});
  graph.set_operand(norm, 0, graph.result(added));
  return graph;
}

const char* const kModel = R"(
  input %x "x" : f64[6,3] cut 0
  input %y "y" : f64[6,3] cut 0
  param %a "a" : f64[3,3] normal(0.5)
  param %b "b" : f64[3,3] normal(0.5)
  param %c "c" : f64[3,3] normal(0.5)
  %h = tanh (einsum "bi,ij->bj" %x %a) LAYER=0
  %h = dropout (tanh (einsum "bi,ij->bj" %h %b)) {p=0.5} "drop" LAYER=1
  %h = einsum "bi,ij->bj" %h %c LAYER=2
  loss "mse" = mse %h %y LAYER=2
)";

constexpr const char* kSplit = R"({"op": "split", "num_microbatches": 3})";
constexpr const char* kPlace = R"({"op": "place", "devices": [0, 1], "axes": {"dp": 2}})";
constexpr const char* kReplicate = R"({"op": "replicate", "axis": "dp"})";

/// What law 1 says of split, place and replicate with the pass `name` behind the directive of its rank.
std::string verdict(const std::string& name, Graph (*pass)(Graph), int rank, bool verify = true) {
  Registry registry;
  registry.add(PassInfo{name, "wrong on purpose", {}, rank, [pass](Graph graph, const Directive&) { return pass(std::move(graph)); }});
  const std::string faulty = ", {\"op\": \"" + name + "\"}";
  std::string directives = kSplit;
  if (rank == kRankSplit) directives += faulty;
  directives += std::string(", ") + kPlace + ", " + kReplicate;
  if (rank == kRankLate) directives += faulty;
  double worst = 0;
  return broken({kModel, strategy_file(directives), sgd(0.01), 2, verify}, registry, worst);
}

}  // namespace

TEST_CASE("a pass that changes nothing passes law 1") {
  CHECK(verdict("nothing", nothing, kRankSplit) == "");
  CHECK(verdict("nothing", nothing, kRankLate) == "");
}

TEST_CASE("law 1 fails after the wrong pass and names it") {
  const auto names = [](const std::string& name, Graph (*pass)(Graph), int rank, bool verify = true) {
    const std::string said = verdict(name, pass, rank, verify);
    INFO(name << ": " << said);
    CHECK(said.starts_with("after pass " + std::string(rank == kRankLate ? "4" : "2") + " '" + name + "': step "));
  };
  names("drop_term", drop_term, kRankLate);
  names("divide_twice", divide_twice, kRankLate);
  names("skip_stage", skip_stage, kRankSplit);
  names("key_dropout_by_the_local_index", key_dropout_by_the_local_index, kRankSplit);
  names("count_a_replica", count_a_replica, kRankLate);
  // these two verify refuses as well; the values alone tell too
  names("drop_reduction_and_relabel", drop_reduction_and_relabel, kRankLate, false);
  names("add_the_replicas", add_the_replicas, kRankLate, false);
}

TEST_CASE("verify alone refuses a reduction that is dropped, and names the pass") {
  for (const auto& [name, pass, rule] :
       std::vector<std::tuple<std::string, Graph (*)(Graph), std::string>>{{"drop_reduction", drop_reduction, "R10"},
                                                                           {"drop_reduction_and_relabel", drop_reduction_and_relabel, "R5"},
                                                                           {"add_the_replicas", add_the_replicas, "R5"}}) {
    const std::string said = verdict(name, pass, kRankLate);
    INFO(name << ": " << said);
    CHECK(said.find("'" + name + "'") != std::string::npos);
    CHECK(said.find(rule) != std::string::npos);
  }
}

TEST_CASE("a plan with two buffers swapped is seen by the comparison") {
  const Compiled c = compiled(kModel, "ddp(2)", sgd());
  const auto deviation = [&](const Plan& plan) {
    Interpreter reference(c.step, 7);
    const auto cpu = backend_named("cpu").make(plan, 7);
    return compare_steps(
        reference, *cpu, [&](std::int64_t step) { return random_inputs(c.step, 3, step); }, 2);
  };
  Plan plan = lower(Graph(c.placed), {});
  CHECK(deviation(plan).max() <= 1e-10);
  DeviceProgram& program = plan.devices[0];
  for (const Instruction& instruction : program.instructions) {
    const Node& node = plan.graph[instruction.node];
    if (node.op != Op::Einsum || node.phase != Phase::BW || tag_of(plan.graph, instruction.node, "LAYER") != 1) continue;
    std::swap(program.refs[instruction.first_ref], program.refs[instruction.first_ref + 1]);  // both are [3,3] here: three rows a device
  }
  const Deviation seen = deviation(plan);
  CHECK(seen.max() > 1e-3);
  CHECK(seen.worst.find("/b") != std::string::npos);
}
