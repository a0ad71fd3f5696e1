#pragma once

#include <memory>
#include <vector>

#include "runtime/executor.h"
#include "runtime/step.h"

namespace skirl {

/// Runs a plan on a backend whose arenas are host memory: cuts inputs and initial values into the devices' pieces, runs the step, and puts
/// outputs together again. Where a backend has no memory nothing goes in and nothing comes out.
class PlanRunner : public StepRunner {
 public:
  /// The plan must outlive the runner. Initial values come from `seed`.
  PlanRunner(const Plan& plan, std::unique_ptr<Backend> backend, std::uint64_t seed, const ExecutorOptions& options = {});
  StepResult run(const TensorMap& inputs, std::int64_t step) override;
  TensorMap values() const override;

 private:
  /// A value on all devices of its mesh, and how it comes there from one global tensor and back.
  struct Spread {
    NodeId node;
    ValueId value;
    std::vector<TensorView> locals;         // by position on the mesh
    std::vector<std::vector<Move>> pieces;  // of each position: from the global tensor
    std::vector<Move> whole;                // from the locals
    bool replicated = false;
  };

  Spread spread(NodeId node, ValueId value, std::span<const std::pair<std::size_t, std::uint32_t>> buffers) const;
  void put(const Spread& spread, const Tensor& global) const;
  Tensor take(const Spread& spread) const;

  const Plan& plan_;
  std::unique_ptr<Backend> backend_;
  Executor executor_;
  bool real_ = false;
  std::vector<Spread> inputs_;
  std::vector<Spread> entries_;  // parameters and states
  std::vector<Spread> outputs_;
};

}  // namespace skirl
