#include "strategies/schedules/generators.h"
#include "strategies/schedules/shape.h"

namespace skirl {

ScheduleTable gpipe(const ScheduleParams& params) {
  checked_stages_per_rank("gpipe", params);
  ScheduleTable table = empty_table(params.ranks, params.microbatches, loop_placement(params.ranks, 1));
  for (std::int64_t rank = 0; rank < params.ranks; ++rank)
    for (const Work work : {Work::F, Work::B})
      for (std::int64_t m = 0; m < params.microbatches; ++m) table.ranks[static_cast<std::size_t>(rank)].push_back({{rank, work, m}});
  return table;
}

}  // namespace skirl
