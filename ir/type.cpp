#include "ir/type.h"

#include <array>

namespace skirl {
namespace {

struct DTypeRow {
  std::string_view name;
  int size_bytes;
};
constexpr std::array<DTypeRow, 7> kDTypes{
    {{"f64", 8}, {"f32", 4}, {"bf16", 2}, {"f16", 2}, {"i32", 4}, {"i64", 8}, {"bool", 1}}};

}  // namespace

std::string_view name(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_named(std::string_view text) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].name == text) return static_cast<DType>(i);
  return std::nullopt;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const DTypeRow& row : kDTypes) names.emplace_back(row.name);
  return names;
}

int size_bytes(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].size_bytes; }

std::int64_t elems(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

std::string to_string(const TensorType& type) {
  std::string text(name(type.dtype));
  text += '[';
  for (std::size_t i = 0; i < type.shape.size(); ++i) text += (i ? "," : "") + std::to_string(type.shape[i]);
  return text + ']';
}

}  // namespace skirl
