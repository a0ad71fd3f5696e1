#include "tests/support/law1.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/text.h"
#include "passes/lower.h"
#include "passes/manager.h"
#include "runtime/backends.h"
#include "runtime/reference/interpreter.h"
#include "strategies/compose.h"
#include "tools/testing.h"

namespace skirl::test {

std::string broken(const Case& c, const Registry& registry, double& worst) {
  constexpr double kTolerance = 1e-10;
  constexpr std::uint64_t kSeed = 7;
  std::string complaint;
  try {
    const Graph forward = parse(c.model, "model");
    const Graph one_device = differentiate(forward, c.optimizer);
    const auto inputs = [&](std::int64_t step) { return random_inputs(one_device, kSeed, step); };
    const auto deviates = [&](StepRunner& runner, const std::string& where) {
      Interpreter reference(one_device, kSeed);
      const Deviation deviation = compare_steps(reference, runner, inputs, c.steps);
      worst = std::max(worst, deviation.max());
      if (deviation.max() > kTolerance && complaint.empty()) complaint = where + ": " + deviation.worst;
    };
    ManagerOptions options;
    options.verify = c.verify;
    options.observer = [&](const PassReport& report) {
      if (report.index == 0 || !complaint.empty()) return;
      Interpreter runner(*report.graph, kSeed);
      deviates(runner, "after pass " + std::to_string(report.index) + " '" + report.name + "'");
    };
    const std::vector<Directive> directives = strategy_directives(c.strategy, signature_of(one_device), registry);
    Graph graph = run_passes(one_device, directives, registry.passes(), options);
    if (!complaint.empty()) return complaint;
    const Plan plan = lower(std::move(graph), {});
    for (const DeviceProgram& program : plan.devices)
      if (const std::string fault = data_fault(plan.graph, program); !fault.empty()) return "the plan: " + fault;
    deviates(*backend_named("cpu").make(plan, kSeed), "the plan on cpu");
  } catch (const std::exception& error) {
    return error.what();
  }
  return complaint;
}

}  // namespace skirl::test
