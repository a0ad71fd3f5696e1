#pragma once

#include <string_view>

#include "strategies/schedule.h"

/// What the generators share.
namespace skirl {

/// What a schedule can be told besides ranks and microbatches.
struct ScheduleTakes {
  std::int64_t fewest_stages = 1;  // per rank
  std::int64_t most_stages = 1;
  std::int64_t stages = 1;  // where none are asked for
  bool group = false;
  bool sequence_parts = false;
  bool memory = false;
  bool times = false;
};
inline constexpr std::int64_t kAnyStages = 1 << 20;

/// Throws Error for sizes and settings that the schedule cannot take. Gives the stages per rank.
std::int64_t checked_stages_per_rank(std::string_view name, const ScheduleParams& params, const ScheduleTakes& takes = {});

/// A table without cells.
ScheduleTable empty_table(std::int64_t ranks, std::int64_t microbatches, Placement placement);

/// The table without the microbatches from `microbatches` on: what is left can run as it could before.
ScheduleTable first_microbatches(ScheduleTable table, std::int64_t microbatches);

}  // namespace skirl
