// The schedule of docs/schedules.md, and one that cannot run.
#include "strategies/plugin.h"

namespace {

skirl::ScheduleTable one_by_one(const skirl::ScheduleParams& params) {
  skirl::ScheduleTable table;
  table.stages = params.ranks;
  table.microbatches = params.microbatches;
  table.placement = skirl::loop_placement(params.ranks, 1);
  for (std::int64_t rank = 0; rank < params.ranks; ++rank) {
    auto& slots = table.ranks.emplace_back();
    for (std::int64_t m = 0; m < params.microbatches; ++m) {
      slots.push_back({{rank, skirl::Work::F, m}});
      slots.push_back({{rank, skirl::Work::B, m}});
    }
  }
  return table;
}

skirl::ScheduleTable stuck(const skirl::ScheduleParams& params) {
  skirl::ScheduleTable table = one_by_one(params);
  std::swap(table.ranks[0][0], table.ranks[0][1]);
  return table;
}

void add(skirl::Registry& registry) {
  registry.add(skirl::ScheduleInfo{"one_by_one", "one microbatch after another", one_by_one});
  registry.add(skirl::ScheduleInfo{"stuck", "a backward before its forward", stuck});
}

}  // namespace

SKIRL_PLUGIN(add)
