#pragma once

#include <functional>
#include <string>

#include "ir/graph.h"
#include "runtime/step.h"

namespace skirl {

/// Law 1: how far two ways of running a step are apart. Each figure is the largest difference of an element, over the largest magnitude of
/// its role (losses and metrics, gradients, parameters, each moment) in that step of the first.
struct Deviation {
  double losses = 0;
  double gradients = 0;
  double params = 0;
  double states = 0;
  double replicas = 0;  // copies of one value that are not equal, in the second
  std::string worst;    // "step 2, gradient/l0.w: 3.1e-05"
  double largest = 0;

  double max() const { return largest; }
};

/// Runs both `steps` steps on the same inputs, each going on from its own parameters. A tensor that only one of the two gives is an Error.
Deviation compare_steps(StepRunner& reference, StepRunner& other, const std::function<TensorMap(std::int64_t step)>& inputs, int steps);

/// Whether two graphs compute the same step: both interpreted on the same random inputs, losses, gradients, parameters and states compared.
bool same_step(const Graph& before, const Graph& after, double tolerance = 1e-10, int steps = 3);

}  // namespace skirl
