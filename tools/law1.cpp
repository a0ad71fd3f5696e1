#include "tools/law1.h"

#include <cmath>

#include "ir/error.h"
#include "runtime/reference/interpreter.h"

namespace skirl {
namespace {

/// Gives again what a runner gave before.
class Replay : public StepRunner {
 public:
  explicit Replay(const std::vector<StepResult>& results) : results_(results) {}
  StepResult run(const TensorMap&, std::int64_t step) override { return results_.at(static_cast<std::size_t>(step - 1)); }
  TensorMap values() const override { return {}; }

 private:
  const std::vector<StepResult>& results_;
};

}  // namespace

Law1::Law1(const Graph& one_device, const Inputs& inputs, int steps, std::uint64_t seed) : seed_(seed) {
  Interpreter interpreter(one_device, seed);
  for (int step = 1; step <= steps; ++step) {
    inputs_.push_back(inputs(step));
    expected_.push_back(interpreter.run(inputs_.back(), step));
  }
}

void Law1::check_finite() const {
  for (std::size_t step = 0; step < expected_.size(); ++step)
    for (const bool losses : {true, false})  // a loss first: the rest follows from it
      for (const auto& [name, tensor] : expected_[step].outputs) {
        const bool is_loss = name.rfind("loss/", 0) == 0;
        if (is_loss != losses) continue;
        for (std::int64_t i = 0; i < tensor.elems(); ++i)
          if (!std::isfinite(tensor.get(i)))
            throw RunError("step " + std::to_string(step + 1) + ": " + (is_loss ? "the loss" : name) + " is not a finite number");
      }
}

Deviation Law1::of(StepRunner& runner) const {
  Replay expected(expected_);
  return compare_steps(
      expected, runner, [&](std::int64_t step) { return inputs_.at(static_cast<std::size_t>(step - 1)); },
      static_cast<int>(expected_.size()));
}

Deviation Law1::of(const Graph& graph) const {
  Interpreter interpreter(graph, seed_);
  return of(interpreter);
}

double law1_tolerance(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return 1e-10;
    case DType::F32:
      return 1e-3;  // AdamW divides rounding noise by itself where a gradient is 0 in exact arithmetic
    default:
      return 0.1;
  }
}

}  // namespace skirl
