#pragma once

#include <cstddef>
#include <string>

#include "strategies/schedule_cost.h"

namespace skirl::draw {

struct ScheduleTextOptions {
  bool coloured = false;
  std::size_t width = 0;  // of a line, in characters; 0: one line a rank, however long
};

/// A table over time, a row a rank: "F3" is the forward of microbatch 3 ("0F3" where ranks have several stages), a cell that takes longer
/// is drawn out with dashes, and blanks are bubbles. Below it, the work of a step in numbers.
std::string schedule_text(const ScheduleTable& table, const ScheduleCost& cost, const ScheduleTextOptions& options);

}  // namespace skirl::draw
