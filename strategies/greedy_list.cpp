#include "strategies/greedy_list.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace skirl {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A stage as one direction of microbatches sees it.
struct Lane {
  std::int64_t stage = 0;
  std::size_t rank = 0;
  std::size_t flow = 0;                // its direction
  std::int64_t first_microbatch = 0;   // of the flow
  std::size_t before = 0, behind = 0;  // lanes of the neighbouring stages
  bool has_before = false, has_behind = false;
  std::vector<double> forward_ready, input_ready;     // by microbatch of the flow
  std::size_t forwards = 0, inputs = 0, weights = 0;  // done; each goes in order
};

class List {
 public:
  List(const ListProblem& problem, const ListRule* rule, const ListPattern* pattern) : p_(problem), rule_(rule), pattern_(pattern) {
    const std::size_t ranks = problem.memory.size();
    lanes_of_.resize(ranks);
    held_.assign(ranks, 0);
    free_at_.assign(ranks, 0);
    idle_.assign(ranks, 0);
    run_.ranks.resize(ranks);
    const std::int64_t out = problem.placement.two_ways() ? problem.placement.reverse_from : problem.microbatches;
    add_flow(problem.placement.rank, 0, 0, out);
    if (problem.placement.two_ways()) add_flow(problem.placement.reverse_rank, 1, out, problem.microbatches - out);
  }

  ListRun run() {
    while (!wakes_.empty()) {
      const auto [time, rank] = wakes_.top();
      wakes_.pop();
      if (time < free_at_[rank]) continue;
      if (pattern_ != nullptr)
        act_by_pattern(rank, time);
      else
        act_by_rule(rank, time);
    }
    for (const double idle : idle_) run_.span_bubble = std::max(run_.span_bubble, idle);
    for (const Lane& lane : lanes_)
      if (lane.weights < lane.forward_ready.size()) run_.makespan = kNever;
    return std::move(run_);
  }

 private:
  /// A cell that could be next: the best of its kind so far.
  struct Choice {
    Lane* lane = nullptr;
    std::int64_t rating = 0;  // lower is better
    void offer(Lane& candidate, std::int64_t rated) {
      if (lane != nullptr && rating <= rated) return;
      lane = &candidate;
      rating = rated;
    }
  };
  using Wake = std::pair<double, std::size_t>;

  void add_flow(const std::vector<std::int64_t>& rank_of, std::size_t flow, std::int64_t first, std::int64_t microbatches) {
    if (microbatches == 0) return;
    const std::size_t base = lanes_.size();
    for (std::size_t s = 0; s < rank_of.size(); ++s) {
      Lane lane;
      lane.stage = static_cast<std::int64_t>(s);
      lane.rank = static_cast<std::size_t>(rank_of[s]);
      lane.flow = flow;
      lane.first_microbatch = first;
      lane.has_before = s > 0;
      lane.has_behind = s + 1 < rank_of.size();
      lane.before = base + s - 1;
      lane.behind = base + s + 1;
      lane.forward_ready.assign(static_cast<std::size_t>(microbatches), s == 0 ? 0 : kNever);
      lane.input_ready.assign(static_cast<std::size_t>(microbatches), kNever);
      lanes_of_[lane.rank].push_back(lanes_.size());
      lanes_.push_back(std::move(lane));
    }
    wakes_.emplace(0, lanes_[base].rank);
  }

  /// Whether the rank may take on one more activation and still has room for the oldest microbatch of each flow to get through. That one
  /// then always comes to its end and leaves as much room for the next, so no rank is ever full of work that waits for others.
  bool fits(const Lane& next) const {
    std::size_t oldest[2] = {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max()};
    for (const std::size_t l : lanes_of_[next.rank]) oldest[lanes_[l].flow] = std::min(oldest[lanes_[l].flow], lanes_[l].forwards);
    std::int64_t reserve = 0;
    for (const std::size_t l : lanes_of_[next.rank]) {
      const Lane& lane = lanes_[l];
      if (&lane != &next && lane.forwards == oldest[lane.flow] && lane.forwards < lane.forward_ready.size()) ++reserve;
    }
    return held_[next.rank] + 1 + reserve <= p_.memory[next.rank];
  }

  std::int64_t rated(const Lane& lane, std::size_t microbatch) const {
    const std::int64_t stages = static_cast<std::int64_t>(p_.placement.rank.size());
    const std::int64_t m = static_cast<std::int64_t>(microbatch);
    return rule_->deep_first ? (stages - lane.stage) * p_.microbatches + m : m * stages + (stages - lane.stage);
  }

  Choice oldest_weight(std::size_t rank) {
    Choice weight;
    for (const std::size_t l : lanes_of_[rank])
      if (lanes_[l].weights < lanes_[l].inputs) weight.offer(lanes_[l], static_cast<std::int64_t>(lanes_[l].weights));
    return weight;
  }

