#pragma once

#include "strategies/list_scheduler.h"

namespace skirl {

/// What a greedy list prefers when a rank is free.
struct ListRule {
  bool forward_first = false;   // a forward before a backward, where both are ready and memory allows
  bool weight_at_once = false;  // the weights directly after the inputs
  bool deep_first = true;       // of several forwards or backwards: the stage nearest to the loss; else the oldest microbatch
  double patience = 0;          // how much of a weight may still be running when other work arrives
};

/// Whether work may be done before its turn in a pattern: while the rank would idle, or rather than the weights that are left.
enum class Early : std::uint8_t { Never, WhenIdle, BeforeWeights };

/// A steady state: every `period`, one more microbatch goes through all stages at these times. Forwards and backwards for inputs take their
/// turns by it, the weights fill the gaps.
struct ListPattern {
  std::vector<std::int64_t> forward;  // by stage, for microbatch 0
  std::vector<std::int64_t> input;
  std::int64_t period = 3;
  Early early_forward = Early::Never;
  Early early_input = Early::Never;
};

/// What a list came to: the order of cells on each rank, and when the last one ends; infinite where it got stuck.
struct ListRun {
  double makespan = 0;
  double span_bubble = 0;  // the longest (last end − first start − work) of a rank
  std::vector<std::vector<Cell>> ranks;
};

/// One list: time goes on, and each rank that is free starts what the rule or the pattern prefers of what has arrived.
///
/// Requires  the problem is checked (list_schedule does so); a pattern is for a placement in one direction.
ListRun run_list(const ListProblem& problem, const ListRule& rule);
ListRun run_list(const ListProblem& problem, const ListPattern& pattern);

}  // namespace skirl
