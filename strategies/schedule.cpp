#include "strategies/schedule.h"

namespace skirl {
namespace {

const char* pass_of(Work work) {
  switch (work) {
    case Work::F:
      return "F";
    case Work::B:
      return "B";
    case Work::I:
      return "BI";
    case Work::W:
      return "BW";
  }
  return "";
}

}  // namespace

std::string to_string(const Cell& cell) {
  return std::to_string(cell.stage) + "FBIW"[static_cast<std::size_t>(cell.work)] + std::to_string(cell.microbatch);
}

std::vector<ScheduleInfo> schedule_table() {
  return {{"gpipe", "all forwards, then all backwards; holds the activations of every microbatch", gpipe},
          {"1f1b", "one forward, one backward after a warm-up; holds at most as many activations as there are ranks", one_f_one_b}};
}

std::vector<Directive> order_directives(const ScheduleTable& table) {
  std::vector<Directive> directives;
  for (const auto& slots : table.ranks) {
    Json groups = Json::array();
    for (const std::vector<Cell>& slot : slots) {
      Json group = Json::array();
      for (const Cell& cell : slot) group.push_back({{"PP", cell.stage}, {"MB", cell.microbatch}, {"PASS", pass_of(cell.work)}});
      groups.push_back(std::move(group));
    }
    if (groups.size() < 2) continue;  // nothing to order
    Directive directive;
    directive.op = "order";
    directive.params["filters"] = std::move(groups);
    directives.push_back(std::move(directive));
  }
  return directives;
}

}  // namespace skirl
