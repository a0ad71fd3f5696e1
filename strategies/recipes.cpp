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

[[noreturn]] void refuse_word(const char* recipe, const char* param, const std::string& found, const std::vector<std::string>& known) {
  throw Error(std::string(recipe) + ": " + param + " is '" + found.substr(0, 32) + "'; known: " + nearest_first(found, known));
}

std::vector<Directive> cp(const StrategyArgs& args, const StrategyContext&) {
  const std::string attention = args.at("attention").get<std::string>();
  if (attention != "ring" && attention != "ulysses" && attention != "gather")
    refuse_word("cp", "attention", attention, {"ring", "ulysses", "gather"});
  return {directive("shard_tensor", {{"filter", Json::object()}, {"axis", "cp"}, {"cut", "sequence"}, {"attention", attention}})};
}

Json tensor_axis(const StrategyContext& context) {
  const auto axes = tensor_axes(context.model, context.mesh.at("tp"));
  if (axes.size() == 1) return axes.front().first;
  return Json::array({axes[0].first, axes[1].first});
}

std::vector<Directive> tp(const StrategyArgs& args, const StrategyContext& context) {
  const std::string sequence = args.at("sequence").get<std::string>();
  const std::string cut = args.at("cut").get<std::string>();
  if (sequence != "whole" && sequence != "sp" && sequence != "sp_regather")
    refuse_word("tp", "sequence", sequence, {"whole", "sp", "sp_regather"});
  if (cut != "inner" && cut != "bottleneck") refuse_word("tp", "cut", cut, {"inner", "bottleneck"});
  Json params{{"filter", Json::object()}, {"axis", tensor_axis(context)}};
  if (cut != "inner") params["cut"] = cut;
  if (sequence != "whole") params["sequence"] = true;
  if (sequence == "sp_regather") params["regather"] = true;
  return {directive("shard_tensor", std::move(params))};
}

std::vector<Directive> tp2d(const StrategyArgs&, const StrategyContext& context) {
  return {directive("shard_tensor", {{"filter", Json::object()}, {"axis", tensor_axis(context)}}),
          directive("shard_tensor", {{"filter", Json::object()}, {"axis", "tp_width"}, {"cut", "width"}})};
}

std::vector<Directive> ddp(const StrategyArgs&, const StrategyContext& context) {
  expect_batch("ddp", context);
  return {directive("replicate", {{"filter", Json::object()}, {"axis", "dp"}})};
}

/// What `replicate` stores in parts at a level of ZeRO.
Json stored_at(const char* recipe, std::int64_t level, const std::string& without) {
  if (level < 1 || level > 3)
    throw Error(std::string(recipe) + ": level is " + std::to_string(level) +
                    ", expected 1 (optimizer states), 2 (and gradients) or 3 (and parameters)",
                "", level == 0 ? "without sharding it is " + without : "");
  Json params{{"filter", Json::object()}, {"axis", "dp"}, {"shard_optimizer", true}};
  if (level >= 2) params["shard_grads"] = true;
  if (level >= 3) params["shard_params"] = true;
  return params;
}

std::vector<Directive> zero(const StrategyArgs& args, const StrategyContext& context) {
  Json params = stored_at("zero", number(args, "level"), "ddp(" + std::to_string(number(args, "dp")) + ")");
  expect_batch("zero", context);
  return {directive("replicate", std::move(params))};
}

/// Sharded within, replicated outside: gradients are scattered over the near devices first, and only the pieces cross to the far ones.
std::vector<Directive> hsdp(const StrategyArgs& args, const StrategyContext& context) {
  const std::string devices = std::to_string(number(args, "shard") * number(args, "replicate"));
  Json within = stored_at("hsdp", number(args, "level"), "ddp(" + devices + ")");
  within["axis"] = "dp_shard";
  expect_batch("hsdp", context);
  return {directive("replicate", std::move(within)), directive("replicate", {{"filter", Json::object()}, {"axis", "dp_replicate"}})};
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
    directives.push_back(place_directive(std::move(filter), rank_of[stage], context));
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
    directives.push_back(place_directive({{"PP", "*"}, {"MB", false}}, placement.rank.back(), context));
  }
  for (Directive& d : order_directives(table)) directives.push_back(std::move(d));
  return directives;
}

}  // namespace

