#include <algorithm>
#include <cmath>

#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/operands.h"

namespace skirl::cpu {
namespace {

/// Length of a row of operand 0 on all devices together.
double row_width(const KernelCall& call) { return static_cast<double>(operand_size(call, 0, call.operands[0].shape.size() - 1)); }

}  // namespace

void layer_norm(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const std::int64_t h = last_dim(call.operands[0]);
    const double eps = attrs_of<NormAttrs>(call).eps;
    const In<T> x(call.operands[0]), gamma(call.operands[1]), beta(call.operands[2]);
    Out<T> y(call.results[0]), mean(call.results[1]), rstd(call.results[2]);
    const T* __restrict g = gamma.data();
    const T* __restrict b = beta.data();
    for (std::int64_t r = 0; r < rows(call.operands[0]); ++r) {
      const T* __restrict row = x.data() + r * h;
      T* __restrict to = y.data() + r * h;
      T total = 0;
#pragma omp simd reduction(+ : total)
      for (std::int64_t i = 0; i < h; ++i) total += row[i];
      const T m = total / static_cast<T>(h);
      T square = 0;
#pragma omp simd reduction(+ : square)
      for (std::int64_t i = 0; i < h; ++i) square += (row[i] - m) * (row[i] - m);
      const T s = static_cast<T>(1 / std::sqrt(static_cast<double>(square) / static_cast<double>(h) + eps));
      for (std::int64_t i = 0; i < h; ++i) to[i] = (row[i] - m) * s * g[i] + b[i];
      mean[r] = m;
      rstd[r] = s;
    }
  });
}

void layer_norm_bi(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const std::int64_t h = last_dim(call.operands[0]);
    const In<T> dy(call.operands[0]), x(call.operands[1]), gamma(call.operands[2]), mean(call.operands[3]), rstd(call.operands[4]);
    Out<T> dx(call.results[0]);
    const T* __restrict weight = gamma.data();
    for (std::int64_t r = 0; r < rows(call.operands[0]); ++r) {
      const T* __restrict g = dy.data() + r * h;
      const T* __restrict row = x.data() + r * h;
      T* __restrict to = dx.data() + r * h;
      const T m = mean[r], s = rstd[r];
      T sum = 0;    // of gamma·dy
      T along = 0;  // of gamma·dy·normalised
#pragma omp simd reduction(+ : sum, along)
      for (std::int64_t i = 0; i < h; ++i) {
        sum += weight[i] * g[i];
        along += weight[i] * g[i] * ((row[i] - m) * s);
      }
      const T a = sum / static_cast<T>(h), b = along / static_cast<T>(h);
      for (std::int64_t i = 0; i < h; ++i) to[i] = s * (weight[i] * g[i] - a - (row[i] - m) * s * b);
    }
  });
}

void layer_norm_bw(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const std::int64_t h = last_dim(call.operands[0]);
    const In<T> dy(call.operands[0]), x(call.operands[1]), mean(call.operands[2]), rstd(call.operands[3]);
    Scratch<double> sums(2 * h);
    std::fill_n(sums.data(), 2 * h, 0.0);
    double* __restrict dgamma = sums.data();
    double* __restrict dbeta = sums.data() + h;
    for (std::int64_t r = 0; r < rows(call.operands[0]); ++r) {
      const T* __restrict g = dy.data() + r * h;
      const T* __restrict row = x.data() + r * h;
      const T m = mean[r], s = rstd[r];
      for (std::int64_t i = 0; i < h; ++i) {
        dgamma[i] += g[i] * ((row[i] - m) * s);
        dbeta[i] += g[i];
      }
    }
    store(dgamma, h, call.results[0].dtype, call.results[0].data);
    store(dbeta, h, call.results[1].dtype, call.results[1].data);
  });
}

void rms_norm(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const std::int64_t h = last_dim(call.operands[0]);
    const double eps = attrs_of<NormAttrs>(call).eps;
    const In<T> x(call.operands[0]), gamma(call.operands[1]);
    Out<T> y(call.results[0]), rstd(call.results[1]);
    const T* __restrict g = gamma.data();
    for (std::int64_t r = 0; r < rows(call.operands[0]); ++r) {
      const T* __restrict row = x.data() + r * h;
      T* __restrict to = y.data() + r * h;
      T square = 0;
#pragma omp simd reduction(+ : square)
      for (std::int64_t i = 0; i < h; ++i) square += row[i] * row[i];
      const T s = static_cast<T>(1 / std::sqrt(static_cast<double>(square) / static_cast<double>(h) + eps));
      for (std::int64_t i = 0; i < h; ++i) to[i] = row[i] * s * g[i];
      rstd[r] = s;
    }
  });
}

void rms_norm_bi(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const std::int64_t h = last_dim(call.operands[0]);
    const In<T> dy(call.operands[0]), x(call.operands[1]), gamma(call.operands[2]), rstd(call.operands[3]);
    Out<T> dx(call.results[0]);
    const T* __restrict weight = gamma.data();
    for (std::int64_t r = 0; r < rows(call.operands[0]); ++r) {
      const T* __restrict g = dy.data() + r * h;
      const T* __restrict row = x.data() + r * h;
      T* __restrict to = dx.data() + r * h;
      const T s = rstd[r];
      T along = 0;
#pragma omp simd reduction(+ : along)
      for (std::int64_t i = 0; i < h; ++i) along += weight[i] * g[i] * (row[i] * s);
      const T a = along / static_cast<T>(h);
      for (std::int64_t i = 0; i < h; ++i) to[i] = s * (weight[i] * g[i] - row[i] * s * a);
    }
  });
}

