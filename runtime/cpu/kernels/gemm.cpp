#include "runtime/cpu/kernels/gemm.h"

#include <cblas.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.h>
#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>

#include "runtime/cpu/kernels/team.h"

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

/// Below this many multiplications one thread is faster than two.
constexpr std::int64_t kWorthParts = std::int64_t{1} << 18;

/// Calls product(first, last) for parts of the rows or, where there are more, of the columns of the result.
template <class T, class Product>
void in_parts(std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const T> a, Matrix<const T> b, Matrix<T> c, int threads,
              Product product) {
  if (threads <= 1 || m * n * k < kWorthParts) return product(m, n, a, b, c);
  const bool by_rows = m >= n;
  const std::int64_t size = by_rows ? m : n;
  const std::int64_t step = ((size + threads - 1) / threads + 15) / 16 * 16;  // whole tiles
  in_parallel(threads, [&](int part) {
    const std::int64_t first = std::min(size, part * step), length = std::min(size, first + step) - first;
    if (length == 0) return;
    if (by_rows)
      product(length, n, {a.data + first * a.row, a.row, a.column}, b, {c.data + first * c.row, c.row, 1});
    else
      product(m, length, a, {b.data + first * b.column, b.row, b.column}, {c.data + first, c.row, 1});
  });
}

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Matrix<const float> a, Matrix<const float> b, float beta,
          Matrix<float> c, int threads) {
  if (!has_work(m, n, k, beta, c)) return;
  in_parts(m, n, k, a, b, c, threads,
           [&](std::int64_t rows, std::int64_t columns, Matrix<const float> x, Matrix<const float> y, Matrix<float> z) {
             const Operand left = as_operand(x, rows, k), right = as_operand(y, k, columns);
             if (omp_get_max_threads() != 1) omp_set_num_threads(1);  // a setting of the calling thread alone
             const dnnl_status_t status = dnnl_sgemm(left.transposed ? 'T' : 'N', right.transposed ? 'T' : 'N', rows, columns, k, alpha,
                                                     x.data, left.stride, y.data, right.stride, beta, z.data, std::max(z.row, columns));
             if (status != dnnl_success)
               throw std::runtime_error("dnnl_sgemm failed with status " + std::to_string(static_cast<int>(status)));
           });
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, Matrix<const double> a, Matrix<const double> b, double beta,
          Matrix<double> c, int threads) {
  if (!has_work(m, n, k, beta, c)) return;
  static std::once_flag once;  // OpenBLAS has one number of threads for the process
  std::call_once(once, [] { openblas_set_num_threads(1); });
  in_parts(m, n, k, a, b, c, threads,
           [&](std::int64_t rows, std::int64_t columns, Matrix<const double> x, Matrix<const double> y, Matrix<double> z) {
             const Operand left = as_operand(x, rows, k), right = as_operand(y, k, columns);
             cblas_dgemm(CblasRowMajor, left.transposed ? CblasTrans : CblasNoTrans, right.transposed ? CblasTrans : CblasNoTrans,
                         static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(k), alpha, x.data,
                         static_cast<int>(left.stride), y.data, static_cast<int>(right.stride), beta, z.data,
                         static_cast<int>(std::max(z.row, columns)));
           });
}

}  // namespace skirl::cpu
