#include "strategies/schedule.h"

namespace skirl {

ScheduleTable gpipe(const ScheduleParams& params) {
  ScheduleTable table{params.ranks, params.microbatches, {}};
  for (std::int64_t rank = 0; rank < params.ranks; ++rank) {
    auto& slots = table.ranks.emplace_back();
    for (const Work work : {Work::F, Work::B})
      for (std::int64_t m = 0; m < params.microbatches; ++m) slots.push_back({{rank, work, m}});
  }
  return table;
}

}  // namespace skirl
