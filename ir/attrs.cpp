#include "ir/attrs.h"

#include <cmath>
#include <numbers>

namespace skirl {
namespace {

struct FieldHash {
  std::size_t operator()(bool v) const { return v ? 3u : 5u; }
  std::size_t operator()(std::int64_t v) const { return std::hash<std::int64_t>{}(v); }
  std::size_t operator()(double v) const { return std::hash<double>{}(v); }
  std::size_t operator()(const std::string& v) const { return std::hash<std::string>{}(v); }
  std::size_t operator()(DType v) const { return static_cast<std::size_t>(v) + 11; }
  template <class T>
  std::size_t operator()(const std::optional<T>& v) const {
    return v ? hash_mix(1, (*this)(*v)) : 0;
  }
  std::size_t operator()(const std::vector<std::int64_t>& v) const {
    std::size_t h = v.size();
    for (const std::int64_t e : v) h = hash_mix(h, (*this)(e));
    return h;
  }
  std::size_t operator()(const IntervalTable& v) const {
    std::size_t h = v.size();
    for (const std::vector<Interval>& own : v) {
      h = hash_mix(h, own.size());
      for (const Interval& i : own) h = hash_mix(hash_mix(h, (*this)(i.begin)), (*this)(i.end));
    }
    return h;
  }
};

}  // namespace

double rope_speed(const RopeAttrs& attrs, std::int64_t pair, std::int64_t pairs) {
  const double speed = std::pow(attrs.base, -static_cast<double>(pair) / static_cast<double>(pairs));
  if (!attrs.factor) return speed;
  const double turns = static_cast<double>(*attrs.original) * speed / (2 * std::numbers::pi);
  const double kept = turns < *attrs.low ? 0 : turns > *attrs.high ? 1 : (turns - *attrs.low) / (*attrs.high - *attrs.low);
  return (1 - kept) * speed / *attrs.factor + kept * speed;
}

std::size_t hash_attrs(const Attrs& attrs) {
  std::size_t h = attrs.index();
  for_each_field(attrs, [&](const char*, const auto& value) { h = hash_mix(h, FieldHash{}(value)); });
  return h;
}

}  // namespace skirl
