#include "passes/arena.h"

#include <algorithm>
#include <iterator>

namespace skirl {
namespace {

std::int64_t aligned(std::int64_t size) { return (size + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment; }

/// The newest access that `known` does not cover; 0 if it covers all.
std::uint32_t newest_unknown(std::span<const std::uint32_t> accesses, std::span<const std::uint32_t> known) {
  std::uint32_t newest = 0;
  for (std::size_t s = 0; s < accesses.size(); ++s)
    if (accesses[s] > known[s]) newest = std::max(newest, accesses[s]);
  return newest;
}

}  // namespace

void merge(std::span<std::uint32_t> front, std::span<const std::uint32_t> other) {
  for (std::size_t s = 0; s < front.size(); ++s) front[s] = std::max(front[s], other[s]);
}

std::int64_t Arena::allocate(std::int64_t size, std::span<const std::uint32_t> known, std::span<std::uint32_t> before) {
  if (size == 0) return 0;
  size = aligned(size);
  constexpr int kLookedAt = 32;
  auto chosen = free_.end();
  std::uint32_t chosen_age = 0;  // 0: no wait needed
  int looked_at = 0;
  for (auto fit = by_size_.lower_bound({size, 0}); fit != by_size_.end() && looked_at < kLookedAt; ++fit, ++looked_at) {
    const auto piece = free_.find(fit->second);
    const std::uint32_t age = newest_unknown(piece->second.accesses, known);
    if (chosen != free_.end() && age >= chosen_age) continue;
    chosen = piece;
    chosen_age = age;
    if (age == 0) break;
  }
  if (chosen != free_.end() && chosen_age == 0) return take(chosen, size, before);
  auto last = free_.end();
  if (!free_.empty() && std::prev(last)->first + std::prev(last)->second.size == end_) --last;
  const bool last_is_free = last != free_.end() && newest_unknown(last->second.accesses, known) == 0;
  if (last_is_free && last->second.size >= size) return take(last, size, before);  // it was not among those looked at
  const std::int64_t grown = (last_is_free ? last->first : end_) + size;
  if (grown <= budget_) return grow(last_is_free ? last : free_.end(), size, before);
  if (chosen != free_.end()) return take(chosen, size, before);
  return grow(last, size, before);
}

/// The start of a piece that is large enough.
std::int64_t Arena::take(Pieces::iterator piece, std::int64_t size, std::span<std::uint32_t> before) {
  const std::int64_t offset = piece->first;
  const std::int64_t rest = piece->second.size - size;
  Frontier accesses = piece->second.accesses;
  merge(before, accesses);
  remove(piece);
  if (rest > 0) insert(offset + size, {rest, std::move(accesses)});
  return offset;
}

/// The end of the arena, with its last piece if that is given.
std::int64_t Arena::grow(Pieces::iterator last, std::int64_t size, std::span<std::uint32_t> before) {
  std::int64_t offset = end_;
  if (last != free_.end()) {
    offset = last->first;
    merge(before, last->second.accesses);
    remove(last);
  }
  end_ = offset + size;
  return offset;
}

void Arena::release(std::int64_t offset, std::int64_t size, std::span<const std::uint32_t> accesses) {
  if (size == 0) return;
  Piece piece{aligned(size), Frontier(accesses.begin(), accesses.end())};
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second.size == offset) {
      offset = previous->first;
      piece.size += previous->second.size;
      merge(piece.accesses, previous->second.accesses);
      remove(previous);
    }
  }
  if (next != free_.end() && offset + piece.size == next->first) {
    piece.size += next->second.size;
    merge(piece.accesses, next->second.accesses);
    remove(next);
  }
  insert(offset, std::move(piece));
}

void Arena::insert(std::int64_t offset, Piece piece) {
  by_size_.emplace(piece.size, offset);
  free_.emplace(offset, std::move(piece));
}

void Arena::remove(Pieces::iterator piece) {
  by_size_.erase({piece->second.size, piece->first});
  free_.erase(piece);
}

}  // namespace skirl
