#include "strategies/compose.h"

#include <algorithm>
#include <charconv>

#include "ir/error.h"
#include "passes/manager.h"
#include "strategies/grammar.h"
#include "strategies/recipes.h"

namespace skirl {
namespace {

/// Outermost first. An axis belongs to the family that its name starts with.
constexpr const char* kAxes[] = {"pp", "dp_replicate", "dp_shard", "dp", "cp", "ep", "tp_width", "tp"};
constexpr std::int64_t kMostDevices = 1 << 20;

std::vector<Directive> directives_in(const JsonView& list) {
  std::vector<Directive> directives;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView entry = list.at(i);
    if (!entry.is_object()) entry.fail("a directive is an object such as {\"op\": \"place\", …}");
    Directive directive;
    directive.op = entry.at("op").string();
    directive.file = entry.file();
    directive.pointer = entry.where().substr(entry.file().size() + 1);
    for (const std::string& key : entry.keys())
      if (key != "op") directive.params[key] = entry.at(key).raw();
    directives.push_back(std::move(directive));
  }
  if (directives.empty()) list.fail("the strategy has no directives");
  return directives;
}

std::vector<Directive> load_file(const std::string& path, const Registry& registry) {
  const Json json = read_json_file(path);
  const JsonView file(json, path);
  if (file.is_array()) return in_legal_order(directives_in(file), registry.passes());
  if (!file.is_object()) file.fail("a strategy file is an array of directives or {\"directives\": […]}");
  file.only_keys({"directives"});
  return directives_in(file.at("directives"));
}

std::string family(const std::string& axis) { return axis.substr(0, axis.find('_')); }

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words{""};
  for (const char c : list) {
    if (c == ',')
      words.emplace_back();
    else if (c != ' ')
      words.back() += c;
  }
  return words;
}

/// Makes of a composition of items one list of directives.
class Composition {
 public:
  Composition(const std::string& text, const GraphSignature& model, const Registry& registry)
      : text_(text), registry_(registry), context_{model, {}, {}, registry} {
    for (const char* axis : kAxes) {
      context_.mesh[axis] = 1;
      context_.order.emplace_back(axis);
    }
  }

  std::vector<Directive> run(const std::string& mesh_order) {
    for (StrategyItem& item : parse_strategy(text_)) add(std::move(item));
    std::int64_t devices = 1;
    for (const Use& use : uses_)
      for (const auto& [param, axis] : use.recipe->degrees) {
        const std::int64_t degree = use.args.at(param).get<std::int64_t>();
        if (degree > kMostDevices / devices)
          fail(use.item.at, "the degrees multiply to more than " + std::to_string(kMostDevices) + " devices");
        devices *= degree;
        context_.mesh[axis] = degree;
        if (std::find(context_.order.begin(), context_.order.end(), axis) == context_.order.end()) context_.order.push_back(axis);
      }
    // A cut along the sequence goes outside that of tensor parallelism: inner axes first.
    std::stable_sort(uses_.begin(), uses_.end(), [&](const Use& a, const Use& b) { return innermost(a) > innermost(b); });
    if (!mesh_order.empty()) reorder(mesh_order);
    std::erase_if(context_.order, [&](const std::string& axis) { return !is_used(axis); });
    std::vector<Directive> all;
    for (const Use& use : uses_)
      for (Directive& directive : made_by(use)) all.push_back(std::move(directive));
    if (std::none_of(all.begin(), all.end(), [](const Directive& d) { return d.op == "place"; }))
      all.push_back(place_directive(Json::object(), 0, context_));
    return in_legal_order(std::move(all), registry_.passes());
  }

 private:
  struct Use {
    StrategyItem item;
    const StrategyInfo* recipe;
    StrategyArgs args;
  };

  bool is_used(const std::string& axis) const {
    return std::any_of(uses_.begin(), uses_.end(), [&](const Use& use) {
      return std::any_of(use.recipe->degrees.begin(), use.recipe->degrees.end(), [&](const auto& degree) { return degree.second == axis; });
    });
  }

