#pragma once

#include <string>

#include "strategies/registry.h"

namespace skirl {

/// The schedule of that name, or of the CSV file where the name ends in ".csv", made for these sizes and proved to run.
///
/// Errors    throws Error for an unknown name (nearest first), sizes that the schedule or the file does not have, settings that it does
///           not take, and as check_schedule does for a table of a plugin or file.
ScheduleTable schedule_named(const Registry& registry, const std::string& name, const ScheduleParams& params);

}  // namespace skirl
