#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/positions.h"

namespace skirl {

/// The factor rules of a graph's nodes, each evaluated once a distinct (operator, attributes, types). Collectives, transfers, view, join
/// and outputs have the rule of the identity: every dimension a factor of its own. Keep one per pass; it refers to the graph's tables.
class Rules {
 public:
  explicit Rules(const Graph& graph) : graph_(graph) {}
  const FactorRule& of(NodeId node);

 private:
  const Graph& graph_;
  std::deque<FactorRule> rules_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash_;
  std::vector<std::uint32_t> keys_;       // op, attrs, operand types, result types of each rule, back to back
  std::vector<std::uint32_t> key_begin_;  // where the key of rule i starts in keys_
  std::vector<std::uint32_t> probe_;
};

/// What the device at `position` of the node's mesh holds: what the layouts say, from the node's own origin on.
NodePositions device_positions(const Graph& graph, NodeId node, const FactorRule& rule, std::int64_t position);

}  // namespace skirl
