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

NodePositions device_positions(const Graph& graph, NodeId node, const FactorRule& rule, std::int64_t position) {
  const Node& n = graph[node];
  const auto origin_along = [&](const DimFactors& factors) {
    if (!n.origin.valid() || factors.empty() || factors.front() >= graph[n.origin].size()) return std::int64_t{0};
    std::int64_t at = graph[n.origin][factors.front()];
    for (std::size_t f = 1; f < factors.size(); ++f) at *= rule.factors[factors[f]].size;
    return at;
  };
  const auto held = [&](ValueId value, const std::vector<DimFactors>& dims) {
    static const Layout kWhole;
    const Layout& layout = graph.layout(value).mesh == n.mesh ? graph.layout(value) : kWhole;
    const Shape& shape = graph.type(value).shape;
    std::vector<std::vector<Interval>> all;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      all.push_back(local_intervals(graph[n.mesh], layout, d, shape[d], position));
      const std::int64_t origin = origin_along(dims[d]);
      for (Interval& interval : all.back()) interval = {interval.begin + origin, interval.end + origin};
    }
    return all;
  };
  NodePositions positions;
  graph.for_each_operand(node, [&](ValueId v, std::size_t i) { positions.operands.push_back(held(v, rule.operands[i])); });
  graph.for_each_result(node, [&](ValueId v) { positions.results.push_back(held(v, rule.results[graph.result_index(v)])); });
  return positions;
}

}  // namespace skirl
