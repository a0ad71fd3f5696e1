#pragma once

#include "tools/console.h"
#include "tools/options.h"

namespace skirl {

/// The commands of the program. Each gives the exit status: 0, or 1 where a check failed; throws Error for bad input and RunError for a
/// failure while running.
int cmd_run(const Options& options, Console& console);
int cmd_check(const Options& options, Console& console);
int cmd_dot(const Options& options, Console& console);
int cmd_plan(const Options& options, Console& console);
int cmd_show(const Options& options, Console& console);
int cmd_show_schedule(const Options& options, Console& console);
int cmd_list(const Options& options, Console& console);

}  // namespace skirl
