#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

#include "strategies/schedule.h"

/// Reads a schedule of tests/data/schedules/; a file that is missing or malformed fails the test.
inline skirl::ScheduleTable read_schedule(const std::string& name) {
  std::ifstream in(SKIRL_TEST_DATA "/schedules/" + name + ".csv");
  if (!in) throw std::runtime_error("no golden schedule " + name);
  skirl::ScheduleTable table;
  std::string line;
  while (std::getline(in, line)) {
    auto& slots = table.ranks.emplace_back();
    std::size_t at = 0;
    const auto number = [&] {
      std::size_t digits = 0;
      const std::int64_t value = std::stoll(line.substr(at), &digits);
      at += digits;
      return value;
    };
    bool overlapped = false;
    while (at < line.size()) {
      if (!overlapped) slots.emplace_back();
      skirl::Cell cell;
      cell.stage = number();
      cell.work = static_cast<skirl::Work>(std::string("FBIW").find(line.at(at++)));
      cell.microbatch = number();
      slots.back().push_back(cell);
      overlapped = at < line.size() && line[at] == '+';
      ++at;  // ',' or '+'
    }
  }
  return table;
}
