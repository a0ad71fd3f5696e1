#include "passes/manager.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "ir/error.h"
#include "ir/text.h"

namespace skirl {
namespace {

const PassInfo& pass_named(const Directive& directive, std::span<const PassInfo> passes) {
  for (const PassInfo& pass : passes)
    if (pass.name == directive.op) return pass;
  std::vector<std::string> names;
  for (const PassInfo& pass : passes) names.push_back(pass.name);
  const std::string place = directive.file.empty() ? "" : directive.file + " " + directive.pointer;
  throw Error("there is no pass '" + directive.op.substr(0, 64) + "'; known: " + nearest_first(directive.op, names), place);
}

std::string place_of(const Directive& directive) {
  return directive.file.empty() ? "directive '" + directive.op + "'" : directive.file + " " + directive.pointer;
}

void dump(const Graph& graph, const std::string& folder, std::size_t index, const std::string& name) {
  if (folder.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  char number[24];
  std::snprintf(number, sizeof number, "%02zu_", index);
  const std::filesystem::path path = std::filesystem::path(folder) / (number + name + ".dag");
  std::ofstream out(path);
  out << print(graph);
  if (!out.flush()) throw Error("cannot write the dump " + path.string());
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Verifies and reports the graph as it is after a pass.
void conclude(const Graph& graph, PassReport report, const ManagerOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.verify) {
    const std::vector<Breach> breaches = verify(graph);
    if (!breaches.empty()) {
      std::string text = (report.index == 0 ? "the graph given" : "pass " + std::to_string(report.index) + " '" + report.name + "'") +
                         " breaks " + std::to_string(breaches.size()) + " rule" + (breaches.size() == 1 ? "" : "s");
      for (std::size_t i = 0; i < breaches.size() && i < 8; ++i)
        text += "\n  R" + std::to_string(breaches[i].rule) + " " + breaches[i].message;
      if (breaches.size() > 8) text += "\n  … and " + std::to_string(breaches.size() - 8) + " more";
      throw Error(text);
    }
  }
  report.verify_ms = ms_since(start);
  report.graph = &graph;
  dump(graph, options.dump_dir, report.index, report.name);
  if (options.observer) options.observer(report);
}

}  // namespace

Graph run_passes(Graph graph, std::span<const Directive> directives, std::span<const PassInfo> passes, const ManagerOptions& options) {
  const Directive* latest = nullptr;
  int rank = 0;
  for (const Directive& directive : directives) {  // before the first pass runs
    const PassInfo& pass = pass_named(directive, passes);
    if (pass.rank < rank)
      throw Error("'" + directive.op + "' comes too late: it must stand before '" + latest->op + "'", place_of(directive),
                  "the legal order is partition, split, place, layouts, recompute, order, then bucket, prefetch, fuse");
    if (pass.rank > rank || latest == nullptr) latest = &directive;
    rank = pass.rank;
  }
  conclude(graph, {0, "start", nullptr, nullptr, 0, 0}, options);
  std::size_t index = 0;
  for (const Directive& directive : directives) {
    if (options.stop_after && index == *options.stop_after) break;
    ++index;
    const PassInfo& pass = pass_named(directive, passes);
    const auto start = std::chrono::steady_clock::now();
    try {
      graph = pass.run(std::move(graph), directive);
    } catch (const Error& error) {
      // A complaint about the JSON itself has its place already.
      if (!directive.file.empty() && error.at().find(directive.file) != std::string::npos) throw;
      throw error.located(place_of(directive));
    }
    conclude(graph, {index, pass.name, &directive, nullptr, ms_since(start), 0}, options);
  }
  return graph;
}

std::vector<Directive> in_legal_order(std::vector<Directive> directives, std::span<const PassInfo> passes) {
  std::stable_sort(directives.begin(), directives.end(),
                   [&](const Directive& a, const Directive& b) { return pass_named(a, passes).rank < pass_named(b, passes).rank; });
  return directives;
}

}  // namespace skirl
