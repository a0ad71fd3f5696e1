#pragma once

#include <cstdint>

namespace skirl::cpu {

/// A matrix in memory: element (i, j) at data[i * row + j * column], where one of the two strides is 1 (or its size is).
template <class T>
struct Matrix {
  T* data;
  std::int64_t row;
  std::int64_t column;
};

/// c[m, n] = alpha · a[m, k] · b[k, n] + beta · c, where beta 0 does not read c. f32 by oneDNN, f64 by OpenBLAS, on `threads` threads. c
/// has column stride 1. Empty products are zero: neither library is called with an empty dimension (oneDNN 2.6 dies of 0 rows).
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Matrix<const float> a, Matrix<const float> b, float beta,
          Matrix<float> c, int threads);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, Matrix<const double> a, Matrix<const double> b, double beta,
          Matrix<double> c, int threads);

}  // namespace skirl::cpu
