#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes/pass.h"

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

/// A schedule: for each rank the order of its cells; a slot of several cells is overlapped. It knows nothing of the graph.
struct ScheduleTable {
  std::int64_t stages = 0;
  std::int64_t microbatches = 0;
  std::vector<std::vector<std::vector<Cell>>> ranks;  // [rank][slot][cell]
};

struct ScheduleParams {
  std::int64_t ranks = 1;
  std::int64_t microbatches = 1;
};

struct ScheduleInfo {
  std::string name;
  std::string help;
  ScheduleTable (*make)(const ScheduleParams&);
  std::string origin = "built-in";
};

/// All forwards, then all backwards. Any ranks and microbatches. Huang et al., arXiv:1811.06965.
ScheduleTable gpipe(const ScheduleParams& params);
/// "1f1b": rank r of p warms up with p−1−r forwards, then alternates one forward and one backward, so that it holds at most p−r
/// activations. Any ranks and microbatches. Narayanan et al., arXiv:2006.09503.
ScheduleTable one_f_one_b(const ScheduleParams& params);

std::vector<ScheduleInfo> schedule_table();

/// The table as `order` directives, one a rank: groups of filters {PP, MB, PASS}.
std::vector<Directive> order_directives(const ScheduleTable& table);

}  // namespace skirl
