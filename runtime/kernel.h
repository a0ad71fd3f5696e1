#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/attrs.h"
#include "ir/op.h"
#include "runtime/tensor.h"

namespace skirl {

/// One node on one device, as a kernel sees it: local tensors, contiguous and row-major. Sizes come from the views, never from `attrs`.
/// Results hold anything before, and overlap neither operands nor each other. All spans live as long as the call.
///
/// Empty tensors: a kernel is not called where all results are empty, nor where an operand is empty: what an operator makes of nothing (zeros;
/// row_max: −inf) is written by the executor, and concat gets the operands that hold something. (Kernels of the reference do take empty tensors.)
///
/// A loss (or loss_scale) of count 0 is 0. A row whose label is `ignore` counts nothing and has gradient 0. An index outside its global range is a
/// RunError ("index 300 is outside [0, 256)"), which the caller completes with the node.
struct KernelCall {
  Op op = Op::Fence;
  const Attrs* attrs = nullptr;
  std::span<const TensorView> operands;
  std::span<const TensorView> results;
  std::string_view name;                 // logical name of the node, with `seed` and `step` the key of random numbers
  std::uint64_t seed = 0;
  std::int64_t step = 1;                 // 1, 2, …
  std::span<const std::int64_t> origin;  // where this device's piece starts along each factor of the operator's rule (ir/rules.h: device_origin)
  const FactorRule* rule = nullptr;      // of the node, at its global types: tells which dimension `origin[f]` belongs to, and global sizes
  int threads = 1;                       // how many threads the kernel uses: a fact of the plan, since some products differ in bits between 1 and 2
};

/// The global index of the first element that the device holds of dimension `dim` of operand (result) `i`; needs `call.rule`.
inline std::int64_t origin_of(const KernelCall& call, const DimFactors& factors) {
  if (factors.empty()) return 0;
  std::int64_t at = call.origin[factors.front()];
  for (std::size_t f = 1; f < factors.size(); ++f) at *= call.rule->factors[factors[f]].size;
  return at;
}
inline std::int64_t operand_origin(const KernelCall& call, std::size_t i, std::size_t dim) {
  return origin_of(call, call.rule->operands[i][dim]);
}
inline std::int64_t result_origin(const KernelCall& call, std::size_t i, std::size_t dim) {
  return origin_of(call, call.rule->results[i][dim]);
}

/// Computes the results; may throw std::exception, which ends the step as a RunError.
using Kernel = void (*)(const KernelCall&);

/// The host's kernel of an operator that computes (is_compute, and no other); null for the rest. Safe to call from several threads at once.
Kernel cpu_kernel(Op op);

}  // namespace skirl
