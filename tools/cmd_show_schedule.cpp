#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ir/error.h"
#include "strategies/schedule_cost.h"
#include "strategies/schedule_csv.h"
#include "strategies/schedule_source.h"
#include "tools/commands.h"
#include "tools/draw/schedule_svg.h"
#include "tools/draw/schedule_text.h"
#include "tools/output_file.h"
#include "tools/session.h"

namespace skirl {
namespace {

/// {"stages": [{"forward": 1, "input": 1, "weight": 1}, …], "transfer": 0.1, "overlap": 0.8}: one entry a stage, or one for all.
ScheduleTimes read_times(const std::string& path) {
  const Json json = read_json_file(path);
  const JsonView file(json, path);
  if (!file.is_object()) file.fail("times are an object: {\"stages\": [{\"forward\": 1, \"input\": 1, \"weight\": 1}], \"transfer\": 0}");
  file.only_keys({"stages", "transfer", "overlap"});
  ScheduleTimes times;
  if (file.has("transfer")) times.transfer = file.at("transfer").number();
  const JsonView stages = file.at("stages");
  if (!stages.is_array() || stages.size() == 0) stages.fail("expected a list of one or more stages");
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const JsonView stage = stages.at(s);
    stage.only_keys({"forward", "input", "weight"});
    times.stages.push_back({stage.at("forward").number(), stage.at("input").number(), stage.at("weight").number()});
    for (const char* key : {"forward", "input", "weight"})
      if (!(stage.at(key).number() > 0)) stage.at(key).fail("a time is a number above 0");
  }
  if (file.has("overlap")) times.overlap = file.at("overlap").number();
  if (!(times.overlap > 0)) file.at("overlap").fail("the time of an overlapped pair is a share above 0 of what its halves take");
  if (times.transfer < 0) file.at("transfer").fail("a time is a number of at least 0");
  return times;
}

/// A single entry stands for every stage.
ScheduleTimes for_stages(ScheduleTimes times, std::int64_t stages, const std::string& path) {
  if (times.stages.size() == 1) times.stages.resize(static_cast<std::size_t>(stages), times.stages.front());
  if (!times.stages.empty() && static_cast<std::int64_t>(times.stages.size()) != stages)
    throw Error(path + " has times of " + std::to_string(times.stages.size()) + " stages, the schedule has " + std::to_string(stages), "",
                "one entry a stage, or one for all");
  return times;
}

/// Colours only where a person looks and has not asked for none (no-color.org).
draw::ScheduleTextOptions text_options(const Console& console) {
  draw::ScheduleTextOptions options;
  const char* term = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  const int terminal = console.text_goes_to_standard_error() ? STDERR_FILENO : STDOUT_FILENO;
  if (isatty(terminal) == 0) return options;
  options.coloured = term != nullptr && std::string_view(term) != "dumb" && (no_colour == nullptr || *no_colour == '\0');
  winsize size{};
  options.width = ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  return options;
}

Json to_json(const ScheduleOptions& o, const ScheduleTable& table, const ScheduleCost& cost) {
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < table.ranks.size(); ++rank) {
    Json cells = Json::array();
    for (const Slot& slot : table.ranks[rank]) cells.push_back(to_string(slot));
    ranks.push_back({{"cells", std::move(cells)}, {"start", cost.start[rank]}, {"end", cost.end[rank]}});
  }
  Json placement{{"rank", table.placement.rank}};
  if (table.placement.two_ways()) placement["reverse"] = {{"rank", table.placement.reverse_rank}, {"from", table.placement.reverse_from}};
  return {{"schedule", o.name},
          {"stages", table.stages},
          {"microbatches", table.microbatches},
          {"sequence_parts", table.sequence_parts},
          {"placement", std::move(placement)},
          {"makespan", cost.makespan},
          {"bubble", cost.bubble},
          {"bubble_fraction", cost.bubble_fraction},
          {"span_bubble", cost.span_bubble},
          {"peak_activations", cost.peak_activations},
          {"ranks", std::move(ranks)}};
}

std::string title(const ScheduleOptions& o, const ScheduleTable& table) {
  const std::int64_t ranks = static_cast<std::int64_t>(table.ranks.size());
  std::string text = o.name + ": " + std::to_string(ranks) + (ranks == 1 ? " rank, " : " ranks, ");
  text += std::to_string(table.stages) + (table.stages == 1 ? " stage, " : " stages, ");
  const std::int64_t microbatches = table.microbatches / table.sequence_parts;
  text += std::to_string(microbatches) + (microbatches == 1 ? " microbatch" : " microbatches");
  return table.sequence_parts > 1 ? text + " of " + std::to_string(table.sequence_parts) + " parts" : text;
}

}  // namespace

int cmd_show_schedule(const Options& options, Console& console) {
  const ScheduleOptions& o = options.schedule;
  const Session session(options);
  ScheduleParams params;
  params.stages_per_rank = o.stages_per_rank;
  params.group = o.group;
  params.sequence_parts = o.sequence_parts;
  params.memory = o.memory;
  const bool file = o.name.ends_with(".csv");
  ScheduleTable sizes;
  if (file && (!o.ranks || !o.microbatches)) sizes = read_schedule_csv(o.name);
  if (!file && !o.ranks) throw Error("show --schedule " + o.name + " takes --ranks");
  if (!file && !o.microbatches) throw Error("show --schedule " + o.name + " takes --mbs");
  params.ranks = o.ranks.value_or(static_cast<std::int64_t>(sizes.ranks.size()));
  params.microbatches = o.microbatches.value_or(sizes.microbatches);

  ScheduleTimes times;
  if (!o.times.empty()) times = read_times(o.times);
  if (o.name == "list" && !o.times.empty()) params.times = for_stages(times, params.ranks * params.stages_per_rank.value_or(1), o.times);
  const ScheduleTable table = schedule_named(session.registry(), o.name, params);
  const ScheduleCost cost = schedule_cost(table, for_stages(times, table.stages, o.times));
  if (!o.svg.empty()) {
    OutputFile out(o.svg);
    out.write(draw::schedule_svg(table, cost, title(o, table)));
  }
  if (o.csv)
    console.text() << schedule_csv(table, o.transfers);
  else if (o.svg.empty())
    console.text() << draw::schedule_text(table, cost, text_options(console));
  if (console.wants_json()) console.write_json(to_json(o, table, cost));
  return 0;
}

}  // namespace skirl
