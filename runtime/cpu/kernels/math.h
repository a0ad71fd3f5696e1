#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

/// exp and tanh that a compiler can vectorise: f32 by polynomials, f64 by the library.
namespace skirl::cpu {

/// Within 2 units in the last place; 0 below -87, infinite above 88. x = n ln 2 + r with |r| <= ln 2 / 2; the polynomial is that of
/// Cephes (Moshier, 1992).
inline float fast_exp(float x) {
  const float clamped = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
  const float magic = 0x1.8p23f;  // adding it rounds to an integer, which then is in the low bits
  const float shifted = clamped * 1.44269504f + magic;
  const float n = shifted - magic;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = (p * r * r + r) + 1.0f;
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;
  const float scaled = y * std::bit_cast<float>(power);
  return x < -87.0f ? 0.0f : (x > 88.0f ? std::numeric_limits<float>::infinity() : scaled);
}
inline double fast_exp(double x) { return std::exp(x); }

/// Within 2 units in the last place; by its own polynomial near zero, where 1 - 2/(exp(2x)+1) would cancel.
inline float fast_tanh(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near_zero = p * z * x + x;
  const float magnitude = x < 0 ? -x : x;
  const float far = 1.0f - 2.0f / (fast_exp(2.0f * magnitude) + 1.0f);
  const float signed_far = x < 0 ? -far : far;
  return magnitude < 0.625f ? near_zero : signed_far;
}
inline double fast_tanh(double x) { return std::tanh(x); }

template <class T>
T sigmoid(T x) {
  return T(1) / (T(1) + fast_exp(-x));
}

}  // namespace skirl::cpu
