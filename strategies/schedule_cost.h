#pragma once

#include <string>
#include <vector>

#include "strategies/schedule.h"

namespace skirl {

/// What a table costs when every cell takes its time: a rank works on its slots in order and starts one when what its cells need has
/// arrived. A pair starts when both halves can, and both end with it.
struct ScheduleCost {
  double makespan = 0;
  double bubble = 0;                            // makespan − work of the busiest rank
  double span_bubble = 0;                       // the longest (last end − first start − work) of a rank
  double bubble_fraction = 0;                   // idle share of all ranks
  std::vector<double> busy;                     // by rank
  std::vector<std::vector<double>> start, end;  // by rank and slot
  std::vector<std::int64_t> peak_activations;   // by rank: F done, and B or W not yet
};

/// Requires  check_schedule is content with the table; times.stages is empty or has an entry for each stage.
/// Errors    throws Error for a table that cannot run, naming the first slot that never starts.
ScheduleCost schedule_cost(const ScheduleTable& table, const ScheduleTimes& times = {});

/// The most activations that each rank holds, whatever the times.
std::vector<std::int64_t> peak_activations(const ScheduleTable& table);

/// No order of the cells is faster, whatever the memory: on each rank, the work and the transfers that its first forward waits for, then
/// all that it has to do.
double makespan_bound(const Placement& placement, std::int64_t microbatches, const ScheduleTimes& times);

}  // namespace skirl
