#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/verify.h"
#include "passes/pass.h"

namespace skirl {

/// What the manager tells about a pass that has run: the graph after it is valid.
struct PassReport {
  std::size_t index = 0;  // 1, 2, … ; 0 is the graph given
  std::string name;
  const Directive* directive = nullptr;  // null for index 0
  const Graph* graph = nullptr;
  double pass_ms = 0;
  double verify_ms = 0;
};

struct ManagerOptions {
  bool verify = true;
  std::optional<std::size_t> stop_after;            // number of passes to run
  std::string dump_dir;                             // writes 00_start.dag, 01_partition.dag, …; empty: nowhere
  std::function<void(const PassReport&)> observer;  // called after each pass; may throw to stop
};

/// Runs directives in the order written. Throws Error for an unknown pass, for one that comes too late in the legal order (and says which
/// to move), and, naming the guilty pass, for breaches that `verify` finds after it. Errors of a pass are located at its directive.
Graph run_passes(Graph graph, std::span<const Directive> directives, std::span<const PassInfo> passes, const ManagerOptions& options = {});

/// Sorts directives into the legal order, keeping the written order within a rank.
std::vector<Directive> in_legal_order(std::vector<Directive> directives, std::span<const PassInfo> passes);

}  // namespace skirl
