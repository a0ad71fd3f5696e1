#pragma once

#include <string_view>

#include "strategies/schedule.h"

namespace skirl {

/// Proves that a schedule can run, whatever the times: every stage and microbatch has F and B, or F, I and W, each once and on the rank
/// that its placement says (without one, all cells of a stage and microbatch on one rank); and no rank ever waits in a circle. A slot
/// starts when what its cells need has ended: F what the stage before sends, B and I the forward of their own stage and what the stage
/// behind sends, W its I; parts of a sequence go in order, backwards the other way round. Both halves of a transfer are one event and a
/// send blocks, so a cell that is never reached stops all that comes after it.
///
/// Errors    throws Error that names rank, column and cell (both counted from 0); the place is a grid of ranks and columns with the cells
///           in question in brackets.
void check_schedule(const ScheduleTable& table, std::string_view name);

/// Throws Error if a stage lies on another rank than `wanted` says, naming schedule, stage and both ranks.
void check_placement(const Placement& placement, const Placement& wanted, std::string_view name);

}  // namespace skirl
