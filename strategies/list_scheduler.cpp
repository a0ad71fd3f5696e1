#include "strategies/list_scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "strategies/list_patterns.h"
#include "strategies/schedule_cost.h"
#include "strategies/schedules/generators.h"
#include "strategies/schedules/shape.h"

namespace skirl {
namespace {

constexpr std::int64_t kCellsOfPatterns = 3'000'000;  // cells that lists by patterns go over, all together
constexpr double kTie = 1e-9;                         // of the makespan

void check(const ListProblem& problem) {
  const std::size_t stages = problem.placement.rank.size();
  if (!problem.times.stages.empty() && problem.times.stages.size() != stages)
    throw Error("list: times of " + std::to_string(problem.times.stages.size()) + " stages, expected " + std::to_string(stages));
  for (std::size_t s = 0; s < problem.times.stages.size(); ++s) {
    const StageTimes& t = problem.times.stages[s];
    for (const double time : {t.forward, t.input, t.weight})
      if (!std::isfinite(time) || time <= 0)
        throw Error("list: a time of stage " + std::to_string(s) + " is " + std::to_string(time) + ", expected a number above 0");
  }
  if (!std::isfinite(problem.times.transfer) || problem.times.transfer < 0)
    throw Error("list: the transfer time is " + std::to_string(problem.times.transfer) + ", expected a number of at least 0");
  std::vector<std::int64_t> least(problem.memory.size(), 0);
  for (std::size_t s = 0; s < stages; ++s) {
    ++least[static_cast<std::size_t>(problem.placement.rank[s])];
    if (problem.placement.two_ways()) ++least[static_cast<std::size_t>(problem.placement.reverse_rank[s])];
  }
  for (std::size_t rank = 0; rank < least.size(); ++rank)
    if (problem.memory[rank] < least[rank])
      throw Error("list: rank " + std::to_string(rank) + " may hold " + std::to_string(problem.memory[rank]) +
                      " activations, expected at least " + std::to_string(least[rank]) + ": one microbatch on each of its stages",
                  "", "the nearest is " + std::to_string(least[rank]));
}

/// The best table so far: the fastest, and of those the one whose ranks idle least between their first and last cell.
class Search {
 public:
  explicit Search(const ListProblem& problem)
      : p_(problem), bound_(makespan_bound(problem.placement, problem.microbatches, problem.times)) {}

  ScheduleTable run() {
    if (!p_.times.stages.empty()) plan_for_unit_times();
    try_fixed_tables();
    if (!done()) try_rules();
    if (!done() && !p_.placement.two_ways()) try_patterns();
    return std::move(best_);
  }

 private:
  /// Whether nothing can be better.
  bool done() const { return makespan_ <= bound_ * (1 + kTie) && span_bubble_ <= bound_ * kTie; }

  bool improves(double makespan, double span_bubble) {
    const bool tie = std::abs(makespan - makespan_) <= makespan * kTie;
    if (!tie && makespan > makespan_) return false;
    if (tie && span_bubble >= span_bubble_ - makespan * kTie) return false;
    makespan_ = makespan;
    span_bubble_ = span_bubble;
    return true;
  }

  void offer(const ListRun& run) {
    if (!std::isfinite(run.makespan) || !improves(run.makespan, run.span_bubble)) return;
    best_ = empty_table(static_cast<std::int64_t>(p_.memory.size()), p_.microbatches, p_.placement);
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank)
      for (const Cell& cell : run.ranks[rank]) best_.ranks[rank].push_back({cell});
  }

  void offer(ScheduleTable table) {
    if (table.placement != p_.placement) return;
    const std::vector<std::int64_t> peaks = peak_activations(table);
    for (std::size_t rank = 0; rank < peaks.size(); ++rank)
      if (peaks[rank] > p_.memory[rank]) return;
    const ScheduleCost cost = schedule_cost(table, p_.times);
    if (improves(cost.makespan, cost.span_bubble)) best_ = std::move(table);
  }

  /// What is best where all times are equal is among the fixed tables to compare with.
  void plan_for_unit_times() {
    ListProblem equal = p_;
    equal.times = {};
    offer(Search(equal).run());
  }

