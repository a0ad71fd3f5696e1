#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "ir/op.h"

/// Random applications of each operator that computes: small, odd shapes.
namespace skirl::test {

using Random = std::mt19937;

std::int64_t whole(Random& random, std::int64_t low, std::int64_t high);

struct KernelCase {
  Op op;
  Attrs attrs = NoAttrs{};
  std::vector<TensorType> operands = {};
  std::int64_t range = 5;                  // integer operands lie in [0, range)
  std::vector<std::size_t> positive = {};  // operands that hold standard deviations, second moments, …
};

/// Operands of float type `dtype` for `op`, with dimensions from `least_dim` to 7. Fails the test for an operator that has no case.
KernelCase kernel_case(Op op, DType dtype, std::int64_t least_dim, Random& random);

}  // namespace skirl::test
