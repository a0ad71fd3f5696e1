#include "strategies/schedule_check.h"

#include <algorithm>

#include "ir/error.h"

namespace skirl {
namespace {

constexpr std::size_t kShownRanks = 8;
constexpr std::size_t kShownSlots = 12;

std::string slot_text(const std::vector<Cell>& slot) {
  std::string text;
  for (const Cell& cell : slot) text += (text.empty() ? "" : "+") + to_string(cell);
  return text;
}

class Checker {
 public:
  Checker(const ScheduleTable& table, std::string_view name)
      : t_(table),
        name_("schedule '" + std::string(name) + "': "),
        seen_(index_bound(), -1),
        done_(index_bound(), false),
        next_(table.ranks.size(), 0) {}

  void run() {
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank)
      for (std::size_t slot = 0; slot < t_.ranks[rank].size(); ++slot) enter(rank, slot);
    complete();
    simulate();
  }

 private:
  std::size_t index_bound() const { return static_cast<std::size_t>(t_.stages * t_.microbatches) * 4; }
  std::size_t index(const Cell& cell) const {
    return static_cast<std::size_t>(cell.stage * t_.microbatches + cell.microbatch) * 4 + static_cast<std::size_t>(cell.work);
  }
  bool has(std::int64_t stage, Work work, std::int64_t microbatch) const { return seen_[index({stage, work, microbatch})] >= 0; }

  [[noreturn]] void fail(const std::string& complaint) const { throw Error(name_ + complaint); }

  void enter(std::size_t rank, std::size_t slot) {
    const std::string place = "rank " + std::to_string(rank) + " column " + std::to_string(slot) + ": ";
    if (t_.ranks[rank][slot].empty()) fail(place + "the slot has no cell");
    for (const Cell& cell : t_.ranks[rank][slot]) {
      const bool inside = cell.stage >= 0 && cell.stage < t_.stages && cell.microbatch >= 0 && cell.microbatch < t_.microbatches;
      if (!inside)
        fail(place + to_string(cell) + " is outside " + std::to_string(t_.stages) + " stages and " + std::to_string(t_.microbatches) +
             " microbatches");
      if (seen_[index(cell)] >= 0) fail(place + to_string(cell) + " occurs twice, also on rank " + std::to_string(seen_[index(cell)]));
      seen_[index(cell)] = static_cast<std::int32_t>(rank);
    }
  }

  void complete() const {
    for (std::int64_t s = 0; s < t_.stages; ++s)
      for (std::int64_t m = 0; m < t_.microbatches; ++m) {
        std::string works;
        std::int32_t rank = -1;
        for (const Work work : {Work::F, Work::B, Work::I, Work::W}) {
          if (!has(s, work, m)) continue;
          works += "FBIW"[static_cast<std::size_t>(work)];
          const std::int32_t at = seen_[index({s, work, m})];
          if (rank >= 0 && at != rank)
            fail(to_string(Cell{s, work, m}) + " is on rank " + std::to_string(at) + ", the rest of stage " + std::to_string(s) +
                 " microbatch " + std::to_string(m) + " on rank " + std::to_string(rank));
          rank = at;
        }
        if (works != "FB" && works != "FIW")
          fail("stage " + std::to_string(s) + " microbatch " + std::to_string(m) + " has " + (works.empty() ? "nothing" : works) +
               ", expected F and B, or F, I and W");
      }
  }

  /// Cells that must have ended before this one starts.
  std::vector<Cell> needs(const Cell& c) const {
    std::vector<Cell> cells;
    if (c.work == Work::F && c.stage > 0) cells.push_back({c.stage - 1, Work::F, c.microbatch});
    if (c.work == Work::W) cells.push_back({c.stage, Work::I, c.microbatch});
    if (c.work == Work::B || c.work == Work::I) {
      cells.push_back({c.stage, Work::F, c.microbatch});
      if (c.stage + 1 < t_.stages)
        cells.push_back({c.stage + 1, has(c.stage + 1, Work::B, c.microbatch) ? Work::B : Work::I, c.microbatch});
    }
    return cells;
  }

  /// The first cell that the slot still waits for, as text; empty if it can start.
  std::string waits_for(const std::vector<Cell>& slot) const {
    for (const Cell& cell : slot)
      for (const Cell& need : needs(cell))
        if (!done_[index(need)]) return to_string(need);
    return "";
  }

  void simulate() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank) {
        const auto& slots = t_.ranks[rank];
        while (next_[rank] < slots.size() && waits_for(slots[next_[rank]]).empty()) {
          for (const Cell& cell : slots[next_[rank]]) done_[index(cell)] = true;
          ++next_[rank];
          moved = true;
        }
      }
    }
    std::string stuck;
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank) {
      if (next_[rank] == t_.ranks[rank].size() || ++count > kShownRanks) continue;
      const std::vector<Cell>& slot = t_.ranks[rank][next_[rank]];
      stuck += (stuck.empty() ? "rank " : "; rank ") + std::to_string(rank) + " column " + std::to_string(next_[rank]) + " at " +
               slot_text(slot) + " waits for " + waits_for(slot);
    }
    if (count > kShownRanks) stuck += "; and " + std::to_string(count - kShownRanks) + " more ranks";
    if (count > 0) throw Error(name_ + "deadlock: " + stuck, grid());
  }

  /// Ranks and slots around the stuck cells, which stand in brackets.
  std::string grid() const {
    std::string text;
    for (std::size_t rank = 0; rank < std::min(t_.ranks.size(), kShownRanks); ++rank) {
      const auto& slots = t_.ranks[rank];
      const std::size_t begin = next_[rank] > kShownSlots / 2 ? next_[rank] - kShownSlots / 2 : 0;
      text += (rank == 0 ? "rank " : "\n       rank ") + std::to_string(rank) + (begin > 0 ? "  …" : " ");
      for (std::size_t slot = begin; slot < std::min(slots.size(), begin + kShownSlots); ++slot)
        text += slot == next_[rank] ? " [" + slot_text(slots[slot]) + "]" : " " + slot_text(slots[slot]);
      if (begin + kShownSlots < slots.size()) text += " …";
    }
    return t_.ranks.size() > kShownRanks ? text + "\n       …" : text;
  }

  const ScheduleTable& t_;
  std::string name_;
  std::vector<std::int32_t> seen_;  // by cell: its rank, −1 not there
  std::vector<bool> done_;          // by cell
  std::vector<std::size_t> next_;   // by rank: the slot it waits to start
};

}  // namespace

void check_schedule(const ScheduleTable& table, std::string_view name) { Checker(table, name).run(); }

}  // namespace skirl