  void try_fixed_tables() {
    const std::int64_t ranks = static_cast<std::int64_t>(p_.memory.size());
    const std::int64_t stages = static_cast<std::int64_t>(p_.placement.rank.size());
    ScheduleParams params{ranks, p_.microbatches, stages / ranks};
    if (p_.placement == loop_placement(ranks, 1)) {
      offer(gpipe(params));
      offer(one_f_one_b(params));
      offer(zbh1(params));
      offer(zb1p(params));
    } else if (stages % ranks == 0 && p_.placement == loop_placement(ranks, stages / ranks)) {
      offer(looped_bfs(params));
      offer(interleaved(params));
      offer(interleaved_zero_bubble(params));
      for (std::int64_t group = 1; group <= std::min(ranks, p_.microbatches); group *= 2) {
        params.group = group;
        offer(grouped_interleaved(params));
      }
    } else if (p_.placement == v_placement(ranks)) {
      offer(zbv_closed(params));
      offer(dualpipev(params));
    } else if (p_.placement.two_ways() && ranks % 2 == 0) {
      offer(dualpipe(params));
    }
  }

  void try_rules() {
    const bool several = p_.placement.rank.size() > p_.memory.size() || p_.placement.two_ways();
    for (const bool forward_first : {false, true})
      for (const bool weight_at_once : {false, true})
        for (const bool deep_first : {true, false})
          for (const double patience : {0.0, 0.5, 1.0}) {
            if (!deep_first && !several) continue;          // one stage a rank: there is nothing to choose
            if (weight_at_once && patience != 0) continue;  // no weights are left to wait for
            offer(run_list(p_, ListRule{forward_first, weight_at_once, deep_first, patience}));
          }
  }

  void try_patterns() {
    const std::int64_t cells = 3 * p_.microbatches * static_cast<std::int64_t>(p_.placement.rank.size());
    const std::int64_t affordable = std::max<std::int64_t>(kCellsOfPatterns / cells / static_cast<std::int64_t>(std::size(kEarliness)), 4);
    ListPattern best;
    double best_makespan = std::numeric_limits<double>::max();
    for (const ListPattern& pattern : list_patterns(p_, static_cast<std::size_t>(affordable))) {
      const double makespan = try_pattern(pattern);
      if (done()) return;
      if (makespan >= best_makespan) continue;
      best_makespan = makespan;
      best = pattern;
    }
    if (best.forward.empty()) return;
    std::uint64_t random = 1;
    for (std::int64_t i = 0; i < affordable / 4 && !done(); ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX: the same numbers everywhere
      const ListPattern other = varied(p_, best, random >> 24);
      if (other.forward == best.forward && other.input == best.input) continue;
      const double makespan = try_pattern(other);
      if (makespan > best_makespan) continue;
      best_makespan = makespan;
      best = other;
    }
  }

  /// The best makespan that lists by this pattern have.
  double try_pattern(ListPattern pattern) {
    double makespan = std::numeric_limits<double>::max();
    for (const Earliness& early : kEarliness) {
      pattern.early_forward = early.forward;
      pattern.early_input = early.input;
      const ListRun run = run_list(p_, pattern);
      makespan = std::min(makespan, run.makespan);
      offer(run);
    }
    return makespan;
  }

  struct Earliness {
    Early forward, input;
  };
  static constexpr Earliness kEarliness[] = {{Early::Never, Early::BeforeWeights},    {Early::WhenIdle, Early::WhenIdle},
                                             {Early::WhenIdle, Early::BeforeWeights}, {Early::BeforeWeights, Early::BeforeWeights},
                                             {Early::WhenIdle, Early::Never},         {Early::BeforeWeights, Early::WhenIdle}};

  const ListProblem& p_;
  double bound_;
  ScheduleTable best_;
  double makespan_ = std::numeric_limits<double>::max();
  double span_bubble_ = std::numeric_limits<double>::max();
};

}  // namespace

ScheduleTable list_schedule(const ListProblem& problem) {
  check(problem);
  return Search(problem).run();
}

}  // namespace skirl
