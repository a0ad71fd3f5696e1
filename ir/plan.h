#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace skirl {

/// A piece of a device's arena. Several buffers may share bytes at different times.
struct PlanBuffer {
  std::int64_t offset_bytes = 0;
  std::int64_t size_bytes = 0;
};

/// One node as one device runs it. `refs` of the program hold, from `first_ref` on: its operands, then its results. A send has its operands
/// only (its result is what it sent) and a recv its results only; an Output has its operand and where the value leaves: for a parameter or
/// state the buffer that it entered by, so steps chain; for the rest mostly the operand's own buffer, which then nothing overwrites in this
/// step. Input, Param, State, view, join and fence have no instruction: they are buffers, other names of buffers, or waits.
struct Instruction {
  NodeId node;
  StreamId stream = 0;
  std::uint32_t first_ref = 0;   // into DeviceProgram::refs
  std::uint32_t first_wait = 0;  // into DeviceProgram::waits
  std::uint32_t wait_count = 0;
};

/// What one device does in a step. Instructions of one stream run in their order; an instruction also waits for the instructions in its
/// wait list (positions in `instructions`, always earlier ones of other streams).
struct DeviceProgram {
  DeviceId device = 0;
  std::int64_t arena_bytes = 0;
  std::vector<PlanBuffer> buffers;
  std::vector<Instruction> instructions;
  std::vector<std::uint32_t> refs;  // indices into buffers
  std::vector<std::uint32_t> waits;
  std::vector<std::pair<NodeId, std::uint32_t>> entries;  // Input, Param, State node → its buffer
};

/// The graph that is executed, with node ids dense in topological order, and a program for each device. The graph says what a node is;
/// a program says when, where and in which buffers.
struct Plan {
  Graph graph;
  std::vector<DeviceProgram> devices;  // sorted by device
  int threads_per_kernel = 1;
  std::string model;  // as the user gave them, for messages; may be empty
  std::string strategy;
};

/// The graph again with ids dense in topological order: equal text, no holes. Unused values and table entries go.
Graph compact(const Graph& graph);
/// The same in an order of the caller's: every live node once, operands and control predecessors first.
Graph compact(const Graph& graph, std::span<const NodeId> order);

/// What is wrong with the buffers of a program, empty if nothing: going through the instructions in their order, each operand must still
/// lie in the buffer that it was written to (by its producer or as it entered), and nothing that enters or leaves the step may be
/// overwritten. Names device, instruction and buffer.
std::string data_fault(const Graph& graph, const DeviceProgram& program);

/// The plan as text: the graph's text, then each program; `parse_plan` reads exactly this. Byte-identical for equal plans.
std::string print(const Plan& plan);
/// Throws Error with `file` and line.
Plan parse_plan(std::string_view text, std::string_view file);

}  // namespace skirl
