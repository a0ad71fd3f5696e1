#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ir/error.h"
#include "runtime/reference/kernels.h"
#include "runtime/reference/operands.h"

namespace skirl::reference {
namespace {

double scalar(const TensorView& view) { return load_element(view.dtype, view.data, 0); }

bool ignored(const KernelCall& call, double label) {
  const std::optional<std::int64_t>& ignore = attrs_of<LabelAttrs>(call).ignore;
  return ignore && label == static_cast<double>(*ignore);
}

/// Indices along a dimension of which this device may hold a part.
struct Picker {
  std::int64_t global_size;
  Positions held;

  /// Local index, or −1 where another device holds it.
  std::int64_t local(double index) const {
    const std::int64_t global = static_cast<std::int64_t>(index);
    if (global < 0 || global >= global_size)
      throw RunError("index " + std::to_string(global) + " is outside [0, " + std::to_string(global_size) + ")");
    return held.local(global);
  }
};

Picker along_operand(const KernelCall& call, std::size_t dim) { return {operand_size(call, 0, dim), operand_positions(call, 0, dim)}; }
Picker along_last(const KernelCall& call) { return along_operand(call, call.operands[0].shape.size() - 1); }

}  // namespace

void embedding(const KernelCall& call) {
  const std::int64_t h = last_dim(call.operands[0]);
  const Picker picker = along_operand(call, 0);
  const Doubles table(call.operands[0]), ids(call.operands[1]);
  DoubleResult y(call.results[0]);
  for (std::int64_t r = 0; r < ids.size(); ++r)
    if (const std::int64_t v = picker.local(ids[r]); v >= 0) std::copy_n(table.data() + v * h, h, y.data() + r * h);
}

void embedding_bw(const KernelCall& call) {
  const std::int64_t h = last_dim(call.results[0]);
  const Picker picker{result_size(call, 0, 0), result_positions(call, 0, 0)};
  const Doubles dy(call.operands[0]), ids(call.operands[1]);
  DoubleResult dtable(call.results[0]);
  for (std::int64_t r = 0; r < ids.size(); ++r)
    if (const std::int64_t v = picker.local(ids[r]); v >= 0)
      for (std::int64_t i = 0; i < h; ++i) dtable[v * h + i] += dy[r * h + i];
}

void softmax_xent(const KernelCall& call) {
  const std::int64_t v = last_dim(call.operands[0]);
  const Picker picker = along_last(call);
  const Doubles logits(call.operands[0]), labels(call.operands[1]);
  DoubleResult nll(call.results[0]), lse(call.results[1]);
  for (std::int64_t r = 0; r < labels.size(); ++r) {
    const double* row = logits.data() + r * v;
    const double most = *std::max_element(row, row + v);
    double total = 0;
    for (std::int64_t i = 0; i < v; ++i) total += std::exp(row[i] - most);
    lse[r] = most + std::log(total);
    if (!ignored(call, labels[r])) nll[0] += lse[r] - row[picker.local(labels[r])];
  }
}

void softmax_xent_bi(const KernelCall& call) {
  const std::int64_t v = last_dim(call.operands[0]);
  const Picker picker = along_last(call);
  const Doubles logits(call.operands[0]), labels(call.operands[1]), lse(call.operands[2]);
  const double scale = scalar(call.operands[3]);
  DoubleResult dlogits(call.results[0]);
  for (std::int64_t r = 0; r < labels.size(); ++r) {
    if (ignored(call, labels[r])) continue;
    for (std::int64_t i = 0; i < v; ++i) dlogits[r * v + i] = scale * std::exp(logits[r * v + i] - lse[r]);
    if (const std::int64_t label = picker.local(labels[r]); label >= 0) dlogits[r * v + label] -= scale;
  }
}

void count_valid(const KernelCall& call) {
  const Doubles labels(call.operands[0]);
  DoubleResult count(call.results[0]);
  for (std::int64_t r = 0; r < labels.size(); ++r) count[0] += ignored(call, labels[r]) ? 0 : 1;
}

void row_max(const KernelCall& call) {
  const std::int64_t v = last_dim(call.operands[0]);
  const Doubles x(call.operands[0]);
  DoubleResult most(call.results[0]);
  for (std::int64_t r = 0; r < most.size(); ++r) {
    most[r] = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < v; ++i) most[r] = std::max(most[r], x[r * v + i]);
  }
}

void sum_exp(const KernelCall& call) {
  const std::int64_t v = last_dim(call.operands[0]);
  const Doubles x(call.operands[0]), most(call.operands[1]);
  DoubleResult total(call.results[0]);
  for (std::int64_t r = 0; r < total.size(); ++r)
    for (std::int64_t i = 0; i < v; ++i) total[r] += std::exp(x[r * v + i] - most[r]);
}

void pick(const KernelCall& call) {
  const std::int64_t v = last_dim(call.operands[0]);
  const Picker picker = along_last(call);
  const Doubles x(call.operands[0]), labels(call.operands[1]);
  DoubleResult picked(call.results[0]);
  for (std::int64_t r = 0; r < labels.size(); ++r) {
    if (ignored(call, labels[r])) continue;
    if (const std::int64_t label = picker.local(labels[r]); label >= 0) picked[r] = x[r * v + label];
  }
}

void xent_merge(const KernelCall& call) {
  const Doubles most(call.operands[0]), total(call.operands[1]), picked(call.operands[2]), labels(call.operands[3]);
  DoubleResult nll(call.results[0]), lse(call.results[1]);
  for (std::int64_t r = 0; r < labels.size(); ++r) {
    lse[r] = most[r] + std::log(total[r]);
    if (!ignored(call, labels[r])) nll[0] += lse[r] - picked[r];
  }
}

void loss(const KernelCall& call) {
  const LossAttrs& attrs = attrs_of<LossAttrs>(call);
  const double count = attrs.count ? static_cast<double>(*attrs.count) : scalar(call.operands[1]);
  DoubleResult loss(call.results[0]);
  loss[0] = count == 0 ? 0 : attrs.weight * scalar(call.operands[0]) / count;
}

void loss_scale(const KernelCall& call) {
  const LossAttrs& attrs = attrs_of<LossAttrs>(call);
  const double count = attrs.count ? static_cast<double>(*attrs.count) : scalar(call.operands[0]);
  DoubleResult scale(call.results[0]);
  scale[0] = count == 0 ? 0 : attrs.weight / count;
}

}  // namespace skirl::reference
