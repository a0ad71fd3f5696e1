#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ir/error.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/math.h"
#include "runtime/cpu/kernels/operands.h"

namespace skirl::cpu {
namespace {

bool ignored(const KernelCall& call, std::int64_t label) {
  const std::optional<std::int64_t>& ignore = attrs_of<LabelAttrs>(call).ignore;
  return ignore && label == *ignore;
}

/// Indices along a dimension of which this device may hold a part.
struct Picker {
  std::int64_t global_size;
  Positions held;

  /// Local index, or −1 where another device holds it.
  std::int64_t local(std::int64_t index) const {
    if (index < 0 || index >= global_size)
      throw RunError("index " + std::to_string(index) + " is outside [0, " + std::to_string(global_size) + ")");
    return held.local(index);
  }
};

Picker along_operand(const KernelCall& call, std::size_t dim) { return {operand_size(call, 0, dim), operand_positions(call, 0, dim)}; }
Picker along_last(const KernelCall& call) { return along_operand(call, call.operands[0].shape.size() - 1); }

template <class T>
T largest(const T* row, std::int64_t size) {
  T most = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < size; ++i) most = row[i] > most ? row[i] : most;
  return most;
}

template <class T>
double total_of_exp(const T* row, std::int64_t size, T most) {
  double total = 0;
  constexpr std::int64_t kBlock = 1024;  // one block in T, the blocks in double
  for (std::int64_t begin = 0; begin < size; begin += kBlock) {
    const std::int64_t end = std::min(size, begin + kBlock);
    T part = 0;
#pragma omp simd reduction(+ : part)
    for (std::int64_t i = begin; i < end; ++i) part += fast_exp(row[i] - most);
    total += static_cast<double>(part);
  }
  return total;
}

double count_of(const KernelCall& call, std::size_t operand) {
  const LossAttrs& attrs = attrs_of<LossAttrs>(call);
  return attrs.count ? static_cast<double>(*attrs.count) : scalar(call.operands[operand]);
}

}  // namespace

void embedding(const KernelCall& call) {
  const std::int64_t h = last_dim(call.operands[0]);
  const Picker picker = along_operand(call, 0);
  const Indices ids(call.operands[1]);
  const std::int64_t row_bytes = h * size_bytes(call.results[0].dtype);
  const std::byte* table = call.operands[0].as<std::byte>();
  std::byte* to = call.results[0].as<std::byte>();
  for (std::int64_t r = 0; r < ids.size(); ++r) {
    const std::int64_t v = picker.local(ids[r]);
    if (v >= 0)
      std::copy_n(table + v * row_bytes, row_bytes, to + r * row_bytes);
    else
      std::fill_n(to + r * row_bytes, row_bytes, std::byte{0});
  }
}

void embedding_bw(const KernelCall& call) {
  const std::int64_t h = last_dim(call.results[0]);
  const Picker picker{result_size(call, 0, 0), result_positions(call, 0, 0)};
  const Indices ids(call.operands[1]);
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> dy(call.operands[0]);
    Out<T> dtable(call.results[0]);
    std::fill_n(dtable.data(), dtable.size(), T(0));
    for (std::int64_t r = 0; r < ids.size(); ++r) {
      const std::int64_t v = picker.local(ids[r]);
      if (v < 0) continue;
      const T* __restrict from = dy.data() + r * h;
      T* __restrict to = dtable.data() + v * h;
      for (std::int64_t i = 0; i < h; ++i) to[i] += from[i];
    }
  });
}

void softmax_xent(const KernelCall& call) {
  const std::int64_t v = last_dim(call.operands[0]);
  const Picker picker = along_last(call);
  const Indices labels(call.operands[1]);
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> logits(call.operands[0]);
    Out<T> lse(call.results[1]);
    double nll = 0;
    for (std::int64_t r = 0; r < labels.size(); ++r) {
      const T* row = logits.data() + r * v;
      const T most = largest(row, v);
      const double total = static_cast<double>(most) + std::log(total_of_exp(row, v, most));
      lse[r] = static_cast<T>(total);
      const std::int64_t label = labels[r];
      if (!ignored(call, label)) nll += total - static_cast<double>(row[picker.local(label)]);
    }
    store_element(call.results[0].dtype, call.results[0].data, 0, nll);
  });
}

