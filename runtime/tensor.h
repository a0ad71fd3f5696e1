#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/type.h"

namespace skirl {

/// A tensor somewhere in memory, contiguous and row-major; it owns nothing.
struct TensorView {
  DType dtype = DType::F32;
  Shape shape;
  void* data = nullptr;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

/// A tensor that owns its memory (zero at the start).
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape);

  const TensorType& type() const { return type_; }
  std::int64_t elems() const { return skirl::elems(type_.shape); }
  std::size_t size_bytes() const { return bytes_.size(); }
  std::byte* data() { return bytes_.data(); }
  const std::byte* data() const { return bytes_.data(); }
  TensorView view() { return {type_.dtype, type_.shape, bytes_.data()}; }

  /// Element i in row-major order as a double (integers and booleans too), and rounded to the dtype when set.
  double get(std::int64_t i) const;
  void set(std::int64_t i, double value);

 private:
  TensorType type_;
  std::vector<std::byte> bytes_;
};

using TensorMap = std::map<std::string, Tensor>;  // by logical name

/// Element i of raw memory of this dtype as a double; and stored, rounded to nearest even.
double load_element(DType dtype, const void* data, std::int64_t i);
void store_element(DType dtype, void* data, std::int64_t i, double value);
/// `value` as this dtype holds it.
double rounded(DType dtype, double value);

/// The 16-bit floats: rounded to nearest even in one step, overflow to infinity, any NaN to one quiet NaN.
std::uint16_t to_bf16(double x);
float from_bf16(std::uint16_t bits);
std::uint16_t to_f16(double x);
float from_f16(std::uint16_t bits);

}  // namespace skirl
