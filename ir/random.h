#pragma once

#include <cstdint>
#include <string_view>

/// Counter-based random numbers: what is drawn depends only on a logical name, a seed, a step and a global index, so every layout,
/// backend, process and recomputation draws the same.
///
///   key = random_key(name, seed, step);  for each coordinate, outermost first: key = fold(key, coordinate);  uniform(key)
namespace skirl {

/// FNV-1a of the text: equal in every process.
std::uint64_t hash_text(std::string_view text);

/// The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection whose output bits each depend on all input bits.
inline std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// Folds one coordinate (or seed, or step) into a key.
inline std::uint64_t fold(std::uint64_t key, std::int64_t coordinate) {
  return mix_bits(key ^ (static_cast<std::uint64_t>(coordinate) + 0x9E3779B97F4A7C15ull));
}

std::uint64_t random_key(std::string_view name, std::uint64_t seed, std::int64_t step);

/// In [0, 1), a multiple of 2^−53.
inline double uniform(std::uint64_t key) { return static_cast<double>(key >> 11) * 0x1.0p-53; }

/// Mean 0, variance 1 (Box–Muller).
double normal(std::uint64_t key);

}  // namespace skirl
