#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/graph.h"
#include "runtime/step.h"
#include "tools/testing.h"

namespace skirl {

/// Law 1: a graph computes the same steps as the untouched one-device graph. Runs the latter once, on `steps` batches.
class Law1 {
 public:
  using Inputs = std::function<TensorMap(std::int64_t step)>;
  Law1(const Graph& one_device, const Inputs& inputs, int steps, std::uint64_t seed);

  /// Throws RunError if what one device computes is not finite: nothing agrees with that.
  void check_finite() const;
  /// How far what `runner` computes is from what one device does, over all steps. Safe to call from several threads at once, as is the
  /// next.
  Deviation of(StepRunner& runner) const;
  /// The same for a graph in any state, on the reference interpreter.
  Deviation of(const Graph& graph) const;

 private:
  std::vector<TensorMap> inputs_;     // by step
  std::vector<StepResult> expected_;  // by step
  std::uint64_t seed_;
};

/// The largest deviation that law 1 allows where the model computes in this type: 1e-10 for f64; for the others what rounding may do.
double law1_tolerance(DType dtype);

}  // namespace skirl
