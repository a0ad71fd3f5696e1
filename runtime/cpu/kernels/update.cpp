#include <algorithm>
#include <cmath>

#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/operands.h"

namespace skirl::cpu {

void sum_sq(const KernelCall& call) {
  with_compute_type(call.operands, [&]<class T>() {
    const In<T> g(call.operands[0]);
    const T* __restrict from = g.data();
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < g.size(); ++i) total += static_cast<double>(from[i]) * static_cast<double>(from[i]);
    store_element(call.results[0].dtype, call.results[0].data, 0, total);
  });
}

void clip_coef(const KernelCall& call) {
  const ClipAttrs& attrs = attrs_of<ClipAttrs>(call);
  const double norm = std::sqrt(scalar(call.operands[0]));
  store_element(call.results[0].dtype, call.results[0].data, 0, std::min(attrs.max_norm / (norm + attrs.eps), 1.0));
  store_element(call.results[1].dtype, call.results[1].data, 0, norm);
}

void sgd(const KernelCall& call) {
  const SgdAttrs& attrs = attrs_of<SgdAttrs>(call);
  with_compute_type(call.operands, [&]<class T>() {
    const T lr = static_cast<T>(attrs.lr), momentum = static_cast<T>(attrs.momentum), decay = static_cast<T>(attrs.weight_decay);
    const In<T> param(call.operands[0]), gradient(call.operands[1]);
    Out<T> result(call.results[0]);
    const T* __restrict p = param.data();
    const T* __restrict g = gradient.data();
    T* __restrict next = result.data();
    if (call.operands.size() == 2) {
      for (std::int64_t i = 0; i < result.size(); ++i) next[i] = p[i] - lr * (g[i] + decay * p[i]);
      return;
    }
    const In<T> velocity(call.operands[2]);
    Out<T> state(call.results[1]);
    const T* __restrict v = velocity.data();
    T* __restrict next_v = state.data();
    for (std::int64_t i = 0; i < result.size(); ++i) {
      next_v[i] = momentum * v[i] + g[i] + decay * p[i];
      next[i] = p[i] - lr * next_v[i];
    }
  });
}

void adamw(const KernelCall& call) {
  const AdamWAttrs& attrs = attrs_of<AdamWAttrs>(call);
  const double step = static_cast<double>(call.step);
  with_compute_type(call.operands, [&]<class T>() {
    const T lr = static_cast<T>(attrs.lr), eps = static_cast<T>(attrs.eps), decay = static_cast<T>(attrs.weight_decay);
    const T beta1 = static_cast<T>(attrs.beta1), beta2 = static_cast<T>(attrs.beta2);
    const T rest1 = static_cast<T>(1 - attrs.beta1), rest2 = static_cast<T>(1 - attrs.beta2);
    const T factor_m = static_cast<T>(1 / (1 - std::pow(attrs.beta1, step)));
    const T factor_v = static_cast<T>(1 / (1 - std::pow(attrs.beta2, step)));
    const In<T> param(call.operands[0]), gradient(call.operands[1]), first(call.operands[2]), second(call.operands[3]);
    Out<T> result(call.results[0]), result_m(call.results[1]), result_v(call.results[2]);
    const T* __restrict p = param.data();
    const T* __restrict g = gradient.data();
    const T* __restrict m = first.data();
    const T* __restrict v = second.data();
    T* __restrict next = result.data();
    T* __restrict next_m = result_m.data();
    T* __restrict next_v = result_v.data();
    for (std::int64_t i = 0; i < result.size(); ++i) {
      next_m[i] = beta1 * m[i] + rest1 * g[i];
      next_v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
      const T direction = next_m[i] * factor_m / (std::sqrt(next_v[i] * factor_v) + eps);
      next[i] = p[i] - lr * (direction + decay * p[i]);
    }
  });
}

}  // namespace skirl::cpu
