#include "runtime/reference/interpreter.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/rules.h"
#include "runtime/reference/kernels.h"
#include "runtime/replicas.h"
#include "runtime/tiles.h"

namespace skirl {

struct Interpreter::Impl {
  using Locals = std::vector<Tensor>;  // one a position of the value's mesh

  Impl(const Graph& g, std::uint64_t s)
      : graph(g), seed(s), rules(g), order(topological_order(g)), locals(g.value_bound()), left(g.value_bound(), 0) {
    if (order.size() != g.node_count()) throw Error("the graph has a cycle: it cannot be run");
    for (const NodeId node : order)
      if (g[node].op == Op::Param || g[node].op == Op::State) stored.emplace(key_of(node), initial_value(g, node, seed));
  }

  std::string key_of(NodeId node) const {
    const Node& n = graph[node];
    if (n.op == Op::Output) return graph.attrs<OutputAttrs>(node).kind + "/" + graph[n.name];
    return (n.op == Op::Param ? "param/" : "state/") + graph[n.name];
  }

  const Mesh& mesh_of(ValueId value) const { return graph[graph.layout(value).mesh]; }

  static std::vector<TensorView> views(Locals& tensors) {
    std::vector<TensorView> made;
    for (Tensor& tensor : tensors) made.push_back(tensor.view());
    return made;
  }

  Locals empty_locals(ValueId value) const {
    const TensorType& type = graph.type(value);
    Locals made;
    for (std::int64_t p = 0; p < mesh_of(value).size(); ++p)
      made.emplace_back(type.dtype, local_shape(mesh_of(value), graph.layout(value), type.shape, p));
    return made;
  }

  Locals pieces(ValueId value, const Tensor& global) const {
    Locals made;
    for (std::int64_t p = 0; p < mesh_of(value).size(); ++p)
      made.push_back(piece_of(read_only(global), mesh_of(value), graph.layout(value), p));
    return made;
  }

  Tensor assembled(ValueId value) {
    SKIRL_CHECK(!graph.layout(value).is_partial(), "a Partial value is read as a whole: " + describe(graph, graph[value].producer));
    return assemble(views(locals[value.index()]), mesh_of(value), graph.layout(value), graph.type(value));
  }

  /// The value as it lies on `mesh`: crossing to and from the home is free.
  std::vector<TensorView> on_mesh(ValueId value, MeshId mesh, std::vector<Tensor>& made) {
    const MeshId own = graph.layout(value).mesh;
    if (own == mesh) return views(locals[value.index()]);
    if (own == kHome) return std::vector<TensorView>(static_cast<std::size_t>(graph[mesh].size()), locals[value.index()].front().view());
    SKIRL_CHECK(mesh == kHome, "a value of another mesh is read: " + describe(graph, graph[value].producer));
    made.push_back(assembled(value));
    return {made.back().view()};
  }

  // ---- nodes

  void compute(NodeId node) {
    const Node& n = graph[node];
    const FactorRule& rule = rules.of(node);
    std::vector<Tensor> assembled_operands;
    assembled_operands.reserve(n.operand_count);
    std::vector<std::vector<TensorView>> operands;
    graph.for_each_operand(node, [&](ValueId value, std::size_t) { operands.push_back(on_mesh(value, n.mesh, assembled_operands)); });
    std::vector<std::vector<TensorView>> results;
    graph.for_each_result(node, [&](ValueId value) {
      locals[value.index()] = empty_locals(value);
      results.push_back(views(locals[value.index()]));
    });
    for (std::int64_t p = 0; p < graph[n.mesh].size(); ++p) {
      std::vector<TensorView> own_operands;
      std::vector<TensorView> own_results;
      for (const auto& operand : operands) own_operands.push_back(operand[static_cast<std::size_t>(p)]);
      for (const auto& result : results) own_results.push_back(result[static_cast<std::size_t>(p)]);
      const Origin origin = device_origin(graph, node, rule, p);
      KernelCall call;
      call.op = n.op;
      call.attrs = &graph[n.attrs];
      call.operands = own_operands;
      call.results = own_results;
      call.name = graph[n.name];
      call.seed = seed;
      call.step = step;
      call.origin = origin;
      call.rule = &rule;
      try {
        reference::run_kernel(call);
      } catch (const RunError& error) {
        throw RunError(describe(graph, node) + " failed: " + error.what());
      }
    }
  }

  /// Collectives, and transfers from one mesh to another.
  void change_layout(NodeId node) {
    const Node& n = graph[node];
    const bool transfer = n.op == Op::Recv;
    for (std::size_t r = 0; r < n.result_count; ++r) {
      const ValueId from = graph.operand(node, r);
      const ValueId to = graph.result(node, r);
      std::vector<Tensor> made;
      made.reserve(1);
      const std::vector<TensorView> sources = transfer ? views(locals[from.index()]) : on_mesh(from, n.mesh, made);
      const Layout from_layout = transfer || graph.layout(from).mesh == n.mesh ? graph.layout(from) : Layout{n.mesh, {}, {}};
      Locals results = empty_locals(to);
      for (std::size_t p = 0; p < results.size(); ++p)
        for (const Move& move : moves_to(graph[from_layout.mesh], from_layout, mesh_of(to), graph.layout(to), !transfer,
                                         graph.type(to).shape, static_cast<std::int64_t>(p))) {
          std::vector<TensorView> read;
          for (const int s : move.sources) read.push_back(sources[static_cast<std::size_t>(s)]);
          apply(move, read, results[p].view());
        }
      locals[to.index()] = std::move(results);
    }
  }

