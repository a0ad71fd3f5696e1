#include <algorithm>
#include <cmath>

#include "runtime/reference/kernels.h"
#include "runtime/reference/operands.h"

namespace skirl::reference {

void sum_sq(const KernelCall& call) {
  const Doubles g(call.operands[0]);
  DoubleResult total(call.results[0]);
  for (std::int64_t i = 0; i < g.size(); ++i) total[0] += g[i] * g[i];
}

void clip_coef(const KernelCall& call) {
  const ClipAttrs& attrs = attrs_of<ClipAttrs>(call);
  const Doubles total(call.operands[0]);
  DoubleResult coef(call.results[0]), norm(call.results[1]);
  norm[0] = std::sqrt(total[0]);
  coef[0] = std::min(attrs.max_norm / (norm[0] + attrs.eps), 1.0);
}

void sgd(const KernelCall& call) {
  const SgdAttrs& attrs = attrs_of<SgdAttrs>(call);
  const Doubles p(call.operands[0]), g(call.operands[1]);
  DoubleResult next(call.results[0]);
  if (call.operands.size() == 2) {
    for (std::int64_t i = 0; i < p.size(); ++i) next[i] = p[i] - attrs.lr * (g[i] + attrs.weight_decay * p[i]);
    return;
  }
  const Doubles velocity(call.operands[2]);
  DoubleResult next_velocity(call.results[1]);
  for (std::int64_t i = 0; i < p.size(); ++i) {
    next_velocity[i] = attrs.momentum * velocity[i] + g[i] + attrs.weight_decay * p[i];
    next[i] = p[i] - attrs.lr * next_velocity[i];
  }
}

void adamw(const KernelCall& call) {
  const AdamWAttrs& attrs = attrs_of<AdamWAttrs>(call);
  const Doubles p(call.operands[0]), g(call.operands[1]), m(call.operands[2]), v(call.operands[3]);
  DoubleResult next(call.results[0]), next_m(call.results[1]), next_v(call.results[2]);
  const double step = static_cast<double>(call.step);
  const double correction_m = 1 - std::pow(attrs.beta1, step);
  const double correction_v = 1 - std::pow(attrs.beta2, step);
  for (std::int64_t i = 0; i < p.size(); ++i) {
    next_m[i] = attrs.beta1 * m[i] + (1 - attrs.beta1) * g[i];
    next_v[i] = attrs.beta2 * v[i] + (1 - attrs.beta2) * g[i] * g[i];
    const double direction = next_m[i] / correction_m / (std::sqrt(next_v[i] / correction_v) + attrs.eps);
    next[i] = p[i] - attrs.lr * (direction + attrs.weight_decay * p[i]);
  }
}

}  // namespace skirl::reference
