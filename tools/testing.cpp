#include "tools/testing.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "ir/error.h"
#include "runtime/reference/interpreter.h"

namespace skirl {
namespace {

double& figure_of(Deviation& deviation, const std::string& role) {
  if (role == "gradient") return deviation.gradients;
  if (role == "param") return deviation.params;
  if (role.rfind("state", 0) == 0) return deviation.states;
  return deviation.losses;
}

double largest_magnitude(const Tensor& tensor) {
  double largest = 0;
  for (std::int64_t i = 0; i < tensor.elems(); ++i) largest = std::max(largest, std::abs(tensor.get(i)));
  return largest;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.elems(); ++i) {
    const double difference = std::abs(a.get(i) - b.get(i));
    if (!(difference <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

void note(Deviation& deviation, double& figure, double value, const std::string& what, std::int64_t step) {
  figure = std::max(figure, value);
  if (value <= deviation.largest) return;
  deviation.largest = value;
  char number[32];
  std::snprintf(number, sizeof number, "%.2g", value);
  deviation.worst = "step " + std::to_string(step) + ", " + what + ": " + number;
}

void compare(Deviation& deviation, const StepResult& a, const StepResult& b, std::int64_t step) {
  std::map<std::string, double> magnitudes;
  for (const auto& [key, tensor] : a.outputs) {
    double& magnitude = magnitudes[output_role(key)];
    magnitude = std::max(magnitude, largest_magnitude(tensor));
  }
  for (const auto& [key, tensor] : a.outputs) {
    const auto other = b.outputs.find(key);
    if (other == b.outputs.end()) throw Error("the step does not give '" + key + "' any more");
    if (other->second.type() != tensor.type())
      throw Error("'" + key + "' is " + to_string(other->second.type()) + ", expected " + to_string(tensor.type()));
    const double difference = largest_difference(tensor, other->second);
    const double magnitude = magnitudes[output_role(key)];
    note(deviation, figure_of(deviation, output_role(key)), difference == 0 ? 0 : difference / magnitude, key, step);
  }
  for (const auto& [key, tensor] : b.outputs)
    if (a.outputs.count(key) == 0) throw Error("the step gives '" + key + "', which the reference does not");
  note(deviation, deviation.replicas, b.replica_deviation, "replicas", step);
}

}  // namespace

Deviation compare_steps(StepRunner& reference, StepRunner& other, const std::function<TensorMap(std::int64_t)>& inputs, int steps) {
  Deviation deviation;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const TensorMap given = inputs(step);
    const StepResult a = reference.run(given, step);
    compare(deviation, a, other.run(given, step), step);
  }
  return deviation;
}

bool same_step(const Graph& before, const Graph& after, double tolerance, int steps) {
  constexpr std::uint64_t kSeed = 1;
  Interpreter a(before, kSeed);
  Interpreter b(after, kSeed);
  return compare_steps(
             a, b, [&](std::int64_t step) { return random_inputs(before, kSeed, step); }, steps)
             .max() <= tolerance;
}

}  // namespace skirl
