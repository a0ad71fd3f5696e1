#include "strategies/recipes.h"

#include "ir/error.h"
#include "strategies/schedule_check.h"

namespace skirl {
namespace {

Directive directive(std::string op, Json params) {
  Directive d;
  d.op = std::move(op);
  d.params = std::move(params);
  return d;
}

std::int64_t number(const StrategyArgs& args, const char* name) { return args.at(name).get<std::int64_t>(); }

void expect_batch(const char* recipe, const StrategyContext& context) {
  if (context.model.batch == 0)
    throw Error(std::string(recipe) + ": no input of the model has a batch dimension to cut", "", "mark one in the model: input … cut 0");
}

std::vector<Directive> ddp(const StrategyArgs&, const StrategyContext& context) {
  expect_batch("ddp", context);
  return {directive("replicate", {{"filter", Json::object()}, {"axis", "dp"}})};
}

std::vector<Directive> zero(const StrategyArgs& args, const StrategyContext& context) {
  const std::int64_t level = number(args, "level");
  if (level < 1 || level > 3)
    throw Error("zero: level is " + std::to_string(level) + ", expected 1 (optimizer states), 2 (and gradients) or 3 (and parameters)", "",
                level == 0 ? "without sharding it is ddp(" + std::to_string(number(args, "dp")) + ")" : "");
  expect_batch("zero", context);
  Json params{{"filter", Json::object()}, {"axis", "dp"}, {"shard_optimizer", true}};
  if (level >= 2) params["shard_grads"] = true;
  if (level >= 3) params["shard_params"] = true;
  return {directive("replicate", std::move(params))};
}

std::vector<Directive> pp(const StrategyArgs& args, const StrategyContext& context) {
  const std::int64_t ranks = number(args, "ranks");
  const std::int64_t microbatches = number(args, "mb");
  const std::int64_t layers = context.model.layers;
  if (layers == 0) throw Error("pp: no node of the model has an integer tag LAYER", "", "tag the layers of the model, for example LAYER=0");
  if (ranks > layers)
    throw Error("pp: " + std::to_string(ranks) + " stages of " + std::to_string(layers) + " layers leave stage " + std::to_string(layers) +
                    " without layers",
                "", "at most " + std::to_string(layers) + " ranks");
  expect_batch("pp", context);
  if (microbatches > context.model.batch)
    throw Error(
        "pp: " + std::to_string(microbatches) + " microbatches cannot be made of " + std::to_string(context.model.batch) + " samples", "",
        "at most mb=" + std::to_string(context.model.batch) + ", or a larger batch");
  const ScheduleInfo& schedule = context.registry.schedule(args.at("schedule").get<std::string>());
  const ScheduleTable table = schedule.make({ranks, microbatches});
  check_schedule(table, schedule.name);

  std::vector<Directive> directives;
  directives.push_back(directive("partition", {{"tag", "LAYER"}, {"into", "PP"}, {"stages", ranks}}));
  directives.push_back(directive("split", {{"filter", Json::object()}, {"dim_name", "MB"}, {"num_microbatches", microbatches}}));
  for (std::int64_t stage = 0; stage < ranks; ++stage) directives.push_back(place_directive({{"PP", stage}}, stage, context.mesh));
  for (Directive& d : order_directives(table)) directives.push_back(std::move(d));
  return directives;
}

}  // namespace

Directive place_directive(Json filter, std::int64_t rank, const std::map<std::string, std::int64_t>& mesh) {
  std::int64_t inner = 1;
  Json axes = Json::object();
  for (const char* axis : {"dp", "cp", "ep", "tp"})
    if (const auto it = mesh.find(axis); it != mesh.end() && it->second > 1) {
      axes[axis] = it->second;
      inner *= it->second;
    }
  Json devices = Json::array();
  for (std::int64_t d = 0; d < inner; ++d) devices.push_back(rank * inner + d);
  Json params{{"filter", std::move(filter)}, {"devices", std::move(devices)}};
  if (!axes.empty()) params["axes"] = std::move(axes);
  return directive("place", std::move(params));
}

std::vector<StrategyInfo> recipe_table() {
  std::vector<StrategyInfo> table;
  table.push_back({"ddp",
                   "data parallelism: every device works on a part of the batch; gradients are summed",
                   {{"dp", "count", "", "devices that share the batch"}},
                   {{"dp", "dp"}},
                   ddp});
  table.push_back({"pp",
                   "pipeline parallelism: layers in stages, the batch in microbatches",
                   {{"ranks", "count", "", "stages, one a rank"},
                    {"schedule", "word", "1f1b", "order of the work, see `skirl list schedules`"},
                    {"mb", "count", "ranks", "microbatches of the global batch"}},
                   {{"ranks", "pp"}},
                   pp});
  table.push_back({"zero",
                   "data parallelism that stores optimizer states (1), gradients (2) and parameters (3) in parts",
                   {{"level", "integer", "", "1, 2 or 3"}, {"dp", "count", "", "devices that share the batch"}},
                   {{"dp", "dp"}},
                   zero});
  return table;
}

}  // namespace skirl
