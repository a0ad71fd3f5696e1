#include "ir/signature.h"

#include <algorithm>

namespace skirl {

Shape input_offset(const Graph& graph, NodeId input) {
  Shape offset(graph.type(graph.result(input)).shape.size(), 0);
  const OriginId origin = graph[input].origin;
  if (origin.valid()) std::copy_n(graph[origin].begin(), std::min(graph[origin].size(), offset.size()), offset.begin());
  return offset;
}

std::map<std::string, TensorType> whole_inputs(const Graph& graph) {
  std::map<std::string, TensorType> inputs;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Input) return;
    TensorType piece = graph.type(graph.result(node));
    const Shape offset = input_offset(graph, node);
    for (std::size_t d = 0; d < offset.size(); ++d) piece.shape[d] += offset[d];
    const auto [it, fresh] = inputs.try_emplace(graph[graph[node].name], piece);
    if (fresh) return;
    for (std::size_t d = 0; d < offset.size(); ++d) it->second.shape[d] = std::max(it->second.shape[d], piece.shape[d]);
  });
  return inputs;
}

}  // namespace skirl
