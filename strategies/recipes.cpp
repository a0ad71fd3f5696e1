#include "strategies/recipes.h"

#include <optional>

#include "ir/error.h"
#include "strategies/schedule_directives.h"
#include "strategies/schedule_source.h"

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

/// A setting that is left to the schedule is the word "auto".
std::optional<std::int64_t> setting(const StrategyArgs& args, const char* name) {
  const Json& value = args.at(name);
  return value.is_string() ? std::nullopt : std::optional<std::int64_t>(value.get<std::int64_t>());
}

/// Where the microbatches of a range are worked on: every stage on its rank.
void place_stages(const std::vector<std::int64_t>& rank_of, const std::string& microbatches, const StrategyContext& context,
                  std::vector<Directive>& directives) {
  for (std::size_t stage = 0; stage < rank_of.size(); ++stage) {
    Json filter{{"PP", stage}};
    if (!microbatches.empty()) filter["MB"] = microbatches;
    directives.push_back(place_directive(std::move(filter), rank_of[stage], context.mesh));
  }
}

void expect_layers(std::int64_t stages, std::int64_t ranks, std::int64_t layers) {
  if (stages <= layers) return;
  const std::int64_t each = (stages + ranks - 1) / ranks;
  throw Error("pp: " + std::to_string(stages) + " stages of " + std::to_string(layers) + " layers leave stage " + std::to_string(layers) +
                  " without layers",
              "", "at most " + std::to_string(layers / each) + " ranks" + (each > 1 ? " of " + std::to_string(each) + " stages" : ""));
}

std::vector<Directive> pp(const StrategyArgs& args, const StrategyContext& context) {
  const std::int64_t ranks = number(args, "ranks");
  const std::int64_t microbatches = number(args, "mb");
  const std::int64_t layers = context.model.layers;
  if (layers == 0) throw Error("pp: no node of the model has an integer tag LAYER", "", "tag the layers of the model, for example LAYER=0");
  if (ranks > layers) expect_layers(ranks, ranks, layers);
  expect_batch("pp", context);
  if (microbatches > context.model.batch)
    throw Error(
        "pp: " + std::to_string(microbatches) + " microbatches cannot be made of " + std::to_string(context.model.batch) + " samples", "",
        "at most mb=" + std::to_string(context.model.batch) + ", or a larger batch");
  ScheduleParams params{ranks, microbatches};
  params.stages_per_rank = setting(args, "stages_per_rank");
  params.group = setting(args, "group");
  params.memory = setting(args, "memory");
  const std::string name = args.at("schedule").get<std::string>();
  const ScheduleTable table = schedule_named(context.registry, name, params);
  if (table.sequence_parts > 1)
    throw Error("pp: the schedule " + name + " cuts sequences, and pp cuts the batch only", "", "1f1b is the same over whole sequences");
  expect_layers(table.stages, ranks, layers);

  std::vector<Directive> directives;
  directives.push_back(directive("partition", {{"tag", "LAYER"}, {"into", "PP"}, {"stages", table.stages}}));
  directives.push_back(directive("split", {{"filter", Json::object()}, {"dim_name", "MB"}, {"num_microbatches", microbatches}}));
  const Placement& placement = table.placement;
  if (!placement.two_ways() || placement.reverse_from >= microbatches) {
    place_stages(placement.rank, "", context, directives);
  } else {
    place_stages(placement.rank, "0.." + std::to_string(placement.reverse_from - 1), context, directives);
    place_stages(placement.reverse_rank, std::to_string(placement.reverse_from) + ".." + std::to_string(microbatches - 1), context,
                 directives);
    // What is not cut into microbatches, such as the loss, goes where most of them end.
    directives.push_back(place_directive({{"PP", "*"}, {"MB", false}}, placement.rank.back(), context.mesh));
  }
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
                   {{"ranks", "count", "", "pipeline ranks"},
                    {"schedule", "word", "1f1b", "order of the work, see `skirl list schedules`, or a .csv file"},
                    {"mb", "count", "ranks", "microbatches of the global batch"},
                    {"stages_per_rank", "count", "auto", "stages that a rank works on; auto: what the schedule takes"},
                    {"group", "count", "auto", "microbatches in a group of the schedule grouped"},
                    {"memory", "count", "auto", "activations that a rank may hold, of the schedule list"}},
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
