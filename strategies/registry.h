#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "strategies/schedule.h"

namespace skirl {

class Registry;

/// What a strategy may ask about the model it is applied to.
struct GraphSignature {
  std::int64_t batch = 0;                          // size of the inputs' batch dimension; 0 if none
  std::int64_t layers = 0;                         // distinct values of the tag LAYER
  std::vector<std::string> params;                 // logical names, in order
  std::map<std::string, std::int64_t> tag_counts;  // tag name → distinct values
  std::int64_t key_heads = 0;                      // of attention whose queries share key heads, if all have the same number; else 0
};

/// Values that a user gave an item: by name, after defaults are filled in. Integers, sizes (in bytes) and words as JSON; an item argument
/// as
/// {"item": name, "args": {…}}. They are of the types that the recipe's parameters state.
using StrategyArgs = std::map<std::string, Json>;

/// What the directives of one recipe depend on besides its own arguments.
struct StrategyContext {
  const GraphSignature& model;
  std::map<std::string, std::int64_t> mesh;  // degree of every axis of the whole composition: pp, dp, cp, tp, …
  std::vector<std::string>
      order;  // those that recipes of the composition use, outermost first: neighbours on the last ones are neighbours among the devices
  const Registry& registry;  // to look up schedules
};

/// A recipe: name, parameters in positional order, and a function from parameters and graph signature to directives, in any order.
struct StrategyInfo {
  std::string name;
  std::string help;
  std::vector<ParamInfo> params;  // `type` is "count", "integer", "size", "word" or "item"; a fallback may name another parameter
  std::map<std::string, std::string> degrees;  // the degrees that it asks for, parameter → axis: {"dp": "dp"}, {"ranks": "pp"}
  std::function<std::vector<Directive>(const StrategyArgs&, const StrategyContext&)> make;
  std::string origin = "built-in";
};

/// Everything that can be named: built-in, and added by plugins.
class Registry {
 public:
  Registry();  // with all that is built in

  /// Throws Error for a name that is there already, is not a word, or an entry without its function.
  void add(PassInfo pass);
  void add(StrategyInfo strategy);
  void add(ScheduleInfo schedule);

  const std::vector<PassInfo>& passes() const { return passes_; }
  const std::vector<StrategyInfo>& strategies() const { return strategies_; }
  const std::vector<ScheduleInfo>& schedules() const { return schedules_; }
  /// Throws Error for an unknown name, with the known ones, nearest first.
  const StrategyInfo& strategy(std::string_view name) const;
  const ScheduleInfo& schedule(std::string_view name) const;

  /// Whose entries are being added: "built-in", or a plugin's path.
  std::string origin = "built-in";

 private:
  std::vector<PassInfo> passes_;
  std::vector<StrategyInfo> strategies_;
  std::vector<ScheduleInfo> schedules_;
};

GraphSignature signature_of(const Graph& graph);

}  // namespace skirl
