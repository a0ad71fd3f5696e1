#include "ir/rules.h"

#include <algorithm>

namespace skirl {

const FactorRule& Rules::of(NodeId node) {
  const Node& n = graph_[node];
  probe_.clear();
  probe_.push_back(static_cast<std::uint32_t>(n.op));
  probe_.push_back(n.attrs.index());
  graph_.for_each_operand(node, [&](ValueId v, std::size_t) { probe_.push_back(graph_[v].type.index()); });
  graph_.for_each_result(node, [&](ValueId v) { probe_.push_back(graph_[v].type.index()); });
  std::uint64_t hash = probe_.size();
  for (const std::uint32_t part : probe_) hash = hash_mix(hash, part);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const std::uint32_t begin = key_begin_[it->second];
    const std::uint32_t end = it->second + 1 < key_begin_.size() ? key_begin_[it->second + 1] : static_cast<std::uint32_t>(keys_.size());
    if (end - begin == probe_.size() && std::equal(probe_.begin(), probe_.end(), keys_.begin() + begin)) return rules_[it->second];
  }
  std::vector<TensorType> operands;
  std::vector<TensorType> results;
  graph_.for_each_operand(node, [&](ValueId v, std::size_t) { operands.push_back(graph_.type(v)); });
  graph_.for_each_result(node, [&](ValueId v) { results.push_back(graph_.type(v)); });
  by_hash_.emplace(hash, static_cast<std::uint32_t>(rules_.size()));
  key_begin_.push_back(static_cast<std::uint32_t>(keys_.size()));
  keys_.insert(keys_.end(), probe_.begin(), probe_.end());
  rules_.push_back(info(n.op).rule({n.op, graph_[n.attrs], operands, results}));
  return rules_.back();
}

Origin device_origin(const Graph& graph, NodeId node, const FactorRule& rule, std::int64_t position) {
  const Node& n = graph[node];
  Origin origin(rule.factors.size(), 0);
  if (n.origin.valid()) std::copy(graph[n.origin].begin(), graph[n.origin].end(), origin.begin());
  std::vector<bool> done(rule.factors.size(), false);
  const auto add = [&](ValueId value, const std::vector<DimFactors>& dims) {
    const Layout& layout = graph.layout(value);
    if (layout.dims.empty() || layout.mesh != n.mesh) return;
    const Shape offset = local_offset(graph[layout.mesh], layout, graph.type(value).shape, position);
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].empty() || layout.cut(d).empty() || done[dims[d].front()]) continue;
      std::int64_t inner = 1;
      for (std::size_t f = 1; f < dims[d].size(); ++f) inner *= rule.factors[dims[d][f]].size;
      origin[dims[d].front()] += offset[d] / inner;
      done[dims[d].front()] = true;
    }
  };
  graph.for_each_result(node, [&](ValueId v) { add(v, rule.results[graph.result_index(v)]); });
  graph.for_each_operand(node, [&](ValueId v, std::size_t i) { add(v, rule.operands[i]); });
  return origin;
}

}  // namespace skirl
