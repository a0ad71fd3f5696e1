#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/rules.h"
#include "runtime/backend.h"
#include "runtime/kernel.h"
#include "runtime/tiles.h"

namespace skirl {

/// One move with its tensors: what a member of a collective or a transfer does.
struct LoadedMove {
  const Move* move = nullptr;
  std::uint32_t first_source = 0;  // into LoadedPlan::views
  std::uint32_t source_count = 0;
  std::uint32_t target = 0;  // into LoadedPlan::views
};

/// Something that happens once a step, when all events before it have happened. An instruction that needs no other device is one event;
/// one that does is three: it arrives, its moves are made, and it has ended, when nobody reads (writes) its tensors any more.
struct Event {
  enum class Part : std::uint8_t { Whole, Arrives, Moves, Ended };
  std::uint32_t instruction = 0;  // into LoadedPlan::instructions
  std::uint32_t before = 0;       // how many events it waits for
  std::uint32_t first_next = 0;   // into LoadedPlan::next: the events that wait for it
  Part part = Part::Whole;
  bool works = false;  // calls the backend
};

struct LoadedInstruction {
  Call call;
  std::uint32_t first_event = 0;
  std::uint32_t first_view = 0;  // operands, then results
  std::uint32_t operand_count = 0;
  std::uint32_t result_count = 0;
  std::uint32_t first_move = 0;
  std::uint32_t move_count = 0;
  std::uint32_t kernel = kNoKernel;  // into LoadedPlan::kernels
  double fill = 0;
  bool fills = false;  // results are set to `fill` before the moves
  static constexpr std::uint32_t kNoKernel = 0xFFFFFFFFu;
};

/// A plan made ready to run again and again: every instruction's local tensors, kernel arguments and moves, and one graph of events over
/// all devices.
struct LoadedPlan {
  explicit LoadedPlan(const Plan& p) : plan(p), rules(p.graph) {}

  const Plan& plan;
  std::vector<LoadedInstruction> instructions;   // device by device, in program order
  std::vector<std::uint32_t> first_instruction;  // of each device, and the end
  std::vector<Event> events;                     // and one more, which ends the last one's `next`
  std::vector<std::uint32_t> next;
  std::vector<TensorView> views;
  std::vector<KernelCall> kernels;
  std::vector<LoadedMove> moves;
  std::vector<std::byte*> arenas;  // of each device

  std::span<const TensorView> results(const LoadedInstruction& i) const {
    return std::span(views).subspan(i.first_view + i.operand_count, i.result_count);
  }
  std::span<const LoadedMove> moves_of(const LoadedInstruction& i) const { return std::span(moves).subspan(i.first_move, i.move_count); }
  std::span<const std::uint32_t> next_of(std::uint32_t event) const {
    return std::span(next).subspan(events[event].first_next, events[event + 1].first_next - events[event].first_next);
  }

  // What the moves and kernels point into.
  std::deque<std::vector<Move>> move_lists;
  std::deque<NodePositions> positions;
  std::deque<std::vector<TensorView>> filtered_operands;
  Rules rules;
};

/// Takes the arenas from the backend. The plan outlives what is returned. Throws Error where the plan does not fit together.
std::unique_ptr<LoadedPlan> load(const Plan& plan, Backend& backend, std::uint64_t seed);

/// A buffer of a device as the local tensor of a value; data is null where the backend has no memory.
TensorView buffer_view(const LoadedPlan& loaded, std::size_t device, std::uint32_t buffer, ValueId value);
/// Index into Plan::devices; throws Error if the plan has no program for it.
std::size_t device_index(const Plan& plan, DeviceId device);
/// "device 3: %12 = einsum …".
std::string describe(const LoadedPlan& loaded, const Call& call);

}  // namespace skirl