void softmax_xent_bi(const KernelCall& call) {
  const std::int64_t v = last_dim(call.operands[0]);
  const Picker picker = along_last(call);
  const Indices labels(call.operands[1]);
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> logits(call.operands[0]), lse(call.operands[2]);
    const T scale = static_cast<T>(scalar(call.operands[3]));
    Out<T> dlogits(call.results[0]);
    for (std::int64_t r = 0; r < labels.size(); ++r) {
      const T* __restrict row = logits.data() + r * v;
      T* __restrict to = dlogits.data() + r * v;
      const std::int64_t label = labels[r];
      if (ignored(call, label)) {
        std::fill_n(to, v, T(0));
        continue;
      }
      const T total = lse[r];
      for (std::int64_t i = 0; i < v; ++i) to[i] = scale * fast_exp(row[i] - total);
      const std::int64_t at = picker.local(label);
      if (at >= 0) to[at] -= scale;
    }
  });
}

void count_valid(const KernelCall& call) {
  const Indices labels(call.operands[0]);
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < labels.size(); ++r) count += ignored(call, labels[r]) ? 0 : 1;
  store_element(call.results[0].dtype, call.results[0].data, 0, static_cast<double>(count));
}

void row_max(const KernelCall& call) {
  const std::int64_t v = last_dim(call.operands[0]);
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> x(call.operands[0]);
    Out<T> most(call.results[0]);
    for (std::int64_t r = 0; r < most.size(); ++r) most[r] = largest(x.data() + r * v, v);
  });
}

void sum_exp(const KernelCall& call) {
  const std::int64_t v = last_dim(call.operands[0]);
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> x(call.operands[0]), most(call.operands[1]);
    Out<T> total(call.results[0]);
    for (std::int64_t r = 0; r < total.size(); ++r) total[r] = static_cast<T>(total_of_exp(x.data() + r * v, v, most[r]));
  });
}

void pick(const KernelCall& call) {
  const std::int64_t v = last_dim(call.operands[0]);
  const Picker picker = along_last(call);
  const Indices labels(call.operands[1]);
  const TensorView& x = call.operands[0];
  const TensorView& picked = call.results[0];
  for (std::int64_t r = 0; r < labels.size(); ++r) {
    const std::int64_t label = labels[r];
    const std::int64_t at = ignored(call, label) ? -1 : picker.local(label);
    store_element(picked.dtype, picked.data, r, at < 0 ? 0 : load_element(x.dtype, x.data, r * v + at));
  }
}

void xent_merge(const KernelCall& call) {
  const Indices labels(call.operands[3]);
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> most(call.operands[0]), total(call.operands[1]), picked(call.operands[2]);
    Out<T> lse(call.results[1]);
    double nll = 0;
    for (std::int64_t r = 0; r < labels.size(); ++r) {
      const double value = static_cast<double>(most[r]) + std::log(static_cast<double>(total[r]));
      lse[r] = static_cast<T>(value);
      if (!ignored(call, labels[r])) nll += value - static_cast<double>(picked[r]);
    }
    store_element(call.results[0].dtype, call.results[0].data, 0, nll);
  });
}

void sq_error(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> x(call.operands[0]), y(call.operands[1]);
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
      total += difference * difference;
    }
    store_element(call.results[0].dtype, call.results[0].data, 0, total);
  });
}

void sq_error_bi(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const T scale = static_cast<T>(2 * scalar(call.operands[2]));
    const In<T> x(call.operands[0]), y(call.operands[1]);
    Out<T> dx(call.results[0]);
    for (std::int64_t i = 0; i < dx.size(); ++i) dx[i] = (x[i] - y[i]) * scale;
  });
}

void loss(const KernelCall& call) {
  const double count = count_of(call, 1);
  const double weighted = attrs_of<LossAttrs>(call).weight * scalar(call.operands[0]);
  store_element(call.results[0].dtype, call.results[0].data, 0, count == 0 ? 0 : weighted / count);
}

void loss_scale(const KernelCall& call) {
  const double count = count_of(call, 0);
  store_element(call.results[0].dtype, call.results[0].data, 0, count == 0 ? 0 : attrs_of<LossAttrs>(call).weight / count);
}

}  // namespace skirl::cpu
