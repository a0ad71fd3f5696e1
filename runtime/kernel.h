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
/// row_max: −inf) is written by the executor, and concat gets the operands that hold something.
struct KernelCall {
  Op op = Op::Fence;
  const Attrs* attrs = nullptr;
  std::span<const TensorView> operands;
  std::span<const TensorView> results;
  std::string_view name;                 // logical name of the node, with `seed` and `step` the key of random numbers
  std::uint64_t seed = 0;
  std::int64_t step = 1;                 // 1, 2, …
  std::span<const std::int64_t> origin;  // where this device's piece starts along each factor of the operator's rule (ir/rules.h: device_origin)
  int threads = 1;                       // how many threads the kernel uses: a fact of the plan, since some products differ in bits between 1 and 2
};

/// Computes the results; may throw std::exception, which ends the step as a RunError.
using Kernel = void (*)(const KernelCall&);

/// The host's kernel of an operator that computes (is_compute, and no other); null for the rest. Safe to call from several threads at once.
Kernel cpu_kernel(Op op);

}  // namespace skirl