  /// Place of the innermost axis that an item uses, in the usual order.
  std::ptrdiff_t innermost(const Use& use) const {
    std::ptrdiff_t place = -1;
    for (const auto& [param, axis] : use.recipe->degrees)
      place = std::max(place, std::find(context_.order.begin(), context_.order.end(), axis) - context_.order.begin());
    return place;
  }

  /// Puts the axes in the order that the user gave, by name or by family.
  void reorder(const std::string& mesh_order) {
    const auto refuse = [&](const std::string& complaint) {
      throw Error("--mesh \"" + mesh_order + "\": " + complaint, "", "the axes from the outermost to the innermost, such as \"pp,dp,tp\"");
    };
    std::vector<std::string> order;
    for (const std::string& word : words_of(mesh_order)) {
      bool any = false;
      for (const std::string& axis : context_.order) {
        if (axis != word && family(axis) != word) continue;
        any = true;
        if (axis != word && std::find(order.begin(), order.end(), axis) != order.end()) continue;  // its own name stood before
        if (std::find(order.begin(), order.end(), axis) != order.end()) refuse("the axis " + axis + " stands twice");
        order.push_back(axis);
      }
      if (!any) refuse("there is no axis '" + word.substr(0, 32) + "'; known: " + nearest_first(word, context_.order));
    }
    for (const std::string& axis : context_.order) {
      if (std::find(order.begin(), order.end(), axis) != order.end()) continue;
      if (context_.mesh.at(axis) > 1)
        refuse("the axis " + axis + ", of " + std::to_string(context_.mesh.at(axis)) + " devices, is missing");
      order.push_back(axis);
    }
    context_.order = std::move(order);
  }

  [[noreturn]] void fail(std::size_t at, const std::string& complaint, const std::string& help = {}) const {
    throw strategy_error(text_, at, complaint, help);
  }

  std::vector<Directive> made_by(const Use& use) const {
    try {
      return use.recipe->make(use.args, context_);
    } catch (const Error& error) {
      if (!error.at().empty()) throw;
      fail(use.item.at, error.complaint(), error.help());
    }
  }

  void add(StrategyItem item) {
    const StrategyInfo* recipe = find(item);
    for (const Use& use : uses_) {
      if (use.recipe == recipe) fail(item.at, "the recipe " + item.name + " stands twice, expected it once");
      for (const auto& [param, axis] : recipe->degrees)
        for (const auto& [other_param, other_axis] : use.recipe->degrees)
          if (family(axis) == family(other_axis))
            fail(item.at, use.item.name + " and " + item.name + " both use the axis " + family(axis) + ", expected one of them",
                 item.name == "ddp" || use.item.name == "ddp" ? "zero does what ddp does, and shards" : "");
    }
    StrategyArgs args = arguments(item, *recipe);
    uses_.push_back({std::move(item), recipe, std::move(args)});
  }

  const StrategyInfo* find(const StrategyItem& item) const {
    try {
      return &registry_.strategy(item.name);
    } catch (const Error& error) {
      fail(item.at, error.complaint());
    }
  }

  static std::string parameter_list(const StrategyInfo& recipe) {
    std::string list;
    for (const ParamInfo& p : recipe.params) list += (list.empty() ? "" : ", ") + p.name + (p.fallback.empty() ? "" : "=" + p.fallback);
    return recipe.name + "(" + list + ")";
  }

  StrategyArgs arguments(const StrategyItem& item, const StrategyInfo& recipe) const {
    StrategyArgs args;
    for (std::size_t i = 0; i < item.args.size(); ++i) {
      const StrategyArg& arg = item.args[i];
      const ParamInfo& param = parameter(recipe, arg, i);
      if (args.count(param.name) != 0) fail(arg.at, recipe.name + ": " + param.name + " is given twice");
      args[param.name] = value(recipe, param, arg);
    }
    for (const ParamInfo& param : recipe.params) {
      if (args.count(param.name) != 0) continue;
      if (param.fallback.empty()) fail(item.at, recipe.name + ": " + param.name + " is missing: " + param.help, parameter_list(recipe));
      args[param.name] = fallback(param, args);
    }
    return args;
  }