  void act_by_rule(std::size_t rank, double now) {
    Choice forward, input;
    double soonest = kNever;
    for (const std::size_t l : lanes_of_[rank]) {
      Lane& lane = lanes_[l];
      if (lane.inputs < lane.forwards) {
        const double ready = lane.input_ready[lane.inputs];
        if (ready <= now)
          input.offer(lane, rated(lane, lane.inputs));
        else
          soonest = std::min(soonest, ready);
      }
      if (lane.forwards < lane.forward_ready.size() && fits(lane)) {
        const double ready = lane.forward_ready[lane.forwards];
        if (ready <= now)
          forward.offer(lane, rated(lane, lane.forwards));
        else
          soonest = std::min(soonest, ready);
      }
    }
    const Choice weight = oldest_weight(rank);
    if (rule_->weight_at_once && weight.lane != nullptr) return start(*weight.lane, Work::W, now);
    if (forward.lane != nullptr && (rule_->forward_first || input.lane == nullptr)) return start(*forward.lane, Work::F, now);
    if (input.lane != nullptr) return start(*input.lane, Work::I, now);
    if (weight.lane != nullptr) fill(*weight.lane, now, soonest, rule_->patience);
  }

  void act_by_pattern(std::size_t rank, double now) {
    Choice next, forward, input;  // the first by the pattern, and the first of what is ready
    Work next_work = Work::F;
    double next_ready = kNever;
    for (const std::size_t l : lanes_of_[rank]) {
      Lane& lane = lanes_[l];
      const std::size_t stage = static_cast<std::size_t>(lane.stage);
      if (lane.forwards < lane.forward_ready.size()) {
        const std::int64_t turn = pattern_->forward[stage] + pattern_->period * static_cast<std::int64_t>(lane.forwards);
        const double ready = lane.forward_ready[lane.forwards];
        if (next.lane == nullptr || turn < next.rating) {
          next.offer(lane, turn);
          next_work = Work::F;
          next_ready = held_[rank] < p_.memory[rank] ? ready : kNever;
        }
        if (ready <= now && pattern_->early_forward != Early::Never && fits(lane)) forward.offer(lane, turn);
      }
      if (lane.inputs < lane.forwards) {
        const std::int64_t turn = pattern_->input[stage] + pattern_->period * static_cast<std::int64_t>(lane.inputs);
        const double ready = lane.input_ready[lane.inputs];
        if (next.lane == nullptr || turn < next.rating) {
          next.offer(lane, turn);
          next_work = Work::I;
          next_ready = ready;
        }
        if (ready <= now && pattern_->early_input != Early::Never) input.offer(lane, turn);
      }
    }
    if (next.lane != nullptr && next_ready <= now) return start(*next.lane, next_work, now);
    const Choice weight = oldest_weight(rank);
    const auto may = [&](const Choice& early, Early when) {
      return early.lane != nullptr && (weight.lane == nullptr || when == Early::BeforeWeights);
    };
    if (may(forward, pattern_->early_forward)) return start(*forward.lane, Work::F, now);
    if (may(input, pattern_->early_input)) return start(*input.lane, Work::I, now);
    if (weight.lane != nullptr) fill(*weight.lane, now, next_ready, 0.5);
  }

  /// The weights, if they end about when other work arrives; otherwise the rank waits for that.
  void fill(Lane& lane, double now, double soonest, double patience) {
    const double duration = p_.times.of(lane.stage).weight;
    if (now + duration <= soonest + patience * duration)
      start(lane, Work::W, now);
    else
      wakes_.emplace(soonest, lane.rank);
  }

  void start(Lane& lane, Work work, double now) {
    const StageTimes& times = p_.times.of(lane.stage);
    std::size_t microbatch = 0;
    double end = now;
    if (work == Work::F) {
      microbatch = lane.forwards++;
      ++held_[lane.rank];
      end += times.forward;
      if (lane.has_behind)
        arrive(lanes_[lane.behind], lanes_[lane.behind].forward_ready[microbatch], lane.rank, end);
      else
        arrive(lane, lane.input_ready[microbatch], lane.rank, end);
    } else if (work == Work::I) {
      microbatch = lane.inputs++;
      end += times.input;
      if (lane.has_before) arrive(lanes_[lane.before], lanes_[lane.before].input_ready[microbatch], lane.rank, end);
    } else {
      microbatch = lane.weights++;
      --held_[lane.rank];
      end += times.weight;
    }
    if (!run_.ranks[lane.rank].empty()) idle_[lane.rank] += now - free_at_[lane.rank];
    run_.ranks[lane.rank].push_back({lane.stage, work, lane.first_microbatch + static_cast<std::int64_t>(microbatch)});
    run_.makespan = std::max(run_.makespan, end);
    free_at_[lane.rank] = end;
    wakes_.emplace(end, lane.rank);
  }

  void arrive(const Lane& at, double& ready, std::size_t from, double end) {
    ready = end + (at.rank == from ? 0 : p_.times.transfer);
    if (ready > free_at_[at.rank]) wakes_.emplace(ready, at.rank);  // else it is seen when the rank is free
  }

  const ListProblem& p_;
  const ListRule* rule_;
  const ListPattern* pattern_;
  std::vector<Lane> lanes_;
  std::vector<std::vector<std::size_t>> lanes_of_;  // by rank
  std::vector<std::int64_t> held_;                  // by rank
  std::vector<double> free_at_;                     // by rank
  std::vector<double> idle_;                        // by rank, since its first cell
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  ListRun run_;
};

}  // namespace

ListRun run_list(const ListProblem& problem, const ListRule& rule) { return List(problem, &rule, nullptr).run(); }
ListRun run_list(const ListProblem& problem, const ListPattern& pattern) { return List(problem, nullptr, &pattern).run(); }

}  // namespace skirl
