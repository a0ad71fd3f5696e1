#include "runtime/step.h"

#include <cmath>

#include "ir/error.h"
#include "ir/random.h"
#include "ir/signature.h"

namespace skirl {
namespace {

/// Calls f(element, key) for each element, the key folding the coordinates of its index in turn.
template <class F>
void for_each_key(const Shape& shape, std::size_t dim, std::uint64_t key, std::int64_t& element, F&& f) {
  if (dim == shape.size()) return f(element++, key);
  for (std::int64_t c = 0; c < shape[dim]; ++c) for_each_key(shape, dim + 1, fold(key, c), element, f);
}

template <class F>
Tensor drawn(const TensorType& type, std::uint64_t key, F&& f) {
  Tensor tensor(type.dtype, type.shape);
  std::int64_t element = 0;
  for_each_key(type.shape, 0, key, element, [&](std::int64_t i, std::uint64_t k) { tensor.set(i, f(k)); });
  return tensor;
}

}  // namespace

Tensor initial_value(const Graph& graph, NodeId source, std::uint64_t seed) {
  const TensorType& type = graph.type(graph.result(source));
  if (graph[source].op == Op::State) return Tensor(type.dtype, type.shape);
  const ParamAttrs& attrs = graph.attrs<ParamAttrs>(source);
  const std::uint64_t key = random_key(graph[graph[source].name], seed, 0);
  if (attrs.init == "constant") return drawn(type, key, [&](std::uint64_t) { return attrs.scale; });
  if (attrs.init == "uniform") return drawn(type, key, [&](std::uint64_t k) { return attrs.scale * (2 * uniform(k) - 1); });
  if (attrs.init == "normal") return drawn(type, key, [&](std::uint64_t k) { return attrs.scale * normal(k); });
  throw Error("parameter '" + graph[graph[source].name] + "' has the initial value '" + attrs.init + "'; known: normal, uniform, constant");
}

TensorMap random_inputs(const Graph& graph, std::uint64_t seed, std::int64_t step) {
  TensorMap inputs;
  const std::map<std::string, TensorType> types = whole_inputs(graph);
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Input) return;
    const std::string& name = graph[graph[node].name];
    if (inputs.count(name) != 0) return;
    const TensorType& type = types.at(name);
    const std::uint64_t key = random_key(name, seed, step);
    const double range = static_cast<double>(graph.attrs<InputAttrs>(node).range.value_or(2));
    inputs[name] = drawn(type, key, [&](std::uint64_t k) { return is_float(type.dtype) ? normal(k) : std::floor(uniform(k) * range); });
  });
  return inputs;
}

void check_inputs(const Graph& graph, const TensorMap& inputs) {
  for (const auto& [name, type] : whole_inputs(graph)) {
    const auto given = inputs.find(name);
    if (given == inputs.end()) throw Error("no input '" + name + "' is given, expected " + to_string(type));
    if (given->second.type() != type)
      throw Error("input '" + name + "' is " + to_string(given->second.type()) + ", expected " + to_string(type), "", "plan again for another batch");
  }
}

std::string output_role(const std::string& key) {
  const std::string kind = key.substr(0, key.find('/'));
  if (kind != "state") return kind;
  const std::size_t dot = key.rfind('.');
  return dot == std::string::npos ? kind : kind + key.substr(dot);
}

}  // namespace skirl
