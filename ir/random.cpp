#include "ir/random.h"

#include <cmath>
#include <numbers>

namespace skirl {

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = 0xCBF29CE484222325ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return h;
}

std::uint64_t random_key(std::string_view name, std::uint64_t seed, std::int64_t step) {
  return fold(fold(hash_text(name), static_cast<std::int64_t>(seed)), step);
}

double normal(std::uint64_t key) {
  const double u = 1 - uniform(fold(key, 0));  // in (0, 1], so that its logarithm is finite
  const double v = uniform(fold(key, 1));
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

}  // namespace skirl