  /// Devices keep what they have; it gets another name.
  void view_or_join(NodeId node) {
    const ValueId result = graph.result(node);
    Locals made = empty_locals(result);
    for (std::size_t p = 0; p < made.size(); ++p) {
      bool found = false;
      graph.for_each_operand(node, [&](ValueId operand, std::size_t) {
        const Mesh& mesh = mesh_of(operand);
        const int position = mesh.is_home() ? 0 : mesh.position(mesh_of(result).devices[p]);
        if (found || position < 0) return;
        found = true;
        const Tensor& own = locals[operand.index()][static_cast<std::size_t>(position)];
        SKIRL_CHECK(own.type() == made[p].type(), "the piece here is not what is read: " + describe(graph, node));
        made[p] = own;
      });
      SKIRL_CHECK(found, "no operand is here: " + describe(graph, node));
    }
    locals[result.index()] = std::move(made);
  }

  void leave(NodeId node, StepResult& result, std::map<std::string, double>& differences) {
    const ValueId value = graph.operand(node, 0);
    const std::string key = key_of(node);
    Tensor global = assembled(value);
    if (has_replicas(mesh_of(value), graph.layout(value))) {
      double& largest = differences[output_role(key)];
      largest = std::max(largest, replica_difference(views(locals[value.index()]), mesh_of(value), graph.layout(value), global));
    }
    result.outputs.emplace(key, std::move(global));
  }

  void enter(NodeId node, const TensorMap& inputs) {
    const ValueId value = graph.result(node);
    if (graph[node].op != Op::Input) {
      locals[value.index()] = pieces(value, stored.at(key_of(node)));
      return;
    }
    locals[value.index()] = pieces(value, inputs.at(graph[graph[node].name]));
  }

  void run_node(NodeId node, const TensorMap& inputs, StepResult& result, std::map<std::string, double>& differences) {
    switch (graph[node].op) {
      case Op::Input:
      case Op::Param:
      case Op::State:
        return enter(node, inputs);
      case Op::Output:
        return leave(node, result, differences);
      case Op::Fence:
        return;
      case Op::View:
      case Op::Join:
        return view_or_join(node);
      case Op::Send:
        locals[graph.result(node).index()] = locals[graph.operand(node, 0).index()];
        return;
      case Op::Recv:
        return change_layout(node);
      default:
        return is_collective(graph[node].op) ? change_layout(node) : compute(node);
    }
  }

  void check_inputs(const TensorMap& inputs) const {
    for (const NodeId node : order) {
      if (graph[node].op != Op::Input) continue;
      const std::string& name = graph[graph[node].name];
      const TensorType& expected = graph.type(graph.result(node));
      const auto given = inputs.find(name);
      if (given == inputs.end()) throw Error("no input '" + name + "' is given, expected " + to_string(expected));
      if (given->second.type() != expected)
        throw Error("input '" + name + "' is " + to_string(given->second.type()) + ", expected " + to_string(expected));
    }
  }

  StepResult run(const TensorMap& inputs, std::int64_t number) {
    check_inputs(inputs);
    step = number;
    std::fill(left.begin(), left.end(), 0);
    for (const NodeId node : order) graph.for_each_operand(node, [&](ValueId value, std::size_t) { ++left[value.index()]; });
    StepResult result;
    std::map<std::string, double> differences;
    for (const NodeId node : order) {
      run_node(node, inputs, result, differences);
      graph.for_each_operand(node, [&](ValueId value, std::size_t) {
        if (--left[value.index()] == 0) locals[value.index()].clear();
      });
      graph.for_each_result(node, [&](ValueId value) {
        if (left[value.index()] == 0) locals[value.index()].clear();
      });
    }
    result.replica_deviation = relative_deviation(differences, result.outputs);
    for (auto& [key, tensor] : stored)
      if (const auto left_as = result.outputs.find(key); left_as != result.outputs.end()) tensor = left_as->second;
    return result;
  }

  const Graph& graph;
  std::uint64_t seed;
  std::int64_t step = 1;
  Rules rules;
  std::vector<NodeId> order;
  std::vector<Locals> locals;       // of each value, while somebody still reads it
  std::vector<std::uint32_t> left;  // readers of each value that have not run
  TensorMap stored;                 // parameters and states between steps
};

Interpreter::Interpreter(const Graph& graph, std::uint64_t seed) : impl_(std::make_unique<Impl>(graph, seed)) {}
Interpreter::~Interpreter() = default;
StepResult Interpreter::run(const TensorMap& inputs, std::int64_t step) { return impl_->run(inputs, step); }
TensorMap Interpreter::values() const { return impl_->stored; }

}  // namespace skirl
