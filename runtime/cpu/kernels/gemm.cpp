#include "runtime/cpu/kernels/gemm.h"

#include <cblas.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.h>
#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>

namespace skirl::cpu {
namespace {

/// A matrix as the libraries want it: transposed or not, and the distance of its rows, which is at least their length.
struct Operand {
  bool transposed;
  std::int64_t stride;
};

template <class T>
Operand as_operand(const Matrix<const T>& matrix, std::int64_t rows, std::int64_t columns) {
  if (matrix.column == 1 || columns == 1) return {false, std::max(matrix.row, columns)};
  return {true, std::max(matrix.column, rows)};
}

/// True where there is something to multiply; else the result is set.
template <class T>
bool has_work(std::int64_t m, std::int64_t n, std::int64_t k, T beta, Matrix<T> c) {
  if (m > 0 && n > 0 && k > 0) return true;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) c.data[i * c.row + j] = beta == 0 ? 0 : beta * c.data[i * c.row + j];
  return false;
}

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Matrix<const float> a, Matrix<const float> b, float beta,
          Matrix<float> c, int threads) {
  if (!has_work(m, n, k, beta, c)) return;
  const Operand left = as_operand(a, m, k), right = as_operand(b, k, n);
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);  // a setting of the calling thread alone
  const dnnl_status_t status = dnnl_sgemm(left.transposed ? 'T' : 'N', right.transposed ? 'T' : 'N', m, n, k, alpha, a.data, left.stride,
                                          b.data, right.stride, beta, c.data, std::max(c.row, n));
  if (status != dnnl_success) throw std::runtime_error("dnnl_sgemm failed with status " + std::to_string(static_cast<int>(status)));
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, Matrix<const double> a, Matrix<const double> b, double beta,
          Matrix<double> c, int threads) {
  if (!has_work(m, n, k, beta, c)) return;
  const Operand left = as_operand(a, m, k), right = as_operand(b, k, n);
  static std::atomic<int> current{0};  // OpenBLAS has one number for the process; a plan has one too
  if (current.exchange(threads) != threads) openblas_set_num_threads(threads);
  cblas_dgemm(CblasRowMajor, left.transposed ? CblasTrans : CblasNoTrans, right.transposed ? CblasTrans : CblasNoTrans, static_cast<int>(m),
              static_cast<int>(n), static_cast<int>(k), alpha, a.data, static_cast<int>(left.stride), b.data,
              static_cast<int>(right.stride), beta, c.data, static_cast<int>(std::max(c.row, n)));
}

}  // namespace skirl::cpu