  const ParamInfo& parameter(const StrategyInfo& recipe, const StrategyArg& arg, std::size_t position) const {
    if (arg.key.empty()) {
      if (position < recipe.params.size()) return recipe.params[position];
      fail(arg.at, recipe.name + " takes at most " + std::to_string(recipe.params.size()) + " arguments", parameter_list(recipe));
    }
    std::vector<std::string> known;
    for (const ParamInfo& param : recipe.params) {
      if (param.name == arg.key) return param;
      known.push_back(param.name);
    }
    fail(arg.at, recipe.name + " has no argument '" + arg.key.substr(0, 32) + "'; known: " + nearest_first(arg.key, known));
  }

  Json value(const StrategyInfo& recipe, const ParamInfo& param, const StrategyArg& arg) const {
    using Kind = StrategyArg::Kind;
    const auto expected = [&](const std::string& what) {
      const std::string got = arg.word.substr(0, 32) + (arg.kind == Kind::Item ? "(…)" : "");
      fail(arg.at, recipe.name + ": " + param.name + " is '" + got + "', expected " + what);
    };
    if (param.type == "count" && (arg.kind != Kind::Integer || arg.number < 1)) expected("a whole number of at least 1");
    if (param.type == "integer" && arg.kind != Kind::Integer) expected("a whole number");
    if (param.type == "size" && arg.kind != Kind::Size) expected("a size such as 25MB");
    if (param.type == "word" && arg.kind != Kind::Word) expected("a word");
    if (param.type == "item" && arg.kind != Kind::Item && arg.kind != Kind::Word) expected("an item such as " + param.fallback);
    switch (arg.kind) {
      case Kind::Integer:
      case Kind::Size:
        return arg.number;
      case Kind::Word:
        return param.type == "item" ? item_value({arg.word, {}, arg.at}) : Json(arg.word);
      case Kind::Item:
        return item_value(arg.item.front());
    }
    return nullptr;
  }

  Json item_value(const StrategyItem& item) const {
    const StrategyInfo* recipe = find(item);
    Json args = Json::object();
    for (const auto& [name, argument] : arguments(item, *recipe)) args[name] = argument;
    return {{"item", item.name}, {"args", std::move(args)}};
  }

  /// A default: the value of another parameter, a number, or a word.
  static Json fallback(const ParamInfo& param, const StrategyArgs& args) {
    if (const auto other = args.find(param.fallback); other != args.end()) return other->second;
    std::int64_t number = 0;
    const char* end = param.fallback.data() + param.fallback.size();
    if (std::from_chars(param.fallback.data(), end, number).ptr == end) return number;
    return param.fallback;
  }

  const std::string& text_;
  const Registry& registry_;
  StrategyContext context_;
  std::vector<Use> uses_;
};

Json directive_json(const Directive& directive) {
  Json json{{"op", directive.op}};
  for (const auto& [key, value] : directive.params.items()) json[key] = value;
  return json;
}

}  // namespace

std::vector<Directive> strategy_directives(const std::string& strategy, const GraphSignature& model, const Registry& registry,
                                           const std::string& mesh_order) {
  if (!strategy.ends_with(".json")) return Composition(strategy, model, registry).run(mesh_order);
  if (!mesh_order.empty())
    throw Error("--mesh \"" + mesh_order + "\": the strategy file " + strategy + " says itself which devices its meshes have", "",
                "\"axes\" of its place directives, outermost first");
  return load_file(strategy, registry);
}

Json directives_to_json(const std::vector<Directive>& directives) {
  Json list = Json::array();
  for (const Directive& directive : directives) list.push_back(directive_json(directive));
  return {{"directives", std::move(list)}};
}

std::string directives_to_text(const std::vector<Directive>& directives) {
  std::string text = "{\"directives\": [";
  for (std::size_t i = 0; i < directives.size(); ++i) text += (i ? ",\n  " : "\n  ") + directive_json(directives[i]).dump();
  return text + "\n]}\n";
}

}  // namespace skirl
