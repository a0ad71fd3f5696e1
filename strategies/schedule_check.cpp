#include "strategies/schedule_check.h"

#include <algorithm>
#include <unordered_set>

#include "ir/error.h"
#include "strategies/schedule_cells.h"

namespace skirl {
namespace {

constexpr std::size_t kShownRanks = 8;
constexpr std::size_t kShownBefore = 5;  // slots before the marked one
constexpr std::size_t kShownBehind = 6;

class Checker {
 public:
  Checker(const ScheduleTable& table, std::string_view name) : t_(table), name_("schedule '" + std::string(name) + "': ") {}

  void run() const {
    every_cell_once_in_its_place();
    const ScheduleCells cells(t_);
    complete(cells);
    no_circle(cells);
  }

 private:
  std::string at(std::size_t rank, std::size_t slot) const {
    const std::size_t column = t_.columns.empty() ? slot : static_cast<std::size_t>(t_.columns[rank][slot]);
    return "rank " + std::to_string(rank) + " column " + std::to_string(column);
  }

  /// A complaint about one slot.
  [[noreturn]] void fail(std::size_t rank, std::size_t slot, const std::string& complaint) const {
    std::vector<std::size_t> marked(t_.ranks.size(), kUnmarked);
    marked[rank] = slot;
    throw Error(name_ + at(rank, slot) + ": " + complaint, grid(marked));
  }

  void every_cell_once_in_its_place() const {
    const bool placed = !t_.placement.rank.empty();
    if (placed && static_cast<std::int64_t>(t_.placement.rank.size()) != t_.stages)
      throw Error(name_ + "the placement has " + std::to_string(t_.placement.rank.size()) + " stages, the table " +
                  std::to_string(t_.stages));
    struct Hash {
      std::size_t operator()(const Cell& c) const {
        return (static_cast<std::size_t>(c.stage) * 1000003u + static_cast<std::size_t>(c.microbatch)) * 4u +
               static_cast<std::size_t>(c.work);
      }
    };
    std::unordered_set<Cell, Hash> seen;
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank)
      for (std::size_t slot = 0; slot < t_.ranks[rank].size(); ++slot) {
        if (t_.ranks[rank][slot].empty()) fail(rank, slot, "the slot has no cell");
        for (const Cell& cell : t_.ranks[rank][slot]) {
          const bool inside = cell.stage >= 0 && cell.stage < t_.stages && cell.microbatch >= 0 && cell.microbatch < t_.microbatches;
          if (!inside)
            fail(rank, slot,
                 to_string(cell) + " is outside " + std::to_string(t_.stages) + " stages and " + std::to_string(t_.microbatches) +
                     " microbatches");
          const std::int64_t home = placed ? t_.placement.rank_of(cell.stage, cell.microbatch) : static_cast<std::int64_t>(rank);
          if (home != static_cast<std::int64_t>(rank))
            fail(rank, slot,
                 to_string(cell) + " is on rank " + std::to_string(rank) + ", expected rank " + std::to_string(home) + ", where stage " +
                     std::to_string(cell.stage) + " is");
          if (!seen.insert(cell).second) fail(rank, slot, to_string(cell) + " occurs twice, also at " + first_place(cell));
        }
      }
    // So that a table of few cells and large numbers takes no memory for all that it lacks.
    if (static_cast<std::size_t>(t_.stages) * static_cast<std::size_t>(t_.microbatches) <= seen.size()) return;
    for (std::int64_t s = 0; s < t_.stages; ++s)
      for (std::int64_t m = 0; m < t_.microbatches; ++m)
        if (!seen.count({s, Work::F, m})) lacks(s, m, seen.count({s, Work::B, m}) + seen.count({s, Work::I, m}) > 0 ? "no F" : "nothing");
  }

  std::string first_place(const Cell& wanted) const {
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank)
      for (std::size_t slot = 0; slot < t_.ranks[rank].size(); ++slot)
        for (const Cell& cell : t_.ranks[rank][slot])
          if (cell == wanted) return at(rank, slot);
    return "";
  }

  [[noreturn]] void lacks(std::int64_t stage, std::int64_t microbatch, const std::string& has) const {
    throw Error(name_ + "stage " + std::to_string(stage) + " microbatch " + std::to_string(microbatch) + " has " + has +
                ", expected F and B, or F, I and W");
  }

  void complete(const ScheduleCells& cells) const {
    for (std::int64_t s = 0; s < t_.stages; ++s)
      for (std::int64_t m = 0; m < t_.microbatches; ++m) {
        std::string works;
        std::int64_t rank = -1;
        for (const Work work : {Work::F, Work::B, Work::I, Work::W}) {
          const Cell cell{s, work, m};
          if (!cells.has(cell)) continue;
          works += "FBIW"[static_cast<std::size_t>(work)];
          if (rank >= 0 && cells.rank(cell) != rank)
            throw Error(name_ + to_string(cell) + " is on rank " + std::to_string(cells.rank(cell)) + ", the rest of stage " +
                        std::to_string(s) + " microbatch " + std::to_string(m) + " on rank " + std::to_string(rank));
          rank = cells.rank(cell);
        }
        if (works != "FB" && works != "FIW") lacks(s, m, works.empty() ? "nothing" : works);
      }
  }

