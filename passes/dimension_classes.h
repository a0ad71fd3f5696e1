#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/rules.h"

namespace skirl {

/// The dimensions of a graph's values in classes: two are in one class if some operator's factor rule has them as one factor, so that a cut
/// of one is, without communication, a cut of all. In a transformer: the width of the residual stream; for each layer the heads, and the
/// inner width of the feed-forward; the vocabulary; batch; sequence. A dimension that is a product counts by its outermost factor: query
/// heads (g r) are in one class with the key heads g.
class DimensionClasses {
 public:
  /// What a class consists of and what stands against cutting it.
  struct Class {
    std::int64_t size = 0;       // of its smallest dimension; the others are multiples, cut at those
    std::int64_t unit = 1;       // the largest multiple
    bool input = false;          // has a dimension of an input
    NodeId whole;                // an operator that needs it whole and has no opening; none
    std::vector<NodeId> opened;  // operators that must be opened for a cut
    double sums = 0;             // elements of forward results that become Partial when it is cut
  };

  /// Over the nodes of the region.
  DimensionClasses(const Graph& graph, Rules& rules, const std::vector<bool>& region);

  std::uint32_t of(ValueId value, std::size_t dim) const;
  const Class& operator[](std::uint32_t id) const { return classes_[id]; }

 private:
  std::uint32_t find(std::uint32_t element) const;
  void unite(std::uint32_t a, std::uint32_t b);
  void note(NodeId node, const FactorRule& rule);

  const Graph& graph_;
  std::vector<std::uint32_t> first_;           // by value: element of its dimension 0
  mutable std::vector<std::uint32_t> parent_;  // by element
  std::vector<Class> classes_;                 // by root element
};

}  // namespace skirl
