#include "tests/support/compiled.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "ir/text.h"
#include "passes/manager.h"
#include "strategies/compose.h"
#include "tests/support/law1.h"

namespace skirl::test {
namespace {

/// A folder of this process that goes when it ends.
struct TemporaryFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("skirl_test_" + std::to_string(::getpid()));
  TemporaryFolder() { std::filesystem::create_directories(path); }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

}  // namespace

std::string number(std::int64_t n) { return std::to_string(n); }

std::string mlp_text(std::int64_t layers, std::int64_t width, std::int64_t batch, const std::string& loss,
                     const std::set<std::int64_t>& frozen) {
  const std::string io = " : f64[" + number(batch) + "," + number(width) + "] cut 0\n";
  const std::string square = " : f64[" + number(width) + "," + number(width) + "] normal(0.5)";
  std::string text = "input %x \"x\"" + io + "input %y \"y\"" + io;
  for (std::int64_t i = 0; i < layers; ++i) {
    text += "param %w \"l" + number(i) + ".w\"" + square + (frozen.count(i) != 0 ? " frozen\n" : "\n");
    const std::string linear = "einsum \"bi,ij->bj\" %x %w";
    text += "%x = " + (i + 1 < layers ? "tanh (" + linear + ")" : linear) + " LAYER=" + number(i) + "\n";
  }
  return text + "loss \"loss\" = " + loss + "\n";
}

OptimizerParams adam() { return {.optimizer = "adamw", .lr = 0.05, .weight_decay = 0.01}; }
OptimizerParams sgd(std::optional<double> clip) { return {.optimizer = "sgd", .lr = 0.1, .clip = clip}; }
OptimizerParams gradients_only() { return {.optimizer = "none"}; }

std::string strategy_file(const std::string& directives) {
  static TemporaryFolder folder;
  static int made = 0;
  const std::filesystem::path path = folder.path / (number(made++) + ".json");
  std::ofstream(path) << "{\"directives\": [" << directives << "]}";
  return path.string();
}

Compiled compiled(const std::string& model, const std::string& strategy, const OptimizerParams& optimizer) {
  const Registry registry;
  Graph step = differentiate(parse(model, "model"), optimizer);
  Graph placed = run_passes(step, strategy_directives(strategy, signature_of(step), registry), registry.passes());
  return {std::move(step), std::move(placed)};
}

Graph after(const PassInfo& pass, const Graph& graph, const std::string& params) {
  Directive directive;
  directive.op = pass.name;
  directive.params = parse_json(params, "s.json");
  return pass.run(graph, directive);
}
Graph after(const PassInfo& pass, const std::string& graph, const std::string& params) { return after(pass, parse(graph), params); }

std::string broken(const std::string& model, const std::string& strategy, const OptimizerParams& optimizer, int steps) {
  const Registry registry;
  double worst = 0;
  return broken({model, strategy, optimizer, steps}, registry, worst);
}

std::int64_t count(const Graph& graph, Op op, std::string_view name) {
  std::int64_t n = 0;
  graph.for_each_node([&](NodeId node) { n += graph[node].op == op && (name.empty() || graph[graph[node].name] == name) ? 1 : 0; });
  return n;
}

std::int64_t tag_of(const Graph& graph, NodeId node, std::string_view tag) {
  const TagValue* value = graph[graph[node].tags].find(graph.find_name(tag));
  return value == nullptr || value->kind != TagValue::Kind::Integer ? -1 : value->number;
}

}  // namespace skirl::test
