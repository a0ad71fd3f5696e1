#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace skirl {

/// F, full backward, backward for inputs, backward for weights.
enum class Work : std::uint8_t { F, B, I, W };

struct Cell {
  std::int64_t stage = 0;
  Work work = Work::F;
  std::int64_t microbatch = 0;
  bool operator==(const Cell&) const = default;
};
/// "3F2": stage, work, microbatch, as in schedule files.
std::string to_string(const Cell& cell);

/// What a rank does at a time: one cell, or several that are overlapped.
using Slot = std::vector<Cell>;
/// "3F2", or "0F3+7B1".
std::string to_string(const Slot& slot);

/// Which rank works on a stage. In two directions, microbatches from `reverse_from` on enter at the last rank: their stages lie on
/// `reverse_rank`, so that a rank holds the parameters of two stages.
struct Placement {
  std::vector<std::int64_t> rank;          // by stage
  std::vector<std::int64_t> reverse_rank;  // by stage; empty: one direction
  std::int64_t reverse_from = 0;           // of a placement in two directions

  bool two_ways() const { return !reverse_rank.empty(); }
  bool reverses(std::int64_t microbatch) const { return two_ways() && microbatch >= reverse_from; }
  std::int64_t rank_of(std::int64_t stage, std::int64_t microbatch) const {
    return (reverses(microbatch) ? reverse_rank : rank)[static_cast<std::size_t>(stage)];
  }
  bool operator==(const Placement&) const = default;
};

/// Stage s on rank s mod p.
Placement loop_placement(std::int64_t ranks, std::int64_t stages_per_rank);
/// Down and up again, turn by turn: stages 0…p−1 on ranks 0…p−1, stages p…2p−1 on ranks p−1…0, and so on.
Placement v_placement(std::int64_t ranks, std::int64_t stages_per_rank = 2);
/// Stage s on rank s, and on rank p−1−s for the microbatches from `reverse_from` on.
Placement two_way_placement(std::int64_t ranks, std::int64_t reverse_from);

/// A schedule: for each rank the order of its slots. It knows nothing of the graph.
struct ScheduleTable {
  std::int64_t stages = 0;
  std::int64_t microbatches = 0;
  std::vector<std::vector<Slot>> ranks;
  Placement placement;  // empty: where the cells stand
  /// k > 1: cell microbatch m·k + i is part i of the sequence of microbatch m; a forward reads the parts before it, and a backward waits
  /// for the parts behind it.
  std::int64_t sequence_parts = 1;
  std::vector<std::vector<std::int64_t>> columns;  // where each slot stands in the file that it was read from; empty: its number
};

/// Times of the work of a stage, in any one unit.
struct StageTimes {
  double forward = 1;
  double input = 1;   // backward for inputs
  double weight = 1;  // backward for weights
};

struct ScheduleTimes {
  std::vector<StageTimes> stages;  // by stage; empty: all as StageTimes{}
  double transfer = 0;             // from one rank to another
  double overlap = 1;              // of cells that are overlapped: their time as a share of what they take one after the other
  const StageTimes& of(std::int64_t stage) const;
};

/// What a schedule is made for. A field that is not set is the schedule's own choice; one that a schedule has no use for is refused.
struct ScheduleParams {
  std::int64_t ranks = 1;
  std::int64_t microbatches = 1;
  std::optional<std::int64_t> stages_per_rank;
  std::optional<std::int64_t> group;           // microbatches that go through all stages of a rank together
  std::optional<std::int64_t> sequence_parts;  // pieces of a sequence
  std::optional<std::int64_t> memory;          // activations (of one stage and microbatch) that a rank may hold
  std::optional<ScheduleTimes> times;          // what to plan for
};

struct ScheduleInfo {
  std::string name;
  std::string help;
  std::function<ScheduleTable(const ScheduleParams&)> make;
  std::string origin = "built-in";
};

/// The built-in schedules, in strategies/schedules/.
std::vector<ScheduleInfo> schedule_table();

}  // namespace skirl
