#pragma once

#include <vector>

#include "strategies/schedule.h"

namespace skirl {

/// What a table is to be found for. Every rank may hold `memory[rank]` activations: forwards of one stage and microbatch whose weights have
/// not been worked on.
struct ListProblem {
  Placement placement;
  std::int64_t microbatches = 1;
  ScheduleTimes times;               // of the stages, whatever ranks they are on: a slow rank has slow stages
  std::vector<std::int64_t> memory;  // by rank, at least the number of its stages
};

/// Finds a table with split backwards that is fast for these times and keeps to the memory: the fastest of those that greedy lists under
/// several rules of preference give, and of the fixed tables of this placement that fit. Graham, Bell System Technical Journal 45 (1966),
/// for list scheduling; what is preferred when follows Qi et al., arXiv:2401.10241 and 2405.15362. The same problem gives the same table.
///
/// Cost      a handful of passes over the cells: 64 stages × 512 microbatches take well under two seconds.
/// Errors    throws Error for a rank whose memory is below what one microbatch needs there, and for times that are no positive numbers.
ScheduleTable list_schedule(const ListProblem& problem);

}  // namespace skirl
