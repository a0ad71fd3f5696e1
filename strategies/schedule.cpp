#include "strategies/schedule.h"

#include "strategies/schedule_cells.h"
#include "strategies/schedules/generators.h"

namespace skirl {

std::string to_string(const Cell& cell) {
  return std::to_string(cell.stage) + "FBIW"[static_cast<std::size_t>(cell.work)] + std::to_string(cell.microbatch);
}

std::string to_string(const Slot& slot) {
  std::string text;
  for (const Cell& cell : slot) text += (text.empty() ? "" : "+") + to_string(cell);
  return text;
}

const StageTimes& ScheduleTimes::of(std::int64_t stage) const {
  static const StageTimes kUnit;
  return stages.empty() ? kUnit : stages[static_cast<std::size_t>(stage)];
}

Placement loop_placement(std::int64_t ranks, std::int64_t stages_per_rank) {
  Placement placement;
  for (std::int64_t s = 0; s < ranks * stages_per_rank; ++s) placement.rank.push_back(s % ranks);
  return placement;
}

Placement v_placement(std::int64_t ranks, std::int64_t stages_per_rank) {
  Placement placement;
  for (std::int64_t s = 0; s < ranks * stages_per_rank; ++s)
    placement.rank.push_back((s / ranks) % 2 == 0 ? s % ranks : ranks - 1 - s % ranks);
  return placement;
}

Placement two_way_placement(std::int64_t ranks, std::int64_t reverse_from) {
  Placement placement = loop_placement(ranks, 1);
  placement.reverse_rank.assign(placement.rank.rbegin(), placement.rank.rend());
  placement.reverse_from = reverse_from;
  return placement;
}

std::vector<ScheduleInfo> schedule_table() {
  return {
      {"gpipe", "all forwards, then all backwards; holds the activations of every microbatch", gpipe},
      {"1f1b", "one forward, one backward after a warm-up; holds at most as many activations as there are ranks", one_f_one_b},
      {"looped_bfs", "several stages a rank; all microbatches go through one stage before the next", looped_bfs},
      {"interleaved", "1f1b over several stages a rank: a smaller bubble, more activations", interleaved},
      {"grouped", "interleaved in groups of microbatches (--group, at most the ranks), which hold fewer activations", grouped_interleaved},
      {"zb1p", "backwards split, so that weights fill bubbles, at the memory of 1f1b", zb1p},
      {"zbh1", "the same with as few split backwards as it needs", zbh1},
      {"zb2p", "zero bubble at twice the memory of 1f1b", zb2p},
      {"interleaved_zb", "interleaved with split backwards", interleaved_zero_bubble},
      {"zbv", "two stages a rank in a V: zero bubble at the memory of 1f1b", zbv},
      {"vhalf", "a V at about half the memory of 1f1b", vhalf},
      {"vmin", "a V at about a third of the memory of 1f1b", vmin},
      {"dualpipe", "microbatches enter at both ends; forwards and backwards overlap; two copies of the parameters", dualpipe},
      {"dualpipev", "dualpipe cut in half: two stages a rank in a V", dualpipev},
      {"seq1f1b", "1f1b over parts of sequences (--sequence-parts, 2)", seq1f1b},
      {"list", "found for given times of the stages (--times) and memory (--activations)", list_table}};
}

ScheduleCells::ScheduleCells(const ScheduleTable& table)
    : stages_(table.stages),
      microbatches_(table.microbatches),
      parts_(table.sequence_parts),
      rank_(static_cast<std::size_t>(table.stages * table.microbatches) * 4, -1) {
  for (std::size_t rank = 0; rank < table.ranks.size(); ++rank)
    for (const Slot& slot : table.ranks[rank])
      for (const Cell& cell : slot) rank_[index(cell)] = static_cast<std::int32_t>(rank);
}

}  // namespace skirl
