#pragma once

#include <cstdint>
#include <string>

#include "strategies/schedule.h"

namespace skirl::draw {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
};

/// A stage is a hue, from blue for the first to orange for the last; its work is a shade: forwards light, backwards for inputs darker,
/// weights darkest, joined backwards between. Dark text can be read on all of them.
Colour cell_colour(std::int64_t stage, std::int64_t stages, Work work);

std::string hex(const Colour& colour);  // "#a0c4ff"

}  // namespace skirl::draw
