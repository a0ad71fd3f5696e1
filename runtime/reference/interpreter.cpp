#include "runtime/reference/interpreter.h"

#include <algorithm>
#include <map>
#include <vector>

#include "ir/error.h"
#include "ir/rules.h"
#include "ir/signature.h"
#include "runtime/reference/kernels.h"
#include "runtime/replicas.h"
#include "runtime/tiles.h"

namespace skirl {

struct Interpreter::Impl {
  Impl(const Graph& graph, std::uint64_t seed);

  StepResult run(const TensorMap& inputs, std::int64_t step);
  TensorMap values() const;

 private:
  using Locals = std::vector<Tensor>;  // by position on the mesh of the value

  const Mesh& mesh_of(ValueId value) const { return graph[graph.layout(value).mesh]; }
  Tensor global_of(ValueId value, const Locals& locals) const;
  Locals cut(ValueId value, const Tensor& global) const;
  Tensor& operand_at(NodeId node, std::size_t i, std::int64_t position);
  void run_node(NodeId node, const TensorMap& inputs, std::int64_t step);
  void compute(NodeId node, std::int64_t step);
  void move_tiles(NodeId node);
  void take_output(NodeId node, StepResult& result);
  void release(NodeId node);

  Graph graph;
  std::uint64_t seed;
  Rules rules;
  std::vector<NodeId> order;
  std::vector<Locals> locals;                   // by value
  std::vector<std::uint32_t> readers_left;      // by value, in this step
  std::vector<Tensor> assembled;                // of a mesh value read at home
  std::map<std::string, Locals> carried;        // parameters and states between steps, by "param/NAME"
  std::map<std::string, Locals> next;           // what they are after this step
  std::map<std::string, double> disagreements;  // of replicas, by role, in this step
};

namespace {

std::string key_of(const Graph& graph, NodeId node) {
  const Op op = graph[node].op;
  const std::string kind = op == Op::Output ? graph.attrs<OutputAttrs>(node).kind : op == Op::Param ? "param" : "state";
  return kind + "/" + graph[graph[node].name];
}

}  // namespace

Interpreter::Impl::Impl(const Graph& g, std::uint64_t s) : graph(g), seed(s), rules(graph), order(topological_order(graph)) {
  if (order.size() != graph.node_count())
    throw Error("the graph cannot be run: " + std::to_string(graph.node_count() - order.size()) + " nodes wait for each other in a cycle");
  locals.resize(graph.value_bound());
  for (const NodeId node : order)
    if (graph[node].op == Op::Param || graph[node].op == Op::State) {
      const Tensor initial = initial_value(graph, node, seed);
      carried[key_of(graph, node)] = cut(graph.result(node), initial);
    }
}

Interpreter::Impl::Locals Interpreter::Impl::cut(ValueId value, const Tensor& global) const {
  const Mesh& mesh = mesh_of(value);
  Locals pieces;
  for (std::int64_t p = 0; p < mesh.size(); ++p) pieces.push_back(piece_of(read_only(global), mesh, graph.layout(value), p));
  return pieces;
}

Tensor Interpreter::Impl::global_of(ValueId value, const Locals& pieces) const {
  std::vector<TensorView> views;
  for (const Tensor& piece : pieces) views.push_back(read_only(piece));
  return assemble(views, mesh_of(value), graph.layout(value), graph.type(value));
}

/// The local tensor of an operand on the device at `position` of the node's mesh. Crossing to and from home is free.
Tensor& Interpreter::Impl::operand_at(NodeId node, std::size_t i, std::int64_t position) {
  const ValueId value = graph.operand(node, i);
  const MeshId from = graph.layout(value).mesh;
  if (from == graph[node].mesh) return locals[value.index()][static_cast<std::size_t>(position)];
  if (from == kHome) return locals[value.index()].front();
  if (graph[node].mesh == kHome) {
    assembled.push_back(global_of(value, locals[value.index()]));
    return assembled.back();
  }
  // A view, or a member's share of a join: the same device's tensor.
  const int there = graph[from].position(graph[graph[node].mesh].devices[static_cast<std::size_t>(position)]);
  SKIRL_CHECK(there >= 0, "an operand on another mesh: " + describe(graph, node));
  return locals[value.index()][static_cast<std::size_t>(there)];
}

void Interpreter::Impl::compute(NodeId node, std::int64_t step) {
  const Mesh& mesh = graph[graph[node].mesh];
  const FactorRule& rule = rules.of(node);
  for (std::int64_t p = 0; p < mesh.size(); ++p) {
    assembled.clear();
    assembled.reserve(graph[node].operand_count);
    std::vector<TensorView> operands;
    for (std::size_t i = 0; i < graph[node].operand_count; ++i) operands.push_back(operand_at(node, i, p).view());
    std::vector<TensorView> results;
    graph.for_each_result(node, [&](ValueId v) {
      locals[v.index()].emplace_back(graph.type(v).dtype, local_shape(mesh, graph.layout(v), graph.type(v).shape, p));
      results.push_back(locals[v.index()].back().view());
    });
    NodePositions positions;
    if (depends_on_position(graph[node].op)) positions = device_positions(graph, node, rule, p);
    KernelCall call;
    call.op = graph[node].op;
    call.attrs = &graph[graph[node].attrs];
    call.operands = operands;
    call.results = results;
    call.name = graph[graph[node].name];
    call.seed = seed;
    call.step = step;
    call.positions = depends_on_position(graph[node].op) ? &positions : nullptr;
    call.rule = &rule;
    try {
      reference::run_kernel(call);
    } catch (const RunError& error) {
      const std::string device = mesh.is_home() ? "" : "device " + std::to_string(mesh.devices[static_cast<std::size_t>(p)]) + ": ";
      throw RunError(device + describe(graph, node) + ": " + error.what());
    }
  }
}

/// Collectives and the receiving half of a transfer: tiles go from the operand's layout to the result's.
void Interpreter::Impl::move_tiles(NodeId node) {
  for (std::size_t i = 0; i < graph[node].result_count; ++i) {
    const ValueId from = graph.operand(node, i);
    const ValueId to = graph.result(node, i);
    const Mesh& from_mesh = mesh_of(from);
    const Mesh& to_mesh = mesh_of(to);
    const Shape& shape = graph.type(to).shape;
    std::vector<TensorView> pieces;
    for (Tensor& piece : locals[from.index()]) pieces.push_back(piece.view());
    for (std::int64_t p = 0; p < to_mesh.size(); ++p) {
      Tensor local(graph.type(to).dtype, local_shape(to_mesh, graph.layout(to), shape, p));
      std::vector<TensorView> sources;
      for (const Move& move : moves_to(from_mesh, graph.layout(from), to_mesh, graph.layout(to), !is_transfer(graph[node].op), shape, p)) {
        sources.clear();
        for (const int source : move.sources) sources.push_back(pieces[static_cast<std::size_t>(source)]);
        apply(move, sources, local.view());
      }
      locals[to.index()].push_back(std::move(local));
    }
  }
}

void Interpreter::Impl::run_node(NodeId node, const TensorMap& inputs, std::int64_t step) {
  const Node& n = graph[node];
  const std::int64_t devices = graph[n.mesh].size();
  switch (n.op) {
    case Op::Input: {
      const ValueId value = graph.result(node);
      const TensorType& type = graph.type(value);
      Tensor piece(type.dtype, type.shape);
      copy_tile(read_only(inputs.at(graph[n.name])), input_offset(graph, node), piece.view(), Shape(type.shape.size(), 0), type.shape);
      locals[value.index()] = cut(value, piece);
      return;
    }
    case Op::Param:
    case Op::State:
      locals[graph.result(node).index()] = carried.at(key_of(graph, node));
      return;
    case Op::Send:
      locals[graph.result(node).index()] = locals[graph.operand(node, 0).index()];
      return;
    case Op::View:
      for (std::int64_t p = 0; p < devices; ++p) locals[graph.result(node).index()].push_back(operand_at(node, 0, p));
      return;
    case Op::Join: {  // the devices of a union are those of its members, one after the other
      Locals& joined = locals[graph.result(node).index()];
      for (std::size_t i = 0; i < n.operand_count; ++i)
        for (const Tensor& piece : locals[graph.operand(node, i).index()]) joined.push_back(piece);
      return;
    }
    case Op::Fence:
    case Op::Output:
      return;
    default:
      if (is_collective(n.op) || n.op == Op::Recv)
        move_tiles(node);
      else
        compute(node, step);
  }
}

void Interpreter::Impl::take_output(NodeId node, StepResult& result) {
  const ValueId value = graph.operand(node, 0);
  const std::string key = key_of(graph, node);
  Tensor global = global_of(value, locals[value.index()]);
  std::vector<TensorView> pieces;
  for (const Tensor& piece : locals[value.index()]) pieces.push_back(read_only(piece));
  double& worst = disagreements[output_role(key)];
  worst = std::max(worst, replica_difference(pieces, mesh_of(value), graph.layout(value), global));
  result.outputs.insert_or_assign(key, std::move(global));
  if (carried.count(key) == 0) return;
  const Locals& before = carried.at(key);
  const Locals& after = locals[value.index()];
  bool same_pieces = before.size() == after.size();
  for (std::size_t p = 0; same_pieces && p < before.size(); ++p) same_pieces = before[p].type() == after[p].type();
  if (!same_pieces) throw Error(describe(graph, node) + ": leaves in another layout than it entered in, so steps do not chain");
  next[key] = after;
}

void Interpreter::Impl::release(NodeId node) {
  graph.for_each_operand(node, [&](ValueId value, std::size_t) {
    if (--readers_left[value.index()] == 0) locals[value.index()] = Locals();
  });
}

StepResult Interpreter::Impl::run(const TensorMap& inputs, std::int64_t step) {
  check_inputs(graph, inputs);
  readers_left.assign(graph.value_bound(), 0);
  for (const NodeId node : order) graph.for_each_operand(node, [&](ValueId value, std::size_t) { ++readers_left[value.index()]; });
  StepResult result;
  next.clear();
  disagreements.clear();
  for (Locals& pieces : locals) pieces.clear();
  for (const NodeId node : order) {
    run_node(node, inputs, step);
    if (graph[node].op == Op::Output) take_output(node, result);
    release(node);
  }
  for (auto& [key, pieces] : next) carried[key] = std::move(pieces);
  result.replica_deviation = relative_deviation(disagreements, result.outputs);
  return result;
}

TensorMap Interpreter::Impl::values() const {
  TensorMap all;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Param && graph[node].op != Op::State) return;
    all.insert_or_assign(key_of(graph, node), global_of(graph.result(node), carried.at(key_of(graph, node))));
  });
  return all;
}

Interpreter::Interpreter(const Graph& graph, std::uint64_t seed) : impl_(std::make_unique<Impl>(graph, seed)) {}
Interpreter::~Interpreter() = default;
StepResult Interpreter::run(const TensorMap& inputs, std::int64_t step) { return impl_->run(inputs, step); }
TensorMap Interpreter::values() const { return impl_->values(); }

}  // namespace skirl
