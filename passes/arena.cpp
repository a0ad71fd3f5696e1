#include "passes/arena.h"

#include <algorithm>
#include <iterator>

namespace skirl {
namespace {

std::int64_t aligned(std::int64_t size) { return (size + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment; }

}  // namespace

void merge(std::span<std::uint32_t> front, std::span<const std::uint32_t> other) {
  for (std::size_t s = 0; s < front.size(); ++s) front[s] = std::max(front[s], other[s]);
}

std::int64_t Arena::allocate(std::int64_t size, std::span<std::uint32_t> before) {
  if (size == 0) return 0;
  size = aligned(size);
  if (const auto fit = by_size_.lower_bound({size, 0}); fit != by_size_.end()) {
    const std::int64_t offset = fit->second;
    const auto piece = free_.find(offset);
    const std::int64_t rest = piece->second.size - size;
    Frontier accesses = piece->second.accesses;
    merge(before, accesses);
    remove(piece);
    if (rest > 0) insert(offset + size, {rest, std::move(accesses)});
    return offset;
  }
  std::int64_t offset = end_;
  if (!free_.empty()) {  // the arena ends with a free piece that is too small: it grows
    const auto last = std::prev(free_.end());
    if (last->first + last->second.size == end_) {
      offset = last->first;
      merge(before, last->second.accesses);
      remove(last);
    }
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

Arena::Pieces::iterator Arena::insert(std::int64_t offset, Piece piece) {
  by_size_.emplace(piece.size, offset);
  return free_.emplace(offset, std::move(piece)).first;
}

void Arena::remove(Pieces::iterator piece) {
  by_size_.erase({piece->second.size, piece->first});
  free_.erase(piece);
}

}  // namespace skirl
