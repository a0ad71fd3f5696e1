#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/interner.h"

namespace skirl {

enum class DType : std::uint8_t { F64, F32, BF16, F16, I32, I64, Bool };

std::string_view name(DType dtype);                       // "f64", "bf16", …
std::optional<DType> dtype_named(std::string_view text);  // none if unknown
std::vector<std::string> dtype_names();
int size_bytes(DType dtype);
inline bool is_float(DType dtype) { return dtype <= DType::F16; }

using Shape = std::vector<std::int64_t>;

/// Elements of a shape; 1 for a scalar.
std::int64_t elems(const Shape& shape);

/// The global type of a value: what it is before anything is cut. Dims may be 0, never negative.
struct TensorType {
  DType dtype = DType::F32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};

std::string to_string(const TensorType& type);  // "f32[8,64]", "f64[]"

}  // namespace skirl

template <>
struct std::hash<skirl::TensorType> {
  std::size_t operator()(const skirl::TensorType& type) const noexcept {
    std::size_t h = static_cast<std::size_t>(type.dtype) + 1;
    for (const std::int64_t d : type.shape) h = skirl::hash_mix(h, static_cast<std::size_t>(d));
    return h;
  }
};
