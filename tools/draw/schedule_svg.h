#pragma once

#include <string>

#include "strategies/schedule_cost.h"

namespace skirl::draw {

/// A table over time as an SVG picture: a row a rank, a hue a stage, a shade a kind of work, microbatch numbers in the cells, both halves
/// of an overlapped pair one above the other in one frame, bubbles hatched; with a legend, a time axis and what the schedule costs. Numbers
/// of microbatches that enter at the last rank are underlined.
std::string schedule_svg(const ScheduleTable& table, const ScheduleCost& cost, const std::string& title);

}  // namespace skirl::draw
