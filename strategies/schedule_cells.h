#pragma once

#include <cstddef>
#include <vector>

#include "strategies/schedule.h"

namespace skirl {

/// Numbers the cells of a table, and says what each of them waits for.
///
/// Requires  every cell of the table is inside its stages and microbatches.
class ScheduleCells {
 public:
  explicit ScheduleCells(const ScheduleTable& table);

  std::size_t bound() const { return rank_.size(); }
  std::size_t index(const Cell& cell) const {
    return static_cast<std::size_t>(cell.stage * microbatches_ + cell.microbatch) * 4 + static_cast<std::size_t>(cell.work);
  }
  bool has(const Cell& cell) const { return rank_[index(cell)] >= 0; }
  /// The rank that works on it; −1: none.
  std::int64_t rank(const Cell& cell) const { return rank_[index(cell)]; }
  /// The cell of a stage that makes the gradient of its input.
  Cell backward(std::int64_t stage, std::int64_t microbatch) const {
    const Cell joined{stage, Work::B, microbatch};
    return has(joined) ? joined : Cell{stage, Work::I, microbatch};
  }

  /// Calls `visit` with each cell that has to end before this one starts.
  template <class Visit>
  void for_each_need(const Cell& c, Visit&& visit) const {
    const std::int64_t part = c.microbatch % parts_;
    if (c.work == Work::W) return visit(Cell{c.stage, Work::I, c.microbatch});
    if (c.work == Work::F) {
      if (c.stage > 0) visit(Cell{c.stage - 1, Work::F, c.microbatch});
      if (part > 0) visit(Cell{c.stage, Work::F, c.microbatch - 1});
      return;
    }
    visit(Cell{c.stage, Work::F, c.microbatch});
    if (c.stage + 1 < stages_) visit(backward(c.stage + 1, c.microbatch));
    if (part + 1 < parts_ && c.microbatch + 1 < microbatches_) visit(backward(c.stage, c.microbatch + 1));
  }

 private:
  std::int64_t stages_;
  std::int64_t microbatches_;
  std::int64_t parts_;
  std::vector<std::int32_t> rank_;  // by cell
};

/// Starts slots in the order of their needs: a rank goes on until a cell of its next slot waits for one that has not ended; then it sleeps
/// until that one ends. Calls `start(rank, slot)` for each slot that starts, after everything that it needs. Gives for each rank the slot
/// that it waits to start: all of them past the last where the table can run.
template <class Start>
std::vector<std::size_t> run_slots(const ScheduleTable& table, const ScheduleCells& cells, Start&& start) {
  std::vector<bool> done(cells.bound(), false);
  std::vector<std::vector<std::size_t>> sleepers(cells.bound());  // ranks, by the cell that they wait for
  std::vector<std::size_t> next(table.ranks.size(), 0);
  std::vector<std::size_t> awake;
  for (std::size_t rank = table.ranks.size(); rank-- > 0;) awake.push_back(rank);
  const auto missing = [&](const Slot& slot) -> std::size_t {
    std::size_t first = cells.bound();
    for (const Cell& cell : slot)
      cells.for_each_need(cell, [&](const Cell& need) {
        if (first == cells.bound() && !done[cells.index(need)]) first = cells.index(need);
      });
    return first;
  };
  while (!awake.empty()) {
    const std::size_t rank = awake.back();
    awake.pop_back();
    const std::vector<Slot>& slots = table.ranks[rank];
    while (next[rank] < slots.size()) {
      const Slot& slot = slots[next[rank]];
      if (const std::size_t need = missing(slot); need != cells.bound()) {
        sleepers[need].push_back(rank);
        break;
      }
      start(rank, next[rank]);
      ++next[rank];
      for (const Cell& cell : slot) {
        const std::size_t index = cells.index(cell);
        done[index] = true;
        awake.insert(awake.end(), sleepers[index].begin(), sleepers[index].end());
        sleepers[index].clear();
      }
    }
  }
  return next;
}

}  // namespace skirl
