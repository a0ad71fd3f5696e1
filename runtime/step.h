#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "ir/graph.h"
#include "runtime/tensor.h"

namespace skirl {

/// What leaves a step, as global tensors: "loss/mse", "metric/grad_norm", "gradient/l0.w", "param/l0.w", "state/l0.w.m" (kind, '/', name).
struct StepResult {
  TensorMap outputs;
  /// Largest disagreement between replicas of one output, relative to the largest magnitude of its kind; 0 unless something is wrong.
  double replica_deviation = 0;
};

/// Initial value of a parameter or state, keyed by (logical name, seed, global index), so equal under every layout and dtype (up to rounding).
Tensor initial_value(const Graph& graph, NodeId source, std::uint64_t seed);
/// Input values for a graph where no data is given: normal floats, uniform integers in [0, range); keyed by (name, seed, step).
TensorMap random_inputs(const Graph& graph, std::uint64_t seed, std::int64_t step);

/// Throws Error unless every input of the graph is there, whole and of its type.
void check_inputs(const Graph& graph, const TensorMap& inputs);

/// What magnitudes of an output of this key are measured against: its kind, and for a state which moment it is: "gradient", "state.m".
std::string output_role(const std::string& key);

/// Where one step after another is run: the interpreter of a graph, or a backend with a plan. Parameters and states stay inside between steps.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  /// Runs step number `step` (1, 2, …). Throws Error if an input is missing or has another type than the graph says; RunError if running fails.
  virtual StepResult run(const TensorMap& inputs, std::int64_t step) = 0;
  /// Parameters and states as they are now, by "param/NAME" and "state/NAME".
  virtual TensorMap values() const = 0;
};

}  // namespace skirl
