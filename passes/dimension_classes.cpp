#include "passes/dimension_classes.h"

#include <algorithm>

#include "ir/opening.h"

namespace skirl {
namespace {

/// The first such node stands for all: the one nearest to what the model says.
void note_whole(DimensionClasses::Class& c, NodeId node) {
  if (!c.whole.valid()) c.whole = node;
}

}  // namespace

DimensionClasses::DimensionClasses(const Graph& graph, Rules& rules, const std::vector<bool>& region) : graph_(graph) {
  first_.resize(graph.value_bound());
  std::uint32_t elements = 0;
  for (std::size_t i = 0; i < graph.value_bound(); ++i) {
    first_[i] = elements;
    if (graph[ValueId(i)].producer.valid()) elements += static_cast<std::uint32_t>(graph.type(ValueId(i)).shape.size());
  }
  parent_.resize(elements);
  for (std::uint32_t e = 0; e < elements; ++e) parent_[e] = e;

  graph.for_each_node([&](NodeId node) {
    if (!region[node.index()] || graph[node].operand_count == 0) return;
    const FactorRule& rule = rules.of(node);
    std::vector<std::uint32_t> leader(rule.factors.size(), UINT32_MAX);
    const auto lead = [&](ValueId value, const std::vector<DimFactors>& dims) {
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d].empty()) continue;
        std::uint32_t& first = leader[dims[d].front()];
        const std::uint32_t element = first_[value.index()] + static_cast<std::uint32_t>(d);
        if (first == UINT32_MAX) first = element;
        unite(first, element);
      }
    };
    graph.for_each_operand(node, [&](ValueId value, std::size_t i) { lead(value, rule.operands[i]); });
    graph.for_each_result(node, [&](ValueId value) { lead(value, rule.results[graph.result_index(value)]); });
  });

  classes_.resize(elements);
  for (std::size_t i = 0; i < graph.value_bound(); ++i) {
    if (!graph[ValueId(i)].producer.valid()) continue;
    const Shape& shape = graph.type(ValueId(i)).shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      Class& c = classes_[of(ValueId(i), d)];
      c.size = c.size == 0 ? shape[d] : std::min(c.size, shape[d]);
      c.unit = std::max(c.unit, shape[d]);  // the largest size, until all are seen
    }
  }
  for (Class& c : classes_)
    if (c.size > 0) c.unit = std::max<std::int64_t>(1, c.unit / c.size);
  graph.for_each_node([&](NodeId node) {
    if (!region[node.index()]) return;
    if (graph[node].op == Op::Input)
      for (std::size_t d = 0; d < graph.type(graph.result(node)).shape.size(); ++d) classes_[of(graph.result(node), d)].input = true;
    if (graph[node].operand_count > 0) note(node, rules.of(node));
  });
}

/// What the node's rule says of the classes of its factors.
void DimensionClasses::note(NodeId node, const FactorRule& rule) {
  const bool positions = graph_[node].op == Op::Embedding && graph_[graph_[graph_.operand(node, 1)].producer].op != Op::Input;
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    const FactorKind kind = rule.factors[f].kind;
    if (kind == FactorKind::Free) continue;
    std::optional<std::uint32_t> in;
    bool kept = false;
    graph_.for_each_operand(node, [&](ValueId value, std::size_t i) {
      if (const int d = rule.operand_dim(i, static_cast<int>(f)); d >= 0) in = of(value, static_cast<std::size_t>(d));
    });
    graph_.for_each_result(node, [&](ValueId value) {
      const int d = rule.result_dim(graph_.result_index(value), static_cast<int>(f));
      if (d < 0) return;
      in = of(value, static_cast<std::size_t>(d));
      kept = true;
    });
    if (!in) continue;
    Class& c = classes_[*in];
    if (kind == FactorKind::Whole || kind == FactorKind::Prefix) {
      if (can_open(graph_[node].op))
        c.opened.push_back(node);
      else
        note_whole(c, node);
    } else if (!kept && graph_[node].phase == Phase::F) {
      graph_.for_each_result(node, [&](ValueId value) { c.sums += static_cast<double>(elems(graph_.type(value).shape)); });
    }
    // A table of positions is read alike by all samples: cutting it would make a large sum of a small copy.
    if (kind == FactorKind::Picked && positions) note_whole(c, node);
  }
}

std::uint32_t DimensionClasses::of(ValueId value, std::size_t dim) const {
  return find(first_[value.index()] + static_cast<std::uint32_t>(dim));
}

std::uint32_t DimensionClasses::find(std::uint32_t element) const {
  while (parent_[element] != element) element = parent_[element] = parent_[parent_[element]];
  return element;
}

/// The smaller element becomes the root, so that classes do not depend on the order of nodes.
void DimensionClasses::unite(std::uint32_t a, std::uint32_t b) {
  a = find(a);
  b = find(b);
  if (a != b) parent_[std::max(a, b)] = std::min(a, b);
}

}  // namespace skirl
