#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace skirl {

/// For each stream, one more than the position of an instruction; 0: none of that stream.
using Frontier = std::vector<std::uint32_t>;

/// front ← the later of both, stream by stream.
void merge(std::span<std::uint32_t> front, std::span<const std::uint32_t> other);

/// Places buffers at offsets of one arena while instructions are walked in order. Each free piece remembers who touched it last, so that
/// the next owner can wait for those of other streams. Such a wait keeps streams from overlapping, so of the pieces that fit the smallest
/// one that needs no wait is taken; if there is none the arena grows as long as it stays within `budget`; then the piece whose users are
/// longest gone is taken.
class Arena {
 public:
  static constexpr std::int64_t kAlignment = 64;

  explicit Arena(std::int64_t budget) : budget_(budget) {}
  /// Offset of `size` bytes for an instruction that starts when `known` has ended; merges into `before` the last accesses to the bytes.
  /// Size 0 is at 0 and takes nothing.
  std::int64_t allocate(std::int64_t size, std::span<const std::uint32_t> known, std::span<std::uint32_t> before);
  /// Gives back what `allocate` gave; `accesses` are the last ones on each stream.
  void release(std::int64_t offset, std::int64_t size, std::span<const std::uint32_t> accesses);
  /// The most that was in use: size of the arena.
  std::int64_t bytes() const { return end_; }

 private:
  struct Piece {
    std::int64_t size;
    Frontier accesses;
  };
  using Pieces = std::map<std::int64_t, Piece>;
  void insert(std::int64_t offset, Piece piece);
  void remove(Pieces::iterator piece);
  std::int64_t take(Pieces::iterator piece, std::int64_t size, std::span<std::uint32_t> before);
  std::int64_t grow(Pieces::iterator last, std::int64_t size, std::span<std::uint32_t> before);

  std::int64_t budget_;
  std::int64_t end_ = 0;
  Pieces free_;                                              // by offset; no two touch
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;  // (size, offset) of the same
};

}  // namespace skirl
