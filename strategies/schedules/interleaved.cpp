#include <algorithm>

#include "strategies/schedule_cells.h"
#include "strategies/schedules/generators.h"
#include "strategies/schedules/shape.h"

namespace skirl {
namespace {

ScheduleTakes several_stages() {
  ScheduleTakes takes;
  takes.most_stages = kAnyStages;
  takes.stages = 2;
  return takes;
}

/// Microbatches in rounds of equal size; the last may be smaller. In a round all of its microbatches go through the first stage of a rank,
/// then through the next; the backwards take the stages the other way round.
struct Rounds {
  std::int64_t ranks;
  std::int64_t stages_per_rank;
  std::int64_t microbatches;
  std::int64_t size;

  std::int64_t steps() const { return stages_per_rank * microbatches; }

  std::vector<Cell> cells(std::int64_t rank, Work work) const {
    std::vector<Cell> list;
    for (std::int64_t begin = 0; begin < microbatches; begin += size)
      for (std::int64_t k = 0; k < stages_per_rank; ++k) {
        const std::int64_t turn = work == Work::F ? k : stages_per_rank - 1 - k;
        for (std::int64_t m = begin; m < std::min(begin + size, microbatches); ++m) list.push_back({turn * ranks + rank, work, m});
      }
    return list;
  }
};

/// After a warm-up of forwards, one forward and one backward in turn. `lag` is how many backwards for inputs a weight stays behind; −1:
/// backwards are joined.
void one_forward_one_backward(const Rounds& rounds, std::int64_t rank, std::int64_t warm_up, std::int64_t lag, std::vector<Slot>& slots) {
  const std::vector<Cell> forwards = rounds.cells(rank, Work::F);
  const std::vector<Cell> backwards = rounds.cells(rank, lag < 0 ? Work::B : Work::I);
  const auto weight = [&](std::size_t i) { slots.push_back({{backwards[i].stage, Work::W, backwards[i].microbatch}}); };
  std::size_t forward = 0, weights = 0;
  while (forward < forwards.size() && static_cast<std::int64_t>(forward) < warm_up) slots.push_back({forwards[forward++]});
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    if (forward < forwards.size()) slots.push_back({forwards[forward++]});
    slots.push_back({backwards[i]});
    if (lag >= 0 && static_cast<std::int64_t>(i) >= lag) weight(weights++);
  }
  while (lag >= 0 && weights < backwards.size()) weight(weights++);
}

/// A round size of about p that divides the microbatches, so that every round is as long as the next; p where there is none.
std::int64_t round_size(const ScheduleParams& params) {
  const std::int64_t rounds = std::max<std::int64_t>(1, params.microbatches / params.ranks);
  return params.microbatches % rounds == 0 ? params.microbatches / rounds : params.ranks;
}

bool can_run(const ScheduleTable& table) {
  const std::vector<std::size_t> next = run_slots(table, ScheduleCells(table), [](std::size_t, std::size_t) {});
  for (std::size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] < table.ranks[rank].size()) return false;
  return true;
}

/// The microbatches rounded up to whole rounds; the surplus is struck out at the end, which keeps the turns of all ranks alike.
Rounds filled_rounds(const ScheduleParams& params, std::int64_t stages_per_rank, std::int64_t size) {
  return {params.ranks, stages_per_rank, (params.microbatches + size - 1) / size * size, size};
}

}  // namespace

ScheduleTable looped_bfs(const ScheduleParams& params) {
  const std::int64_t stages_per_rank = checked_stages_per_rank("looped_bfs", params, several_stages());
  ScheduleTable table = empty_table(params.ranks, params.microbatches, loop_placement(params.ranks, stages_per_rank));
  const Rounds rounds{params.ranks, stages_per_rank, params.microbatches, params.microbatches};
  for (std::int64_t rank = 0; rank < params.ranks; ++rank) {
    std::vector<Slot>& slots = table.ranks[static_cast<std::size_t>(rank)];
    std::vector<Cell> forwards = rounds.cells(rank, Work::F);
    for (const Cell& cell : forwards) slots.push_back({cell});
    for (auto cell = forwards.rbegin(); cell != forwards.rend(); ++cell) slots.push_back({{cell->stage, Work::B, cell->microbatch}});
  }
  return table;
}

ScheduleTable interleaved(const ScheduleParams& params) {
  const std::int64_t stages_per_rank = checked_stages_per_rank("interleaved", params, several_stages());
  const Rounds rounds = filled_rounds(params, stages_per_rank, round_size(params));
  ScheduleTable table = empty_table(params.ranks, rounds.microbatches, loop_placement(params.ranks, stages_per_rank));
  for (std::int64_t rank = 0; rank < params.ranks; ++rank)
    one_forward_one_backward(rounds, rank, (stages_per_rank - 1) * rounds.size + 2 * (params.ranks - 1 - rank), -1,
                             table.ranks[static_cast<std::size_t>(rank)]);
  return first_microbatches(std::move(table), params.microbatches);
}

ScheduleTable grouped_interleaved(const ScheduleParams& params) {
  ScheduleTakes takes = several_stages();
  takes.group = true;
  const std::int64_t stages_per_rank = checked_stages_per_rank("grouped", params, takes);
  const std::int64_t size = std::min(params.group.value_or(params.ranks), params.ranks);
  const Rounds rounds = filled_rounds(params, stages_per_rank, size);
  // Groups far smaller than the ranks need a longer warm-up: a rank would otherwise wait for a backward that waits for its next forward.
  for (std::int64_t more = 0;; ++more) {
    ScheduleTable table = empty_table(params.ranks, rounds.microbatches, loop_placement(params.ranks, stages_per_rank));
    for (std::int64_t rank = 0; rank < params.ranks; ++rank)
      one_forward_one_backward(rounds, rank, (stages_per_rank - 1) * size + params.ranks - 1 - rank + more * (params.ranks - rank), 0,
                               table.ranks[static_cast<std::size_t>(rank)]);
    table = first_microbatches(std::move(table), params.microbatches);
    if (can_run(table)) return table;
  }
}

ScheduleTable interleaved_zero_bubble(const ScheduleParams& params) {
  const std::int64_t stages_per_rank = checked_stages_per_rank("interleaved_zb", params, several_stages());
  const Rounds rounds = filled_rounds(params, stages_per_rank, round_size(params));
  ScheduleTable table = empty_table(params.ranks, rounds.microbatches, loop_placement(params.ranks, stages_per_rank));
  for (std::int64_t rank = 0; rank < params.ranks; ++rank)
    one_forward_one_backward(rounds, rank, (stages_per_rank - 1) * rounds.size + params.ranks - 1 - rank, rank,
                             table.ranks[static_cast<std::size_t>(rank)]);
  return first_microbatches(std::move(table), params.microbatches);
}

ScheduleTable zb1p(const ScheduleParams& params) {
  checked_stages_per_rank("zb1p", params);
  const Rounds rounds{params.ranks, 1, params.microbatches, params.microbatches};
  ScheduleTable table = empty_table(params.ranks, params.microbatches, loop_placement(params.ranks, 1));
  for (std::int64_t rank = 0; rank < params.ranks; ++rank)
    one_forward_one_backward(rounds, rank, params.ranks - 1 - rank, rank, table.ranks[static_cast<std::size_t>(rank)]);
  return table;
}

}  // namespace skirl
