#include "runtime/null/null_backend.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/backend.h"
#include "runtime/executor.h"
#include "runtime/plan_runner.h"

namespace skirl {
namespace {

class NullBackend : public Backend {
 public:
  explicit NullBackend(const Plan& plan) : plan_(plan) {}

  std::byte* memory(std::size_t, std::int64_t) override { return nullptr; }
  void kernel(const Call&, const KernelCall&) override {}
  void fill(const Call&, const TensorView&, double) override {}
  void move(const Call&, const Move&, std::span<const TensorView>, const TensorView&) override {}
  void started(const Call& call) override {
    open_[{call.device, call.position}] = calls_.size();
    calls_.push_back({plan_.devices[call.device].device, call.stream, call.position, call.node, time_++, 0});
  }
  void ended(const Call& call) override { calls_[open_.at({call.device, call.position})].ended = time_++; }

  const std::vector<NullCall>& calls() const { return calls_; }

 private:
  const Plan& plan_;
  std::vector<NullCall> calls_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::size_t> open_;
  std::int64_t time_ = 0;
};

}  // namespace

bool overlap(const NullCall& a, const NullCall& b) { return a.started < b.ended && b.started < a.ended; }

std::vector<NullCall> record(const Plan& plan) {
  NullBackend backend(plan);
  Executor executor(plan, backend, 0);
  executor.run(1);
  return backend.calls();
}

std::string to_string(const Plan& plan, const std::vector<NullCall>& calls) {
  std::string text;
  for (const NullCall& call : calls) {
    const DeviceProgram& program = plan.devices[static_cast<std::size_t>(
        std::find_if(plan.devices.begin(), plan.devices.end(), [&](const DeviceProgram& p) { return p.device == call.device; }) -
        plan.devices.begin())];
    text += "device " + std::to_string(call.device) + " " + plan.graph.stream_name(call.stream) + " " + std::to_string(call.position) +
            ": " + describe(plan.graph, call.node);
    const Instruction& instruction = program.instructions[call.position];
    for (std::uint32_t w = 0; w < instruction.wait_count; ++w)
      text += (w == 0 ? " after " : " ") + std::to_string(program.waits[instruction.first_wait + w]);
    text += "\n";
  }
  return text;
}

std::unique_ptr<StepRunner> make_null_runner(const Plan& plan) {
  return std::make_unique<PlanRunner>(plan, std::make_unique<NullBackend>(plan), 0);
}

}  // namespace skirl
