#include "tools/draw/schedule_colours.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace skirl::draw {
namespace {

constexpr double kFirstHue = 262, kLastHue = 45;  // degrees
constexpr double kChroma = 0.095;

std::uint8_t channel(double linear) {
  const double clipped = std::clamp(linear, 0.0, 1.0);
  const double encoded = clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * std::pow(clipped, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(255 * encoded));
}

/// OKLCH to sRGB, in which equal steps of lightness look equal for all hues. Ottosson, "A perceptual color space for image processing".
Colour from_lch(double lightness, double chroma, double hue_degrees) {
  const double hue = hue_degrees * std::numbers::pi / 180;
  const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  return {channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s), channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

double lightness(Work work) {
  switch (work) {
    case Work::F:
      return 0.90;
    case Work::I:
      return 0.78;
    case Work::W:
      return 0.66;
    case Work::B:
      return 0.72;
  }
  return 1;
}

}  // namespace

Colour cell_colour(std::int64_t stage, std::int64_t stages, Work work) {
  const double along = stages > 1 ? static_cast<double>(stage) / static_cast<double>(stages - 1) : 0;
  return from_lch(lightness(work), work == Work::F ? kChroma * 0.75 : kChroma, kFirstHue + along * (kLastHue - kFirstHue));
}

std::string hex(const Colour& colour) {
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", colour.red, colour.green, colour.blue);
  return text;
}

}  // namespace skirl::draw
