#include "runtime/cpu/kernels/operands.h"

#include <bit>

namespace skirl::cpu {
namespace {

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
/// Rounds to nearest even; a NaN stays one.
std::uint16_t to_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>(x != x ? (bits >> 16) | 0x40u : rounded);
}

/// Exact. A subnormal is its bits times 2^-24; the product below scales the exponent of all others.
float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7FFFu) << 13;
  const float scaled = std::bit_cast<float>(rest) * 0x1p112f;
  const std::uint32_t special = 0x7F800000u | rest;  // infinity and NaN
  const std::uint32_t magnitude = (bits & 0x7C00u) == 0x7C00u ? special : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(sign | magnitude);
}

/// Rounds to nearest even. Adding a power of two makes the hardware round at the last bit that an f16 of that magnitude has.
std::uint16_t to_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t half;
  if (magnitude >= 0x47800000u) {  // 65536 and above, infinity, NaN
    half = magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: subnormal
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
  } else {
    half = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

template <class T>
void load_as(DType dtype, const void* from, std::int64_t size, T* to) {
  switch (dtype) {
    case DType::F64:
      for (std::int64_t i = 0; i < size; ++i) to[i] = static_cast<T>(static_cast<const double*>(from)[i]);
      return;
    case DType::F32:
      for (std::int64_t i = 0; i < size; ++i) to[i] = static_cast<const float*>(from)[i];
      return;
    case DType::BF16:
      for (std::int64_t i = 0; i < size; ++i) to[i] = from_bf16(static_cast<const std::uint16_t*>(from)[i]);
      return;
    case DType::F16:
      for (std::int64_t i = 0; i < size; ++i) to[i] = from_f16(static_cast<const std::uint16_t*>(from)[i]);
      return;
    default:
      for (std::int64_t i = 0; i < size; ++i) to[i] = static_cast<T>(load_element(dtype, from, i));
  }
}

}  // namespace

void load(DType dtype, const void* from, std::int64_t size, float* to) { load_as(dtype, from, size, to); }
void load(DType dtype, const void* from, std::int64_t size, double* to) { load_as(dtype, from, size, to); }

void store(const float* from, std::int64_t size, DType dtype, void* to) {
  switch (dtype) {
    case DType::F64:
      for (std::int64_t i = 0; i < size; ++i) static_cast<double*>(to)[i] = from[i];
      return;
    case DType::F32:
      for (std::int64_t i = 0; i < size; ++i) static_cast<float*>(to)[i] = from[i];
      return;
    case DType::BF16:
      for (std::int64_t i = 0; i < size; ++i) static_cast<std::uint16_t*>(to)[i] = to_bf16(from[i]);
      return;
    case DType::F16:
      for (std::int64_t i = 0; i < size; ++i) static_cast<std::uint16_t*>(to)[i] = to_f16(from[i]);
      return;
    default:
      for (std::int64_t i = 0; i < size; ++i) store_element(dtype, to, i, from[i]);
  }
}

void store(const double* from, std::int64_t size, DType dtype, void* to) {
  switch (dtype) {
    case DType::F64:
      for (std::int64_t i = 0; i < size; ++i) static_cast<double*>(to)[i] = from[i];
      return;
    case DType::F32:
      for (std::int64_t i = 0; i < size; ++i) static_cast<float*>(to)[i] = static_cast<float>(from[i]);
      return;
    default:
      for (std::int64_t i = 0; i < size; ++i) store_element(dtype, to, i, from[i]);
  }
}

}  // namespace skirl::cpu
