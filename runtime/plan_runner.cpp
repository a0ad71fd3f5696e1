#include "runtime/plan_runner.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/signature.h"
#include "runtime/replicas.h"

namespace skirl {
namespace {

using Buffers = std::vector<std::pair<std::size_t, std::uint32_t>>;  // (index of the device, buffer), in the order of devices

std::string key_of(const Graph& graph, NodeId node) {
  const Node& n = graph[node];
  if (n.op == Op::Output) return graph.attrs<OutputAttrs>(node).kind + "/" + graph[n.name];
  return (n.op == Op::Param ? "param/" : n.op == Op::State ? "state/" : "input/") + graph[n.name];
}

}  // namespace

PlanRunner::PlanRunner(const Plan& plan, std::unique_ptr<Backend> backend, std::uint64_t seed, const ExecutorOptions& options)
    : plan_(plan), backend_(std::move(backend)), executor_(plan, *backend_, seed, options) {
  const std::vector<std::byte*>& arenas = executor_.loaded().arenas;
  real_ = std::any_of(arenas.begin(), arenas.end(), [](const std::byte* arena) { return arena != nullptr; });
  const Graph& graph = plan.graph;
  std::vector<Buffers> buffers(graph.node_bound());
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const DeviceProgram& program = plan.devices[d];
    for (const auto& [node, buffer] : program.entries) buffers[node.index()].emplace_back(d, buffer);
    for (const Instruction& i : program.instructions)
      if (graph[i.node].op == Op::Output) buffers[i.node.index()].emplace_back(d, program.refs[i.first_ref + 1]);
  }
  graph.for_each_node([&](NodeId node) {
    const Op op = graph[node].op;
    if (op == Op::Input) inputs_.push_back(spread(node, graph.result(node), buffers[node.index()]));
    if (op == Op::Param || op == Op::State) entries_.push_back(spread(node, graph.result(node), buffers[node.index()]));
    if (op == Op::Output) outputs_.push_back(spread(node, graph.operand(node, 0), buffers[node.index()]));
  });
  if (!real_) return;
  for (const Spread& entry : entries_) put(entry, initial_value(graph, entry.node, seed));
}

PlanRunner::Spread PlanRunner::spread(NodeId node, ValueId value, std::span<const std::pair<std::size_t, std::uint32_t>> buffers) const {
  const Graph& graph = plan_.graph;
  const Layout& layout = graph.layout(value);
  const Mesh& mesh = graph[layout.mesh];
  const Shape& shape = graph.type(value).shape;
  Spread made{node, value, std::vector<TensorView>(mesh.devices.size()), {}, {}, false};
  if (buffers.size() != mesh.devices.size())
    throw Error("plan: " + std::to_string(buffers.size()) + " devices have '" + describe(graph, node) + "', expected " +
                std::to_string(mesh.devices.size()));
  for (const auto& [device, buffer] : buffers)
    made.locals[static_cast<std::size_t>(mesh.position(plan_.devices[device].device))] =
        buffer_view(executor_.loaded(), device, buffer, value);
  if (graph[node].op != Op::Output)
    for (std::size_t p = 0; p < mesh.devices.size(); ++p)
      made.pieces.push_back(moves_to(Mesh{}, Layout{}, mesh, layout, false, shape, static_cast<std::int64_t>(p)));
  if (graph[node].op == Op::Input) {  // the node stands for a part of what is given
    const Shape offset = input_offset(graph, node);
    for (std::vector<Move>& moves : made.pieces)
      for (Move& move : moves)
        for (std::size_t d = 0; d < shape.size(); ++d) move.source_start[d] += offset[d];
  }
  made.whole = moves_to(mesh, layout, Mesh{}, Layout{}, false, shape, 0);
  made.replicated = has_replicas(mesh, layout);
  return made;
}

void PlanRunner::put(const Spread& spread, const Tensor& global) const {
  const TensorView source = read_only(global);
  for (std::size_t p = 0; p < spread.locals.size(); ++p)
    for (const Move& move : spread.pieces[p]) apply(move, {&source, 1}, spread.locals[p]);
}

Tensor PlanRunner::take(const Spread& spread) const {
  const TensorType& type = plan_.graph.type(spread.value);
  Tensor global(type.dtype, type.shape);
  std::vector<TensorView> sources;
  for (const Move& move : spread.whole) {
    sources.clear();
    for (const int p : move.sources) sources.push_back(spread.locals[static_cast<std::size_t>(p)]);
    apply(move, sources, global.view());
  }
  return global;
}

StepResult PlanRunner::run(const TensorMap& inputs, std::int64_t step) {
  StepResult result;
  if (!real_) {
    executor_.run(step);
    return result;
  }
  check_inputs(plan_.graph, inputs);
  for (const Spread& input : inputs_) put(input, inputs.at(plan_.graph[plan_.graph[input.node].name]));
  executor_.run(step);
  std::map<std::string, double> differences;  // by role
  for (const Spread& output : outputs_) {
    const std::string key = key_of(plan_.graph, output.node);
    Tensor global = take(output);
    if (output.replicated) {
      double& largest = differences[output_role(key)];
      const Layout& layout = plan_.graph.layout(output.value);
      largest = std::max(largest, replica_difference(output.locals, plan_.graph[layout.mesh], layout, global));
    }
    result.outputs.emplace(key, std::move(global));
  }
  result.replica_deviation = relative_deviation(differences, result.outputs);
  return result;
}

TensorMap PlanRunner::values() const {
  TensorMap values;
  if (!real_) return values;
  for (const Spread& entry : entries_) values.emplace(key_of(plan_.graph, entry.node), take(entry));
  return values;
}

}  // namespace skirl
