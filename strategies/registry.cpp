#include "strategies/registry.h"

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "passes/table.h"
#include "strategies/recipes.h"

namespace skirl {
namespace {

bool is_word(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  return name.find_first_of(kLetters) != std::string_view::npos &&
         name.find_first_not_of(std::string(kLetters) + "0123456789.-") == std::string_view::npos;
}

template <class Info>
void add_named(std::vector<Info>& entries, Info info, const char* kind, const std::string& origin, bool has_function) {
  const std::string what = std::string(kind) + " '" + info.name.substr(0, 64) + "'";
  if (!is_word(info.name))
    throw Error(what + " of " + origin + ": the name is no word", "", "letters, digits, '_', '.' and '-', with one letter");
  if (!has_function) throw Error(what + " of " + origin + " has no function");
  for (const Info& known : entries)
    if (known.name == info.name) throw Error(what + " of " + origin + " is there already: " + known.origin);
  info.origin = origin;
  entries.push_back(std::move(info));
}

template <class Info>
const Info& named(const std::vector<Info>& entries, std::string_view name, const char* kind) {
  std::vector<std::string> known;
  for (const Info& entry : entries) {
    if (entry.name == name) return entry;
    known.push_back(entry.name);
  }
  throw Error("there is no " + std::string(kind) + " '" + std::string(name.substr(0, 64)) + "'; known: " + nearest_first(name, known));
}

}  // namespace

Registry::Registry() {
  for (PassInfo& pass : pass_table()) add(std::move(pass));
  for (StrategyInfo& recipe : recipe_table()) add(std::move(recipe));
  for (ScheduleInfo& schedule : schedule_table()) add(std::move(schedule));
}

void Registry::add(PassInfo pass) {
  const bool has_function = pass.run != nullptr;
  add_named(passes_, std::move(pass), "pass", origin, has_function);
}

void Registry::add(StrategyInfo strategy) {
  const bool has_function = strategy.make != nullptr;
  add_named(strategies_, std::move(strategy), "strategy", origin, has_function);
}

void Registry::add(ScheduleInfo schedule) {
  const bool has_function = schedule.make != nullptr;
  add_named(schedules_, std::move(schedule), "schedule", origin, has_function);
}

const StrategyInfo& Registry::strategy(std::string_view name) const { return named(strategies_, name, "strategy"); }
const ScheduleInfo& Registry::schedule(std::string_view name) const { return named(schedules_, name, "schedule"); }

GraphSignature signature_of(const Graph& graph) {
  GraphSignature signature;
  std::vector<char> used(graph.tag_set_count(), 0);
  std::set<std::int64_t> key_heads;
  graph.for_each_node([&](NodeId node) {
    used[graph[node].tags.index()] = 1;
    if (graph[node].op == Op::Param) signature.params.push_back(graph[graph[node].name]);
    if (graph[node].op == Op::Attention) {
      const std::int64_t keys = graph.type(graph.operand(node, 1)).shape[2];
      if (keys != graph.type(graph.operand(node, 0)).shape[2]) key_heads.insert(keys);
    }
    if (graph[node].op != Op::Input) return;
    const InputAttrs& attrs = graph.attrs<InputAttrs>(node);
    if (attrs.cut) signature.batch = std::max(signature.batch, graph.type(graph.result(node)).shape[static_cast<std::size_t>(*attrs.cut)]);
  });
  if (key_heads.size() == 1) signature.key_heads = *key_heads.begin();
  std::map<std::string, std::set<std::pair<TagValue::Kind, std::int64_t>>> values;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i])
      for (const Tag& tag : graph[TagSetId(i)].tags) values[graph[tag.name]].emplace(tag.value.kind, tag.value.number);
  for (const auto& [tag, distinct] : values) signature.tag_counts[tag] = static_cast<std::int64_t>(distinct.size());
  if (const auto layers = values.find("LAYER"); layers != values.end())
    signature.layers = std::count_if(layers->second.begin(), layers->second.end(),
                                     [](const auto& value) { return value.first == TagValue::Kind::Integer; });
  return signature;
}

}  // namespace skirl
