// How good the tables are that the list scheduler finds: against the best fixed table that fits the same memory, against 1F1B, and against
// the lower bound (on each rank, the forwards and transfers before its first one, then all its own work). Stages are uneven: one at 1.5
// times the others, an LM head that costs two layers, and random F, I and W between 0.5 and 1.5.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "strategies/list_scheduler.h"
#include "strategies/schedule_check.h"
#include "strategies/schedule_cost.h"
#include "strategies/schedules/generators.h"

using namespace skirl;

namespace {

constexpr int kSeeds = 20;

struct Case {
  std::string name;
  ScheduleTimes times;
};

std::vector<Case> cases(std::int64_t ranks, double transfer) {
  const std::size_t p = static_cast<std::size_t>(ranks);
  std::vector<Case> list;
  Case slow{"one stage at 1.5", {std::vector<StageTimes>(p), transfer}};
  slow.times.stages[p / 2] = {1.5, 1.5, 1.5};
  list.push_back(slow);
  Case head{"an LM head of two layers' cost", {std::vector<StageTimes>(p), transfer}};
  for (StageTimes& stage : head.times.stages) stage = {4, 4, 4};
  head.times.stages.back() = {6, 6, 6};
  list.push_back(head);
  std::mt19937 random(1);
  const auto draw = [&] { return 0.5 + static_cast<double>(random()) / static_cast<double>(std::mt19937::max()); };
  for (int seed = 0; seed < kSeeds; ++seed) {
    Case uneven{"random", {{}, transfer}};
    for (std::size_t s = 0; s < p; ++s) {
      const double forward = draw(), input = draw(), weight = draw();
      uneven.times.stages.push_back({forward, input, weight});
    }
    list.push_back(uneven);
  }
  return list;
}

std::int64_t most(const std::vector<std::int64_t>& values) { return *std::max_element(values.begin(), values.end()); }

/// The fastest of the fixed tables of one stage a rank that hold no more.
double best_fixed(std::int64_t ranks, std::int64_t microbatches, const ScheduleTimes& times, const std::vector<std::int64_t>& memory) {
  double best = std::numeric_limits<double>::max();
  for (const auto make : {gpipe, one_f_one_b, zbh1, zb1p, zb2p}) {
    const ScheduleTable table = make({ranks, microbatches});
    const std::vector<std::int64_t> peaks = peak_activations(table);
    bool fits = true;
    for (std::size_t r = 0; r < peaks.size(); ++r) fits = fits && peaks[r] <= memory[r];
    if (fits) best = std::min(best, schedule_cost(table, times).makespan);
  }
  return best;
}

struct Gaps {
  double over_bound = 0, worst_over_bound = 0, under_1f1b = 0, least_under_1f1b = std::numeric_limits<double>::max();
  int count = 0, above_fixed = 0;
};

Gaps measure(std::int64_t ranks, std::int64_t microbatches, double transfer, const std::vector<std::int64_t>& memory) {
  Gaps gaps;
  for (const Case& c : cases(ranks, transfer)) {
    const ScheduleTable table = list_schedule({loop_placement(ranks, 1), microbatches, c.times, memory});
    check_schedule(table, "list");
    const double makespan = schedule_cost(table, c.times).makespan;
    const double bound = makespan_bound(table.placement, microbatches, c.times);
    const double plain = schedule_cost(one_f_one_b({ranks, microbatches}), c.times).makespan;
    const double over = makespan / bound - 1, under = 1 - makespan / plain;
    gaps.over_bound += over;
    gaps.worst_over_bound = std::max(gaps.worst_over_bound, over);
    gaps.under_1f1b += under;
    gaps.least_under_1f1b = std::min(gaps.least_under_1f1b, under);
    gaps.above_fixed += makespan > best_fixed(ranks, microbatches, c.times, memory) * (1 + 1e-9);
    ++gaps.count;
  }
  gaps.over_bound /= gaps.count;
  gaps.under_1f1b /= gaps.count;
  return gaps;
}

void print(const char* memory, std::int64_t ranks, std::int64_t microbatches, double transfer, const Gaps& g) {
  std::printf("%-28s %5lld %5lld %8.1f %9.2f %% %9.2f %% %10.2f %% %9.2f %% %8d of %d\n", memory, static_cast<long long>(ranks),
              static_cast<long long>(microbatches), transfer, 100 * g.over_bound, 100 * g.worst_over_bound, 100 * g.under_1f1b,
              100 * g.least_under_1f1b, g.above_fixed, g.count);
}

}  // namespace

int main() {
  std::printf("%-28s %5s %5s %8s %11s %11s %12s %11s %s\n", "memory", "ranks", "mbs", "transfer", "over bound", "worst", "under 1F1B",
              "least", "above a fixed table");
  for (const std::int64_t ranks : {4, 8})
    for (const double transfer : {0.0, 0.3})
      for (const std::int64_t microbatches : {ranks, 2 * ranks, 4 * ranks}) {
        const std::vector<std::int64_t> own = peak_activations(one_f_one_b({ranks, microbatches}));
        const std::vector<std::int64_t> even(own.size(), most(own)), twice(own.size(), 2 * most(own));
        print("1F1B's, rank by rank", ranks, microbatches, transfer, measure(ranks, microbatches, transfer, own));
        print("1F1B's, the fullest rank's", ranks, microbatches, transfer, measure(ranks, microbatches, transfer, even));
        print("twice 1F1B's", ranks, microbatches, transfer, measure(ranks, microbatches, transfer, twice));
      }

  const std::int64_t ranks = 64, microbatches = 512;
  const Case uneven = cases(ranks, 0.3).back();
  for (const std::int64_t memory : {ranks, 2 * ranks}) {
    const auto begin = std::chrono::steady_clock::now();
    const ScheduleTable table = list_schedule(
        {loop_placement(ranks, 1), microbatches, uneven.times, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), memory)});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const double makespan = schedule_cost(table, uneven.times).makespan;
    std::printf("64 stages, 512 microbatches, %lld activations: %.2f s, %.2f %% over the bound\n", static_cast<long long>(memory), seconds,
                100 * (makespan / makespan_bound(table.placement, microbatches, uneven.times) - 1));
  }
  return 0;
}
