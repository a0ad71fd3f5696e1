#include "runtime/tensor.h"

#include <bit>
#include <cmath>
#include <limits>

namespace skirl {
namespace {

/// `x` rounded to nearest even, to a float with `fraction_bits` and smallest normal 2^min_exponent; past `largest` it is infinite.
double round_to(double x, int fraction_bits, int min_exponent, double largest) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), min_exponent);
  const double unit = std::ldexp(1.0, exponent - fraction_bits);  // a power of two, so dividing by it is exact
  const double rounded = std::nearbyint(x / unit) * unit;
  return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

template <class Integer>
Integer to_integer(double x) {
  if (std::isnan(x)) return 0;
  const double low = static_cast<double>(std::numeric_limits<Integer>::min());
  if (x <= low) return std::numeric_limits<Integer>::min();
  if (x >= -low) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(std::nearbyint(x));
}

}  // namespace

std::uint16_t to_bf16(double x) {
  if (std::isnan(x)) return 0x7FC0;
  const float exact = static_cast<float>(round_to(x, 7, -126, 0x1.FEp127));
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(exact) >> 16);
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t to_f16(double x) {
  if (std::isnan(x)) return 0x7E00;
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double exact = std::abs(round_to(x, 10, -14, 65504));
  if (std::isinf(exact)) return sign | 0x7C00;
  if (exact < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<int>(exact * 0x1p24));  // subnormal: units of 2^−24
  const int exponent = std::ilogb(exact);
  const int fraction = static_cast<int>((std::ldexp(exact, -exponent) - 1) * 1024);
  return static_cast<std::uint16_t>(sign | ((exponent + 15) << 10) | fraction);
}

float from_f16(std::uint16_t bits) {
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  const int exponent = bits >> 10 & 0x1F;
  const int fraction = bits & 0x3FF;
  if (exponent == 0x1F) return fraction ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

double load_element(DType dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case DType::F64: return static_cast<const double*>(data)[i];
    case DType::F32: return static_cast<const float*>(data)[i];
    case DType::BF16: return from_bf16(static_cast<const std::uint16_t*>(data)[i]);
    case DType::F16: return from_f16(static_cast<const std::uint16_t*>(data)[i]);
    case DType::I32: return static_cast<const std::int32_t*>(data)[i];
    case DType::I64: return static_cast<double>(static_cast<const std::int64_t*>(data)[i]);
    case DType::Bool: return static_cast<const std::uint8_t*>(data)[i] != 0;
  }
  return 0;
}

void store_element(DType dtype, void* data, std::int64_t i, double value) {
  switch (dtype) {
    case DType::F64: static_cast<double*>(data)[i] = value; break;
    case DType::F32: static_cast<float*>(data)[i] = static_cast<float>(value); break;
    case DType::BF16: static_cast<std::uint16_t*>(data)[i] = to_bf16(value); break;
    case DType::F16: static_cast<std::uint16_t*>(data)[i] = to_f16(value); break;
    case DType::I32: static_cast<std::int32_t*>(data)[i] = to_integer<std::int32_t>(value); break;
    case DType::I64: static_cast<std::int64_t*>(data)[i] = to_integer<std::int64_t>(value); break;
    case DType::Bool: static_cast<std::uint8_t*>(data)[i] = value != 0; break;
  }
}

double rounded(DType dtype, double value) {
  switch (dtype) {
    case DType::F64: return value;
    case DType::F32: return static_cast<float>(value);
    case DType::BF16: return from_bf16(to_bf16(value));
    case DType::F16: return from_f16(to_f16(value));
    case DType::I32:
    case DType::I64: return std::nearbyint(value);
    case DType::Bool: return value != 0;
  }
  return value;
}

Tensor::Tensor(DType dtype, Shape shape) : type_{dtype, std::move(shape)} {
  bytes_.resize(static_cast<std::size_t>(elems()) * static_cast<std::size_t>(skirl::size_bytes(dtype)));
}

double Tensor::get(std::int64_t i) const { return load_element(type_.dtype, bytes_.data(), i); }

void Tensor::set(std::int64_t i, double value) { store_element(type_.dtype, bytes_.data(), i, value); }

}  // namespace skirl
