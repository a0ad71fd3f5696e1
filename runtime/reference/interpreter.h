#pragma once

#include <memory>

#include "runtime/step.h"

namespace skirl {

/// The oracle: runs a graph in any state (at home, half placed, cut, ordered or not) on simulated devices, one thread, plain loops. Every value is kept
/// as one local tensor a device; nodes run one by one in topological order; collectives move tiles between the local tensors. Arithmetic is done in double
/// and rounded to the result's dtype.
class Interpreter : public StepRunner {
 public:
  /// Initial values come from `seed`. Throws Error if the graph has a cycle.
  Interpreter(const Graph& graph, std::uint64_t seed);
  ~Interpreter() override;
  StepResult run(const TensorMap& inputs, std::int64_t step) override;
  TensorMap values() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skirl
