#include "strategies/schedule_source.h"

#include "ir/error.h"
#include "strategies/schedule_check.h"
#include "strategies/schedule_csv.h"

namespace skirl {
namespace {

void expect(const std::string& name, std::int64_t is, std::int64_t wanted, const char* what) {
  if (is != wanted)
    throw Error("schedule '" + name + "': it has " + std::to_string(is) + " " + what + ", asked for are " + std::to_string(wanted));
}

}  // namespace

ScheduleTable schedule_named(const Registry& registry, const std::string& name, const ScheduleParams& params) {
  if (!name.ends_with(".csv")) {
    const ScheduleInfo& schedule = registry.schedule(name);
    ScheduleTable table = schedule.make(params);
    check_schedule(table, name);
    expect(name, static_cast<std::int64_t>(table.ranks.size()), params.ranks, "ranks");
    expect(name, table.microbatches, params.microbatches * table.sequence_parts, "microbatches");
    return table;
  }
  if (params.group || params.sequence_parts || params.memory || params.times)
    throw Error("schedule '" + name + "': a file has settled group, sequence parts, memory and times", "", "leave them out");
  ScheduleTable table = read_schedule_csv(name);
  expect(name, static_cast<std::int64_t>(table.ranks.size()), params.ranks, "ranks");
  expect(name, table.microbatches, params.microbatches, "microbatches");
  if (params.stages_per_rank) expect(name, table.stages, params.ranks * *params.stages_per_rank, "stages");
  return table;
}

}  // namespace skirl