  void no_circle(const ScheduleCells& cells) const {
    std::vector<bool> done(cells.bound(), false);
    std::vector<std::size_t> next = run_slots(t_, cells, [&](std::size_t rank, std::size_t slot) {
      for (const Cell& cell : t_.ranks[rank][slot]) done[cells.index(cell)] = true;
    });
    std::string stuck;
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank) {
      if (next[rank] == t_.ranks[rank].size()) {
        next[rank] = kUnmarked;
        continue;
      }
      if (++count > kShownRanks) continue;
      const Slot& slot = t_.ranks[rank][next[rank]];
      stuck += (stuck.empty() ? "" : "; ") + at(rank, next[rank]) + " at " + to_string(slot) + " waits for ";
      std::string first;
      for (const Cell& cell : slot)
        cells.for_each_need(cell, [&](const Cell& need) {
          if (first.empty() && !done[cells.index(need)]) first = to_string(need);
        });
      stuck += first;
    }
    if (count == 0) return;
    if (count > kShownRanks) stuck += "; and " + std::to_string(count - kShownRanks) + " more ranks";
    throw Error(name_ + "deadlock: " + stuck, grid(next));
  }

  static constexpr std::size_t kUnmarked = static_cast<std::size_t>(-1);

  /// The slots around the marked one of each rank, which stand in brackets one below the other.
  std::string grid(const std::vector<std::size_t>& marked) const {
    struct Row {
      std::string label, before, mark, behind;
    };
    std::vector<Row> rows;
    std::size_t left_out = 0;
    for (std::size_t rank = 0; rank < t_.ranks.size(); ++rank) {
      if (marked[rank] == kUnmarked) continue;
      if (rows.size() == kShownRanks) {
        ++left_out;
        continue;
      }
      const std::vector<Slot>& slots = t_.ranks[rank];
      Row row{"rank " + std::to_string(rank), "", "[" + to_string(slots[marked[rank]]) + "]", ""};
      const std::size_t begin = marked[rank] > kShownBefore ? marked[rank] - kShownBefore : 0;
      const std::size_t end = std::min(slots.size(), marked[rank] + 1 + kShownBehind);
      if (begin > 0) row.before = "... ";
      for (std::size_t slot = begin; slot < marked[rank]; ++slot) row.before += to_string(slots[slot]) + " ";
      for (std::size_t slot = marked[rank] + 1; slot < end; ++slot) row.behind += " " + to_string(slots[slot]);
      if (end < slots.size()) row.behind += " ...";
      rows.push_back(std::move(row));
    }
    std::size_t label = 0, before = 0, mark = 0;
    for (const Row& row : rows) {
      label = std::max(label, row.label.size());
      before = std::max(before, row.before.size());
      mark = std::max(mark, row.mark.size());
    }
    std::string text;
    for (const Row& row : rows) {
      text += (text.empty() ? "" : "\n       ") + row.label + std::string(label - row.label.size() + 2 + before - row.before.size(), ' ');
      text += row.before + row.mark + std::string(row.behind.empty() ? 0 : mark - row.mark.size(), ' ') + row.behind;
    }
    return left_out > 0 ? text + "\n       and " + std::to_string(left_out) + " more ranks" : text;
  }

  const ScheduleTable& t_;
  std::string name_;
};

}  // namespace

void check_schedule(const ScheduleTable& table, std::string_view name) { Checker(table, name).run(); }

void check_placement(const Placement& placement, const Placement& wanted, std::string_view name) {
  const std::string who = "schedule '" + std::string(name) + "': ";
  if (placement.rank.size() != wanted.rank.size())
    throw Error(who + std::to_string(placement.rank.size()) + " stages, expected " + std::to_string(wanted.rank.size()));
  if (placement.two_ways() != wanted.two_ways())
    throw Error(who + "microbatches enter at " + (placement.two_ways() ? "both ends" : "rank 0 only") + ", expected " +
                (wanted.two_ways() ? "both ends" : "rank 0 only"));
  for (std::size_t s = 0; s < wanted.rank.size(); ++s) {
    if (placement.rank[s] != wanted.rank[s])
      throw Error(who + "stage " + std::to_string(s) + " is on rank " + std::to_string(placement.rank[s]) + ", expected rank " +
                  std::to_string(wanted.rank[s]));
    if (wanted.two_ways() && placement.reverse_rank[s] != wanted.reverse_rank[s])
      throw Error(who + "the second copy of stage " + std::to_string(s) + " is on rank " + std::to_string(placement.reverse_rank[s]) +
                  ", expected rank " + std::to_string(wanted.reverse_rank[s]));
  }
}

}  // namespace skirl
