#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "passes/differentiate.h"
#include "strategies/registry.h"

/// Small models and strategies as text, and what the passes make of them.
namespace skirl::test {

std::string number(std::int64_t n);

/// `layers` linear layers "l0.w", "l1.w", … of width `width` in f64 with tanh between, from input "x" towards "y"; LAYER numbers them.
/// `frozen` ones are not trained; `loss` is the loss statement's right side.
std::string mlp_text(std::int64_t layers, std::int64_t width, std::int64_t batch, const std::string& loss = "mse %x %y",
                     const std::set<std::int64_t>& frozen = {});

OptimizerParams adam();
OptimizerParams sgd(std::optional<double> clip = {});
OptimizerParams gradients_only();

/// A file of these directives (their JSON, with commas between), made in the temporary folder.
std::string strategy_file(const std::string& directives);

struct Compiled {
  Graph step;    // one device
  Graph placed;  // after all passes
};
Compiled compiled(const std::string& model, const std::string& strategy, const OptimizerParams& optimizer);

/// One pass on a graph given as text, with its parameters as JSON.
Graph after(const PassInfo& pass, const Graph& graph, const std::string& params);
Graph after(const PassInfo& pass, const std::string& graph, const std::string& params);

/// What law 1 finds wrong, after every pass and for the plan on cpu; empty if nothing.
std::string broken(const std::string& model, const std::string& strategy, const OptimizerParams& optimizer = adam(), int steps = 3);

/// Nodes with this operator, and this name if one is given.
std::int64_t count(const Graph& graph, Op op, std::string_view name = "");
/// The integer that the node has as value of a tag, or −1.
std::int64_t tag_of(const Graph& graph, NodeId node, std::string_view tag);

}  // namespace skirl::test