std::vector<std::pair<std::string, std::int64_t>> tensor_axes(const GraphSignature& model, std::int64_t degree) {
  const std::int64_t keys = model.key_heads;
  if (keys > 1 && keys < degree && degree % keys == 0) return {{"tp_kv", keys}, {"tp_q", degree / keys}};
  return {{"tp", degree}};
}

Directive place_directive(Json filter, std::int64_t rank, const StrategyContext& context) {
  std::vector<std::pair<std::string, std::int64_t>> axes;  // all of them, outermost first
  for (const std::string& axis : context.order) {
    const std::int64_t degree = context.mesh.at(axis);
    if (axis == "tp")
      for (const auto& part : tensor_axes(context.model, degree)) axes.push_back(part);
    else
      axes.emplace_back(axis, degree);
  }
  std::vector<std::int64_t> ids{0};
  std::int64_t stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    std::vector<std::int64_t> more;
    const std::int64_t first = axis->first == "pp" ? rank : 0;
    const std::int64_t last = axis->first == "pp" ? rank : axis->second - 1;
    for (std::int64_t i = first; i <= last; ++i)
      for (const std::int64_t id : ids) more.push_back(i * stride + id);
    ids = std::move(more);
    stride *= axis->second;
  }
  Json params{{"filter", std::move(filter)}, {"devices", ids}};
  Json named = Json::object();
  for (const auto& [axis, degree] : axes)
    if (axis != "pp") named[axis] = degree;
  if (!named.empty()) params["axes"] = std::move(named);
  return directive("place", std::move(params));
}

std::vector<StrategyInfo> recipe_table() {
  std::vector<StrategyInfo> table;
  table.push_back({"cp",
                   "context parallelism: the sequence is cut everywhere, and attention brings queries and keys together",
                   {{"n", "count", "", "devices that share a sequence"},
                    {"attention", "word", "ring",
                     "ring (keys and values go round), ulysses (heads instead of sequence) or gather (all keys everywhere)"}},
                   {{"n", "cp"}},
                   cp});
  table.push_back({"ddp",
                   "data parallelism: every device works on a part of the batch; gradients are summed",
                   {{"dp", "count", "", "devices that share the batch"}},
                   {{"dp", "dp"}},
                   ddp});
  table.push_back({"hsdp",
                   "data parallelism that stores in parts among near devices and replicates over far ones",
                   {{"shard", "count", "", "near devices that store parts"},
                    {"replicate", "count", "", "groups of them"},
                    {"level", "integer", "3", "of ZeRO: 1, 2 or 3"}},
                   {{"shard", "dp_shard"}, {"replicate", "dp_replicate"}},
                   hsdp});
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
  table.push_back(
      {"tp",
       "tensor parallelism: heads, feed-forward and vocabulary are cut, activations summed after the second matrix of each pair",
       {{"n", "count", "", "devices that share a layer"},
        {"sequence", "word", "whole", "sp: what no parameter cuts is cut along the sequence; sp_regather: backward gathers it anew"},
        {"cut", "word", "inner", "bottleneck: also the width of the residual stream, for low-rank layers"}},
       {{"n", "tp"}},
       tp});
  table.push_back({"tp2d",
                   "tensor parallelism that cuts matrices on both dimensions over two axes",
                   {{"inner", "count", "", "devices along heads, feed-forward and vocabulary"},
                    {"width", "count", "", "devices along the width of the residual stream"}},
                   {{"inner", "tp"}, {"width", "tp_width"}},
                   tp2d});
  table.push_back({"zero",
                   "data parallelism that stores optimizer states (1), gradients (2) and parameters (3) in parts",
                   {{"level", "integer", "", "1, 2 or 3"}, {"dp", "count", "", "devices that share the batch"}},
                   {{"dp", "dp"}},
                   zero});
  return table;
}

}  // namespace skirl
