#include <cmath>

#include "runtime/reference/kernels.h"
#include "runtime/reference/operands.h"

namespace skirl::reference {
namespace {

/// Length of a row of operand 0 on all devices together.
double row_width(const KernelCall& call) { return static_cast<double>(operand_size(call, 0, call.operands[0].shape.size() - 1)); }

}  // namespace

void layer_norm(const KernelCall& call) {
  const std::int64_t h = last_dim(call.operands[0]);
  const double eps = attrs_of<NormAttrs>(call).eps;
  const Doubles x(call.operands[0]), gamma(call.operands[1]), beta(call.operands[2]);
  DoubleResult y(call.results[0]), mean(call.results[1]), rstd(call.results[2]);
  for (std::int64_t r = 0; r < rows(call.operands[0]); ++r) {
    const double* row = x.data() + r * h;
    double total = 0;
    for (std::int64_t i = 0; i < h; ++i) total += row[i];
    const double m = total / static_cast<double>(h);
    double square = 0;
    for (std::int64_t i = 0; i < h; ++i) square += (row[i] - m) * (row[i] - m);
    const double s = 1 / std::sqrt(square / static_cast<double>(h) + eps);
    for (std::int64_t i = 0; i < h; ++i) y[r * h + i] = (row[i] - m) * s * gamma[i] + beta[i];
    mean[r] = m;
    rstd[r] = s;
  }
}

void layer_norm_bi(const KernelCall& call) {
  const std::int64_t h = last_dim(call.operands[0]);
  const Doubles dy(call.operands[0]), x(call.operands[1]), gamma(call.operands[2]), mean(call.operands[3]), rstd(call.operands[4]);
  DoubleResult dx(call.results[0]);
  for (std::int64_t r = 0; r < rows(call.operands[0]); ++r) {
    const double* g = dy.data() + r * h;
    const double* row = x.data() + r * h;
    double sum = 0;    // of gamma·dy
    double along = 0;  // of gamma·dy·normalised
    for (std::int64_t i = 0; i < h; ++i) {
      sum += gamma[i] * g[i];
      along += gamma[i] * g[i] * (row[i] - mean[r]) * rstd[r];
    }
    for (std::int64_t i = 0; i < h; ++i)
      dx[r * h + i] = rstd[r] * (gamma[i] * g[i] - (sum + (row[i] - mean[r]) * rstd[r] * along) / static_cast<double>(h));
  }
}

void layer_norm_bw(const KernelCall& call) {
  const std::int64_t h = last_dim(call.operands[0]);
  const Doubles dy(call.operands[0]), x(call.operands[1]), mean(call.operands[2]), rstd(call.operands[3]);
  DoubleResult dgamma(call.results[0]), dbeta(call.results[1]);
  for (std::int64_t r = 0; r < rows(call.operands[0]); ++r)
    for (std::int64_t i = 0; i < h; ++i) {
      dgamma[i] += dy[r * h + i] * (x[r * h + i] - mean[r]) * rstd[r];
      dbeta[i] += dy[r * h + i];
    }
}

void rms_norm(const KernelCall& call) {
  const std::int64_t h = last_dim(call.operands[0]);
  const double eps = attrs_of<NormAttrs>(call).eps;
  const Doubles x(call.operands[0]), gamma(call.operands[1]);
  DoubleResult y(call.results[0]), rstd(call.results[1]);
  for (std::int64_t r = 0; r < rows(call.operands[0]); ++r) {
    const double* row = x.data() + r * h;
    double square = 0;
    for (std::int64_t i = 0; i < h; ++i) square += row[i] * row[i];
    const double s = 1 / std::sqrt(square / static_cast<double>(h) + eps);
    for (std::int64_t i = 0; i < h; ++i) y[r * h + i] = row[i] * s * gamma[i];
    rstd[r] = s;
  }
}

void rms_norm_bi(const KernelCall& call) {
  const std::int64_t h = last_dim(call.operands[0]);
  const Doubles dy(call.operands[0]), x(call.operands[1]), gamma(call.operands[2]), rstd(call.operands[3]);
  DoubleResult dx(call.results[0]);
  for (std::int64_t r = 0; r < rows(call.operands[0]); ++r) {
    const double* g = dy.data() + r * h;
    const double* row = x.data() + r * h;
    double along = 0;
    for (std::int64_t i = 0; i < h; ++i) along += gamma[i] * g[i] * row[i] * rstd[r];
    for (std::int64_t i = 0; i < h; ++i) dx[r * h + i] = rstd[r] * (gamma[i] * g[i] - row[i] * rstd[r] * along / static_cast<double>(h));
  }
}

void row_sum(const KernelCall& call) {
  const std::int64_t h = last_dim(call.operands[0]);
  const Doubles x(call.operands[0]);
  DoubleResult total(call.results[0]);
  for (std::int64_t r = 0; r < total.size(); ++r)
    for (std::int64_t i = 0; i < h; ++i) total[r] += x[r * h + i];
}

void row_sum_sq(const KernelCall& call) {
  const std::int64_t h = last_dim(call.operands[0]);
  const double width = row_width(call);
  const Doubles x(call.operands[0]);
  DoubleResult total(call.results[0]);
  for (std::int64_t r = 0; r < total.size(); ++r) {
    const double mean = call.operands.size() > 1 ? load_element(call.operands[1].dtype, call.operands[1].data, r) / width : 0;
    for (std::int64_t i = 0; i < h; ++i) total[r] += (x[r * h + i] - mean) * (x[r * h + i] - mean);
  }
}

void norm_apply(const KernelCall& call) {
  const bool layer = call.operands.size() == 5;
  const std::int64_t h = last_dim(call.operands[0]);
  const double eps = attrs_of<NormAttrs>(call).eps;
  const double width = row_width(call);
  const Doubles x(call.operands[0]), gamma(call.operands[1]), square(call.operands.back());
  DoubleResult y(call.results[0]), rstd(call.results.back());
  for (std::int64_t r = 0; r < rstd.size(); ++r) rstd[r] = 1 / std::sqrt(square[r] / width + eps);
  if (!layer) {
    for (std::int64_t r = 0; r < rstd.size(); ++r)
      for (std::int64_t i = 0; i < h; ++i) y[r * h + i] = x[r * h + i] * rstd[r] * gamma[i];
    return;
  }
  const Doubles beta(call.operands[2]), sum(call.operands[3]);
  DoubleResult mean(call.results[1]);
  for (std::int64_t r = 0; r < rstd.size(); ++r) {
    mean[r] = sum[r] / width;
    for (std::int64_t i = 0; i < h; ++i) y[r * h + i] = (x[r * h + i] - mean[r]) * rstd[r] * gamma[i] + beta[i];
  }
}

void norm_dots(const KernelCall& call) {
  const bool layer = call.operands.size() == 5;
  const std::int64_t h = last_dim(call.operands[0]);
  const Doubles dy(call.operands[0]), x(call.operands[1]), gamma(call.operands[2]), mean(call.operands[3]), rstd(call.operands.back());
  DoubleResult along(call.results[0]);
  for (std::int64_t r = 0; r < along.size(); ++r)
    for (std::int64_t i = 0; i < h; ++i) along[r] += gamma[i] * dy[r * h + i] * (x[r * h + i] - (layer ? mean[r] : 0)) * rstd[r];
  if (!layer) return;
  DoubleResult sum(call.results[1]);
  for (std::int64_t r = 0; r < sum.size(); ++r)
    for (std::int64_t i = 0; i < h; ++i) sum[r] += gamma[i] * dy[r * h + i];
}

void norm_bi_apply(const KernelCall& call) {
  const bool layer = call.operands.size() == 7;
  const std::int64_t h = last_dim(call.operands[0]);
  const double width = row_width(call);
  const Doubles dy(call.operands[0]), x(call.operands[1]), gamma(call.operands[2]), mean(call.operands[3]);
  const Doubles rstd(call.operands[layer ? 4 : 3]), along(call.operands[layer ? 5 : 4]), sum(call.operands.back());
  DoubleResult dx(call.results[0]);
  for (std::int64_t r = 0; r < rstd.size(); ++r)
    for (std::int64_t i = 0; i < h; ++i) {
      const double normal = (x[r * h + i] - (layer ? mean[r] : 0)) * rstd[r];
      dx[r * h + i] = rstd[r] * (gamma[i] * dy[r * h + i] - ((layer ? sum[r] : 0) + normal * along[r]) / width);
    }
}

void rms_norm_bw(const KernelCall& call) {
  const std::int64_t h = last_dim(call.operands[0]);
  const Doubles dy(call.operands[0]), x(call.operands[1]), rstd(call.operands[2]);
  DoubleResult dgamma(call.results[0]);
  for (std::int64_t r = 0; r < rows(call.operands[0]); ++r)
    for (std::int64_t i = 0; i < h; ++i) dgamma[i] += dy[r * h + i] * x[r * h + i] * rstd[r];
}

}  // namespace skirl::reference
