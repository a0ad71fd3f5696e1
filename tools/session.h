#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ir/plan.h"
#include "passes/manager.h"
#include "runtime/step.h"
#include "strategies/registry.h"
#include "tools/options.h"
#include "tools/text_data.h"

namespace skirl {

/// From what stands on the command line to graphs and plans. Throws Error for what cannot be done.
class Session {
 public:
  /// Loads the plugins.
  explicit Session(const Options& options);

  const Registry& registry() const { return registry_; }

  /// The training step on one device, before any pass.
  Graph one_device_step() const;
  /// What the strategy stands for; without one, everything is placed on device 0.
  std::vector<Directive> directives(const Graph& step) const;
  /// The step after the passes (up to --stop-after), dumped where --dump says.
  Graph rewritten(Graph step, std::span<const Directive> directives, const std::function<void(const PassReport&)>& observer = {},
                  bool verify = true) const;
  /// Lowers a rewritten step. A kernel gets the cores of its device: 1 where devices are at least as many as cores.
  Plan lowered(Graph rewritten) const;
  /// The plan at options.plan.
  Plan saved_plan() const;

 private:
  const Options& options_;
  std::vector<std::shared_ptr<void>> plugins_;  // outlive what they added
  Registry registry_;
};

/// What one step after another is fed with: rows of --data, and random values for every other input.
class Feed {
 public:
  /// Throws Error if the data cannot be read or does not fit the graph, which must outlive the feed.
  Feed(const Options& options, const Graph& graph);
  TensorMap inputs(std::int64_t step) const;
  /// Tokens of a step where the model reads text, else samples.
  std::int64_t tokens() const { return tokens_; }

 private:
  const Graph& graph_;
  std::uint64_t seed_;
  std::optional<TextData> text_;
  std::int64_t tokens_ = 0;
};

}  // namespace skirl
