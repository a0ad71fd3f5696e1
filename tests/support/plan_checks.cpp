#include "tests/support/plan_checks.h"

#include <algorithm>
#include <map>
#include <vector>

namespace skirl {
namespace {

struct Access {
  std::uint32_t position;
  bool writes;
};

}  // namespace

std::string memory_fault(const Plan& plan, const DeviceProgram& program) {
  const std::size_t count = program.instructions.size();
  // before[i][j]: instruction j has ended when i starts.
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  std::map<StreamId, std::uint32_t> last;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    std::vector<std::uint32_t> direct(program.waits.begin() + instruction.first_wait,
                                      program.waits.begin() + instruction.first_wait + instruction.wait_count);
    if (const auto it = last.find(instruction.stream); it != last.end()) direct.push_back(it->second);
    for (const std::uint32_t j : direct) {
      if (j >= i) return "instruction " + std::to_string(i) + " waits for the later " + std::to_string(j);
      before[i][j] = true;
      for (std::uint32_t k = 0; k < j; ++k) before[i][k] = before[i][k] || before[j][k];
    }
    last[instruction.stream] = i;
  }
  std::vector<std::vector<Access>> accesses(program.buffers.size());
  std::vector<bool> kept(program.buffers.size(), false);
  for (const auto& [node, buffer] : program.entries) kept[buffer] = true;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Node& node = plan.graph[program.instructions[i].node];
    const std::size_t first = program.instructions[i].first_ref;
    const std::size_t end = i + 1 < count ? program.instructions[i + 1].first_ref : program.refs.size();
    const std::size_t operands = node.op == Op::Recv ? 0 : node.operand_count;
    for (std::size_t r = first; r < end; ++r) {
      const bool writes = r - first >= operands && !(node.op == Op::Output && program.refs[r] == program.refs[first]);
      accesses[program.refs[r]].push_back({i, writes});
      if (node.op == Op::Output && r + 1 == end) kept[program.refs[r]] = true;
    }
  }
  const auto name = [&](std::size_t buffer) { return "buffer " + std::to_string(buffer) + " of device " + std::to_string(program.device); };
  for (std::size_t b = 0; b < accesses.size(); ++b) {
    if (program.buffers[b].offset_bytes < 0 || program.buffers[b].offset_bytes + program.buffers[b].size_bytes > program.arena_bytes)
      return name(b) + " lies outside the arena";
    if (program.buffers[b].offset_bytes % 64 != 0) return name(b) + " is not aligned";
    for (const Access& a : accesses[b])  // reads of a written buffer come after the write, overwriting after the reads
      for (const Access& other : accesses[b])
        if ((a.writes || other.writes) && a.position < other.position && !before[other.position][a.position])
          return name(b) + ": instructions " + std::to_string(a.position) + " and " + std::to_string(other.position) + " are not ordered";
  }
  for (std::size_t a = 0; a < accesses.size(); ++a)
    for (std::size_t b = a + 1; b < accesses.size(); ++b) {
      const PlanBuffer& x = program.buffers[a];
      const PlanBuffer& y = program.buffers[b];
      if (x.size_bytes == 0 || y.size_bytes == 0 || x.offset_bytes + x.size_bytes <= y.offset_bytes ||
          y.offset_bytes + y.size_bytes <= x.offset_bytes)
        continue;
      if (kept[a] && kept[b]) return name(a) + " and " + name(b) + " share bytes to the end";
      const auto all_before = [&](std::size_t first, std::size_t second) {
        if (kept[first]) return false;
        for (const Access& p : accesses[first])
          for (const Access& q : accesses[second])
            if (!before[q.position][p.position]) return false;
        return true;
      };
      if (!all_before(a, b) && !all_before(b, a)) return name(a) + " and " + name(b) + " share bytes while both live";
    }
  return "";
}

std::string memory_fault(const Plan& plan) {
  for (const DeviceProgram& program : plan.devices)
    if (std::string fault = memory_fault(plan, program); !fault.empty()) return fault;
  return "";
}

}  // namespace skirl
