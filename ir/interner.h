#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <unordered_map>

namespace skirl {

/// Combines hashes; order matters.
inline std::size_t hash_mix(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9E3779B97F4A7C15ull + (seed << 12) + (seed >> 4));
}

/// Gives equal values one id, in order of first appearance. Values never move, so references stay good.
template <class T, class IdType, class Hash = std::hash<T>>
class Interner {
 public:
  Interner() = default;
  Interner(const Interner& other) : values_(other.values_) { index_all(); }
  Interner& operator=(const Interner& other) {
    values_ = other.values_;
    index_all();
    return *this;
  }
  Interner(Interner&&) = default;
  Interner& operator=(Interner&&) = default;

  IdType intern(const T& value) {
    if (const IdType known = find(value); known.valid()) return known;
    values_.push_back(value);
    const IdType id(values_.size() - 1);
    by_hash_.emplace(Hash{}(value), id);
    return id;
  }

  /// The id of `value`, or none.
  IdType find(const T& value) const {
    const auto [first, last] = by_hash_.equal_range(Hash{}(value));
    for (auto it = first; it != last; ++it)
      if (values_[it->second.index()] == value) return it->second;
    return IdType();
  }

  const T& operator[](IdType id) const { return values_[id.index()]; }
  std::size_t size() const { return values_.size(); }

 private:
  void index_all() {
    by_hash_.clear();
    for (std::size_t i = 0; i < values_.size(); ++i) by_hash_.emplace(Hash{}(values_[i]), IdType(i));
  }

  std::deque<T> values_;
  std::unordered_multimap<std::size_t, IdType> by_hash_;
};

}  // namespace skirl
