#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "ir/plan.h"
#include "runtime/kernel.h"
#include "runtime/tiles.h"

namespace skirl {

/// An instruction of a plan, as backends are told about it.
struct Call {
  std::size_t device = 0;      // index into Plan::devices
  std::uint32_t position = 0;  // index into its instructions
  NodeId node;
  StreamId stream = 0;
};

/// What the executor needs of a machine: memory, kernels, and pieces moved between devices. It knows nothing of graphs or strategies; when
/// something may run is the executor's affair. Calls of different instructions come from several threads at once; a call has ended when it
/// returns, and what it throws ends the step.
class Backend {
 public:
  virtual ~Backend() = default;

  /// The arena of a device, asked for once, before anything runs; null where tensors are not real.
  virtual std::byte* memory(std::size_t device, std::int64_t bytes) = 0;
  /// Computes a node on one device.
  virtual void kernel(const Call& call, const KernelCall& kernel) = 0;
  /// Sets all elements: what an operator makes of empty operands, and pieces that nobody holds a term of.
  virtual void fill(const Call& call, const TensorView& target, double value) = 0;
  /// Carries out one move of a collective, a transfer or a local change of layout.
  virtual void move(const Call& call, const Move& move, std::span<const TensorView> sources, const TensorView& target) = 0;

  /// Told, one at a time and in order, when an instruction starts (a collective or transfer: arrives) and when it has ended.
  virtual void started(const Call&) {}
  virtual void ended(const Call&) {}

  /// How many calls run at once; 0: none, the executor goes through all that is ready round by round in the caller's thread.
  virtual int workers() const { return 0; }
  /// Runs `loop` on up to workers() threads and returns when all have come back.
  virtual void run_workers(const std::function<void()>& loop) { loop(); }
};

}  // namespace skirl
