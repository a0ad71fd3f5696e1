#pragma once

#include <vector>

#include "passes/pass.h"
#include "strategies/schedule.h"

namespace skirl {

/// The table as `order` directives, one a rank: groups of filters {PP, MB, PASS}.
std::vector<Directive> order_directives(const ScheduleTable& table);

}  // namespace skirl
