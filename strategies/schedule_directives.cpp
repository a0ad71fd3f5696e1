#include "strategies/schedule_directives.h"

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
