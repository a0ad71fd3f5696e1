#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"
#include "passes/pass.h"

namespace skirl {

/// How parameters are updated. `optimizer` is "sgd", "adamw" or "none" (gradients only).
struct OptimizerParams {
  std::string optimizer = "adamw";
  double lr = 1e-3;
  double momentum = 0;  // sgd
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  std::optional<double> clip;  // global-norm clipping; none: no norm is computed
};

/// Turns a forward graph with losses into a training step: backward for inputs and weights apart, one flat `sum` a gradient where it has
/// several terms, clipping, updates, and the outputs (metric "grad_norm", gradients as the update reads them, updated parameters and states).
/// A frozen parameter has neither gradient nor update, and nor has one that no loss depends on.
///
/// Shapes    unchanged; everything it adds is at home `@`. Moments of half-width parameters are f32.
/// Requires  a forward graph at home whose loss outputs are results of `loss` nodes that nothing else reads.
/// Errors    throws Error otherwise, where there is no loss, where no loss depends on a trainable parameter, where a gradient would have to
///           pass an operator that has no derivative, and for an optimizer or a number that cannot be.
Graph differentiate(Graph graph, const OptimizerParams& params);

}  // namespace skirl
