#include "strategies/schedules/shape.h"

#include <algorithm>

#include "ir/error.h"

namespace skirl {
namespace {

constexpr std::int64_t kMostCells = 1 << 24;  // of a table: stages × microbatches

std::string stages_text(std::int64_t stages) { return std::to_string(stages) + (stages == 1 ? " stage" : " stages") + " per rank"; }

void check_positive(const std::string& name, std::int64_t value, const char* what) {
  if (value < 1) throw Error(name + ": " + std::to_string(value) + " " + what + ", expected at least 1", "", "the nearest is 1");
}

}  // namespace

std::int64_t checked_stages_per_rank(std::string_view name, const ScheduleParams& params, const ScheduleTakes& takes) {
  const std::string who(name);
  check_positive(who, params.ranks, "ranks");
  check_positive(who, params.microbatches, "microbatches");
  const std::int64_t stages = params.stages_per_rank.value_or(takes.stages);
  check_positive(who, stages, "stages per rank");
  if (stages < takes.fewest_stages || stages > takes.most_stages) {
    const bool exact = takes.fewest_stages == takes.most_stages;
    throw Error(
        who + ": got " + stages_text(stages) + ", expected " + (exact ? "exactly " : "at least ") + std::to_string(takes.fewest_stages), "",
        "the nearest is " + stages_text(std::clamp(stages, takes.fewest_stages, takes.most_stages)) +
            (takes.most_stages == 1 ? "; interleaved, looped_bfs, grouped and interleaved_zb take several" : ""));
  }
  const auto refuse = [&](bool given, bool taken, const char* what, const char* takers) {
    if (given && !taken) throw Error(who + " has no " + what, "", std::string("leave it out; ") + takers);
  };
  refuse(params.group.has_value(), takes.group, "group size", "grouped takes one");
  refuse(params.sequence_parts.has_value(), takes.sequence_parts, "sequence parts", "seq1f1b takes them");
  refuse(params.memory.has_value(), takes.memory, "memory limit", "list takes one");
  refuse(params.times.has_value(), takes.times, "times to plan for", "list takes them");
  if (params.group) check_positive(who, *params.group, "microbatches in a group");
  if (params.sequence_parts) check_positive(who, *params.sequence_parts, "sequence parts");
  if (params.memory) check_positive(who, *params.memory, "activations of memory");
  const std::int64_t parts = params.sequence_parts.value_or(1);
  if (params.ranks > kMostCells || params.microbatches > kMostCells || stages > kMostCells || parts > kMostCells ||
      params.ranks * stages > kMostCells || params.microbatches * parts > kMostCells / (params.ranks * stages))
    throw Error(who + ": " + std::to_string(params.ranks) + " ranks of " + std::to_string(stages) + " stages and " +
                    std::to_string(params.microbatches) + " microbatches are too many",
                "", "at most " + std::to_string(kMostCells) + " pairs of a stage and a microbatch");
  return stages;
}

ScheduleTable empty_table(std::int64_t ranks, std::int64_t microbatches, Placement placement) {
  ScheduleTable table;
  table.stages = static_cast<std::int64_t>(placement.rank.size());
  table.microbatches = microbatches;
  table.ranks.resize(static_cast<std::size_t>(ranks));
  table.placement = std::move(placement);
  return table;
}

ScheduleTable first_microbatches(ScheduleTable table, std::int64_t microbatches) {
  for (std::vector<Slot>& slots : table.ranks) {
    for (Slot& slot : slots) std::erase_if(slot, [&](const Cell& cell) { return cell.microbatch >= microbatches; });
    std::erase_if(slots, [](const Slot& slot) { return slot.empty(); });
  }
  table.microbatches = microbatches;
  return table;
}

}  // namespace skirl
