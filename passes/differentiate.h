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

/// Turns a forward graph with losses into a training step: backward for inputs and weights apart, one flat `sum` a gradient where it has several
/// terms, clipping, updates, and the outputs (metric "grad_norm", gradients as the update reads them, updated parameters and states).
///
/// Shapes    unchanged; everything it adds is at home `@`.
/// Requires  a forward graph at home with at least one loss output; throws Error otherwise, and where a loss does not depend on any trainable parameter.
Graph differentiate(Graph graph, const OptimizerParams& params);

}  // namespace skirl
