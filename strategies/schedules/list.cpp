#include "strategies/list_scheduler.h"

#include "ir/error.h"
#include "strategies/schedules/generators.h"
#include "strategies/schedules/shape.h"

namespace skirl {

ScheduleTable list_table(const ScheduleParams& params) {
  ScheduleTakes takes;
  takes.most_stages = kAnyStages;
  takes.memory = takes.times = true;
  const std::int64_t stages_per_rank = checked_stages_per_rank("list", params, takes);
  const std::int64_t memory = params.memory.value_or(params.ranks * stages_per_rank);
  const ScheduleTimes times = params.times.value_or(ScheduleTimes{});
  return list_schedule({loop_placement(params.ranks, stages_per_rank), params.microbatches, times,
                        std::vector<std::int64_t>(static_cast<std::size_t>(params.ranks), memory)});
}

}  // namespace skirl
