#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/attrs.h"
#include "ir/op.h"
#include "ir/positions.h"
#include "runtime/tensor.h"

namespace skirl {

/// One node on one device, as a kernel sees it: local tensors, contiguous and row-major. Sizes come from the views, never from `attrs`.
/// Results hold anything before, and overlap neither operands nor each other. All spans live as long as the call.
///
/// Empty tensors: a kernel is not called where all results are empty, nor where an operand is empty: what an operator makes of nothing
/// (zeros; row_max: −inf) is written by the executor, and concat gets the operands that hold something; what has results that do not come
/// from the empty operand alone is called (takes_empty). (Kernels of the reference do take empty tensors.)
///
/// A loss (or loss_scale) of count 0 is 0. A row whose label is `ignore` counts nothing and has gradient 0. An index outside its global
/// range is a RunError ("index 300 is outside [0, 256)"), which the caller completes with the node.
struct KernelCall {
  Op op = Op::Fence;
  const Attrs* attrs = nullptr;
  std::span<const TensorView> operands;
  std::span<const TensorView> results;
  std::string_view name;  // logical name of the node, with `seed` and `step` the key of random numbers
  std::uint64_t seed = 0;
  std::int64_t step = 1;                     // 1, 2, …
  const NodePositions* positions = nullptr;  // of what depends_on_position: which part of the whole this device holds; null: from 0 on
  const FactorRule* rule = nullptr;          // of the node, at its global types
  int threads = 1;  // how many threads the kernel uses: a fact of the plan, since some products differ in bits between 1 and 2
};

/// Operators that make something of an empty operand that is no constant: their kernels take one.
inline bool takes_empty(Op op) {
  return op == Op::Concat || op == Op::Attention || op == Op::AttentionPiece || op == Op::AttentionMerge || op == Op::NormApply;
}

/// Along dimension `dim` of operand (result) `i`.
inline Positions operand_positions(const KernelCall& call, std::size_t i, std::size_t dim) {
  return call.positions ? Positions(std::span<const Interval>(call.positions->operands[i][dim])) : Positions(call.operands[i].shape[dim]);
}
inline Positions result_positions(const KernelCall& call, std::size_t i, std::size_t dim) {
  return call.positions ? Positions(std::span<const Interval>(call.positions->results[i][dim])) : Positions(call.results[i].shape[dim]);
}
/// Size of dimension `dim` of operand (result) `i` on all devices together; needs `call.rule`.
inline std::int64_t global_size(const FactorRule& rule, const DimFactors& factors) {
  std::int64_t size = 1;
  for (const std::uint16_t f : factors) size *= rule.factors[f].size;
  return size;
}
inline std::int64_t operand_size(const KernelCall& call, std::size_t i, std::size_t dim) {
  return global_size(*call.rule, call.rule->operands[i][dim]);
}
inline std::int64_t result_size(const KernelCall& call, std::size_t i, std::size_t dim) {
  return global_size(*call.rule, call.rule->results[i][dim]);
}

/// Computes the results; may throw std::exception, which ends the step as a RunError.
using Kernel = void (*)(const KernelCall&);

/// The host's kernel of an operator that computes (is_compute, and no other); null for the rest. Safe to call from several threads at once.
Kernel cpu_kernel(Op op);

}  // namespace skirl
