#include "ir/attrs.h"

namespace skirl {
namespace {

struct FieldHash {
  std::size_t operator()(bool v) const { return v ? 3u : 5u; }
  std::size_t operator()(std::int64_t v) const { return std::hash<std::int64_t>{}(v); }
  std::size_t operator()(double v) const { return std::hash<double>{}(v); }
  std::size_t operator()(const std::string& v) const { return std::hash<std::string>{}(v); }
  std::size_t operator()(DType v) const { return static_cast<std::size_t>(v) + 11; }
  std::size_t operator()(const std::optional<std::int64_t>& v) const { return v ? hash_mix(1, (*this)(*v)) : 0; }
  std::size_t operator()(const std::vector<std::int64_t>& v) const {
    std::size_t h = v.size();
    for (const std::int64_t e : v) h = hash_mix(h, (*this)(e));
    return h;
  }
};

}  // namespace

std::size_t hash_attrs(const Attrs& attrs) {
  std::size_t h = attrs.index();
  for_each_field(attrs, [&](const char*, const auto& value) { h = hash_mix(h, FieldHash{}(value)); });
  return h;
}

}  // namespace skirl
