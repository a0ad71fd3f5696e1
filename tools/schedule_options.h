#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace skirl {

/// `skirl show --schedule NAME`: what table, for which sizes, and how it comes out.
struct ScheduleOptions {
  std::string name;  // or a .csv file; empty: no schedule is asked for
  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> microbatches;
  std::optional<std::int64_t> stages_per_rank;
  std::optional<std::int64_t> group;
  std::optional<std::int64_t> sequence_parts;
  std::optional<std::int64_t> memory;
  std::string times;  // a JSON file
  bool csv = false;
  bool transfers = false;
  std::string svg;  // a file
};

}  // namespace skirl
