#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "strategies/schedule.h"

namespace skirl {

/// What a strategy may ask about the model it is applied to.
struct GraphSignature {
  std::int64_t batch = 0;                        // size of the inputs' batch dimension; 0 if none
  std::int64_t layers = 0;                       // distinct values of the tag LAYER
  std::vector<std::string> params;               // logical names, in order
  std::map<std::string, std::int64_t> tag_counts;  // tag name → distinct values
};

/// Values that a user gave an item: by name, after defaults are filled in. Integers, words and sizes as JSON; an item argument as {"item": name, "args": {…}}.
using StrategyArgs = std::map<std::string, Json>;

/// A recipe: name, parameters in positional order, and a function from parameters and graph signature to directives. Degrees along mesh axes
/// that it asks for are named by `degrees` (parameter → axis).
struct StrategyInfo {
  std::string name;
  std::string help;
  std::vector<ParamInfo> params;
  std::map<std::string, std::string> degrees;  // {"dp": "dp"}, {"ranks": "pp"}
  /// `mesh` holds the degree of every axis of the whole composition (pp, dp, cp, ep, tp).
  std::function<std::vector<Directive>(const StrategyArgs&, const GraphSignature&, const std::map<std::string, std::int64_t>& mesh)> make;
  std::string origin = "built-in";
};

/// Everything that can be named: built-in, and added by plugins. Adding a name that is there is an Error.
class Registry {
 public:
  Registry();  // with all that is built in
  void add(PassInfo pass);
  void add(StrategyInfo strategy);
  void add(ScheduleInfo schedule);
  const std::vector<PassInfo>& passes() const { return passes_; }
  const std::vector<StrategyInfo>& strategies() const { return strategies_; }
  const std::vector<ScheduleInfo>& schedules() const { return schedules_; }
  /// Whose entries are being added: "built-in", or a plugin's path.
  std::string origin = "built-in";

 private:
  std::vector<PassInfo> passes_;
  std::vector<StrategyInfo> strategies_;
  std::vector<ScheduleInfo> schedules_;
};

GraphSignature signature_of(const Graph& graph);

}  // namespace skirl
