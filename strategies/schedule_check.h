#pragma once

#include <string_view>

#include "strategies/schedule.h"

namespace skirl {

/// Proves that a schedule can run, whatever the times: every stage and microbatch has F and B, or F, I and W, each once and on one rank;
/// and no rank ever waits in a circle. A slot starts when what its cells need has ended: F what the stage before sends, B and I the forward
/// of their own stage and what the stage behind sends, W its I. Sends block, so a cell that is never reached stops all that comes after it.
///
/// Errors    throws Error that names rank, column and cell; a deadlock is drawn as a grid with the stuck cells marked.
void check_schedule(const ScheduleTable& table, std::string_view name);

}  // namespace skirl
