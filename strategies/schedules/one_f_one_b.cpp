#include <algorithm>

#include "strategies/schedule.h"

namespace skirl {

ScheduleTable one_f_one_b(const ScheduleParams& params) {
  ScheduleTable table{params.ranks, params.microbatches, {}};
  for (std::int64_t rank = 0; rank < params.ranks; ++rank) {
    auto& slots = table.ranks.emplace_back();
    std::int64_t forward = 0;
    const std::int64_t warm_up = std::min(params.ranks - 1 - rank, params.microbatches);
    while (forward < warm_up) slots.push_back({{rank, Work::F, forward++}});
    for (std::int64_t backward = 0; backward < params.microbatches; ++backward) {
      if (forward < params.microbatches) slots.push_back({{rank, Work::F, forward++}});
      slots.push_back({{rank, Work::B, backward}});
    }
  }
  return table;
}

}  // namespace skirl
