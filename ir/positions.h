#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/layout.h"

namespace skirl {

/// Which indices of the whole a device holds along each dimension of a node's operands and results: sorted intervals.
struct NodePositions {
  std::vector<std::vector<std::vector<Interval>>> operands;  // [operand][dim]
  std::vector<std::vector<std::vector<Interval>>> results;   // [result][dim]
};

/// Which indices of a whole dimension a device holds, in order: local index i is the i-th of them. It points to the intervals.
class Positions {
 public:
  explicit Positions(std::int64_t size) : only_{0, size} {}
  explicit Positions(std::span<const Interval> held) : held_(held) {
    if (held.size() == 1) only_ = held.front();
  }

  /// The intervals, sorted; several only where the cut is a table.
  std::span<const Interval> intervals() const { return held_.size() > 1 ? held_ : std::span(&only_, 1); }
  /// The global index of a local one.
  std::int64_t operator[](std::int64_t local) const {
    if (held_.size() <= 1) return only_.begin + local;
    std::size_t i = 0;
    for (; i + 1 < held_.size() && local >= held_[i].size(); ++i) local -= held_[i].size();
    return held_[i].begin + local;
  }
  /// The local index of a global one, or −1 where another device holds it.
  std::int64_t local(std::int64_t global) const {
    std::int64_t before = 0;
    for (const Interval& interval : intervals()) {
      if (global >= interval.begin && global < interval.end) return before + global - interval.begin;
      before += interval.size();
    }
    return -1;
  }

 private:
  Interval only_;
  std::span<const Interval> held_;
};

}  // namespace skirl