void rms_norm_bw(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const std::int64_t h = last_dim(call.operands[0]);
    const In<T> dy(call.operands[0]), x(call.operands[1]), rstd(call.operands[2]);
    Scratch<double> sums(h);
    std::fill_n(sums.data(), h, 0.0);
    double* __restrict dgamma = sums.data();
    for (std::int64_t r = 0; r < rows(call.operands[0]); ++r) {
      const T* __restrict g = dy.data() + r * h;
      const T* __restrict row = x.data() + r * h;
      const T s = rstd[r];
      for (std::int64_t i = 0; i < h; ++i) dgamma[i] += g[i] * (row[i] * s);
    }
    store(dgamma, h, call.results[0].dtype, call.results[0].data);
  });
}

void row_sum(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const std::int64_t h = last_dim(call.operands[0]);
    const In<T> x(call.operands[0]);
    Out<T> totals(call.results[0]);
    for (std::int64_t r = 0; r < totals.size(); ++r) {
      const T* __restrict row = x.data() + r * h;
      T total = 0;
#pragma omp simd reduction(+ : total)
      for (std::int64_t i = 0; i < h; ++i) total += row[i];
      totals[r] = total;
    }
  });
}

void row_sum_sq(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const std::int64_t h = last_dim(call.operands[0]);
    const T width = static_cast<T>(row_width(call));
    const In<T> x(call.operands[0]), sums(call.operands.back());  // no second operand: not read
    const bool centred = call.operands.size() > 1;
    Out<T> totals(call.results[0]);
    for (std::int64_t r = 0; r < totals.size(); ++r) {
      const T* __restrict row = x.data() + r * h;
      const T m = centred ? sums[r] / width : T(0);
      T square = 0;
#pragma omp simd reduction(+ : square)
      for (std::int64_t i = 0; i < h; ++i) square += (row[i] - m) * (row[i] - m);
      totals[r] = square;
    }
  });
}

void norm_apply(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const bool layer = call.operands.size() == 5;
    const std::int64_t h = last_dim(call.operands[0]);
    const double eps = attrs_of<NormAttrs>(call).eps, width = row_width(call);
    const In<T> x(call.operands[0]), gamma(call.operands[1]), beta(call.operands[layer ? 2 : 1]), sum(call.operands[layer ? 3 : 2]),
        square(call.operands.back());
    Out<T> y(call.results[0]), mean(call.results[1]), rstd(call.results.back());
    const T* __restrict g = gamma.data();
    const T* __restrict b = beta.data();
    for (std::int64_t r = 0; r < rstd.size(); ++r) {
      const T* __restrict row = x.data() + r * h;
      T* __restrict to = y.data() + r * h;
      const T s = static_cast<T>(1 / std::sqrt(static_cast<double>(square[r]) / width + eps));
      if (layer) {
        const T m = sum[r] / static_cast<T>(width);
        for (std::int64_t i = 0; i < h; ++i) to[i] = (row[i] - m) * s * g[i] + b[i];
        mean[r] = m;
      } else {
        for (std::int64_t i = 0; i < h; ++i) to[i] = row[i] * s * g[i];
      }
      rstd[r] = s;
    }
  });
}

void norm_dots(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const bool layer = call.operands.size() == 5;
    const std::int64_t h = last_dim(call.operands[0]);
    const In<T> dy(call.operands[0]), x(call.operands[1]), gamma(call.operands[2]), mean(call.operands[3]), rstd(call.operands.back());
    Out<T> dots(call.results[0]), sums(call.results.back());
    const T* __restrict weight = gamma.data();
    for (std::int64_t r = 0; r < dots.size(); ++r) {
      const T* __restrict g = dy.data() + r * h;
      const T* __restrict row = x.data() + r * h;
      const T m = layer ? mean[r] : T(0), s = rstd[r];
      T sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
      for (std::int64_t i = 0; i < h; ++i) {
        sum += weight[i] * g[i];
        along += weight[i] * g[i] * ((row[i] - m) * s);
      }
      if (layer) sums[r] = sum;
      dots[r] = along;
    }
  });
}

void norm_bi_apply(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const bool layer = call.operands.size() == 7;
    const std::int64_t h = last_dim(call.operands[0]);
    const T width = static_cast<T>(row_width(call));
    const In<T> dy(call.operands[0]), x(call.operands[1]), gamma(call.operands[2]), mean(call.operands[3]);
    const In<T> rstd(call.operands[layer ? 4 : 3]), dots(call.operands[layer ? 5 : 4]), sums(call.operands.back());
    Out<T> dx(call.results[0]);
    const T* __restrict weight = gamma.data();
    for (std::int64_t r = 0; r < rstd.size(); ++r) {
      const T* __restrict g = dy.data() + r * h;
      const T* __restrict row = x.data() + r * h;
      T* __restrict to = dx.data() + r * h;
      const T m = layer ? mean[r] : T(0), s = rstd[r];
      const T a = layer ? sums[r] / width : T(0), b = dots[r] / width;
      for (std::int64_t i = 0; i < h; ++i) to[i] = s * (weight[i] * g[i] - a - (row[i] - m) * s * b);
    }
  });
}

}  // namespace skirl::cpu
