#include <algorithm>

#include "strategies/schedules/generators.h"
#include "strategies/schedules/shape.h"

namespace skirl {
namespace {

/// 1F1B over `parts` pieces of each microbatch.
ScheduleTable alternate(const ScheduleParams& params, std::int64_t parts) {
  const std::int64_t cells = params.microbatches * parts;
  ScheduleTable table = empty_table(params.ranks, cells, loop_placement(params.ranks, 1));
  table.sequence_parts = parts;
  for (std::int64_t rank = 0; rank < params.ranks; ++rank) {
    std::vector<Slot>& slots = table.ranks[static_cast<std::size_t>(rank)];
    std::int64_t forward = 0;
    const std::int64_t warm_up = std::min(params.ranks - 1 - rank + parts - 1, cells);
    while (forward < warm_up) slots.push_back({{rank, Work::F, forward++}});
    for (std::int64_t backward = 0; backward < cells; ++backward) {
      if (forward < cells) slots.push_back({{rank, Work::F, forward++}});
      const std::int64_t microbatch = backward / parts, part = parts - 1 - backward % parts;
      slots.push_back({{rank, Work::B, microbatch * parts + part}});
    }
  }
  return table;
}

}  // namespace

ScheduleTable one_f_one_b(const ScheduleParams& params) {
  checked_stages_per_rank("1f1b", params);
  return alternate(params, 1);
}

ScheduleTable seq1f1b(const ScheduleParams& params) {
  ScheduleTakes takes;
  takes.sequence_parts = true;
  checked_stages_per_rank("seq1f1b", params, takes);
  return alternate(params, params.sequence_parts.value_or(2));
}

}  // namespace skirl
