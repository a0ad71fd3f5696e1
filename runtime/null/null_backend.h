#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "runtime/step.h"

namespace skirl {

/// An instruction as the null backend saw it. Work takes one round, and what is ready in a round runs in it at once; a collective or
/// transfer lasts from its arrival until its tensors are free.
struct NullCall {
  DeviceId device = 0;
  StreamId stream = 0;
  std::uint32_t position = 0;  // in the device's program
  NodeId node;
  std::int64_t started = 0;  // counts starts and ends of all devices
  std::int64_t ended = 0;
};

/// Whether the two were under way at the same time.
bool overlap(const NullCall& a, const NullCall& b);

/// Goes through a step without tensors: the calls in the order in which they started. Throws RunError on a deadlock.
std::vector<NullCall> record(const Plan& plan);
/// The record as text, a line a call: "device 0 compute 3: %5 = einsum … after 1 2".
std::string to_string(const Plan& plan, const std::vector<NullCall>& calls);

/// A runner that computes nothing: its steps have no outputs.
std::unique_ptr<StepRunner> make_null_runner(const Plan& plan);

}  // namespace skirl
