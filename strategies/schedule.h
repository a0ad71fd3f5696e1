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

ScheduleTable gpipe(const ScheduleParams& params);
ScheduleTable one_f_one_b(const ScheduleParams& params);  // "1f1b"

std::vector<ScheduleInfo> schedule_table();

/// The table as `order` directives, one a rank: groups of filters {PP, MB, PASS}.
std::vector<Directive> order_directives(const ScheduleTable& table);

}  // namespace skirl
