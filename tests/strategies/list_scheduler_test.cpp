// bench/list_schedules prints the same figures for more cases.
#include "strategies/list_scheduler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "strategies/schedule_check.h"
#include "strategies/schedule_cost.h"
#include "strategies/schedules/generators.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

ScheduleTimes random_times(std::int64_t stages, double transfer, std::mt19937& random) {
  ScheduleTimes times{{}, transfer};
  const auto draw = [&] { return 0.5 + static_cast<double>(random()) / static_cast<double>(std::mt19937::max()); };
  for (std::int64_t s = 0; s < stages; ++s) {
    const double forward = draw(), input = draw(), weight = draw();
    times.stages.push_back({forward, input, weight});
  }
  return times;
}

std::vector<std::int64_t> for_all(std::int64_t ranks, std::int64_t memory) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(ranks), memory);
}

/// Of the tables that hold no more.
double fastest(const std::vector<ScheduleTable>& tables, const ScheduleTimes& times, const std::vector<std::int64_t>& memory) {
  double best = std::numeric_limits<double>::max();
  for (const ScheduleTable& table : tables) {
    const std::vector<std::int64_t> peaks = peak_activations(table);
    if (std::equal(peaks.begin(), peaks.end(), memory.begin(), [](std::int64_t peak, std::int64_t limit) { return peak <= limit; }))
      best = std::min(best, schedule_cost(table, times).makespan);
  }
  return best;
}

}  // namespace

TEST_CASE("a list keeps to the memory of each rank and is never above a fixed table that does") {
  std::mt19937 random(5);
  for (int seed = 0; seed < 6; ++seed)
    for (const std::int64_t p : {4, 8}) {
      const std::int64_t m = p + static_cast<std::int64_t>(random() % 9);
      const ScheduleTimes times = random_times(p, seed % 2 ? 0.3 : 0, random);
      const std::vector<ScheduleTable> fixed = {gpipe({p, m}), one_f_one_b({p, m}), zb1p({p, m}), zbh1({p, m}), zb2p({p, m})};
      for (const auto& memory : {peak_activations(fixed[1]), for_all(p, p), for_all(p, 2 * p), for_all(p, p / 2 + 1)}) {
        CAPTURE(seed, p, m, memory[0]);
        const ScheduleTable table = list_schedule({loop_placement(p, 1), m, times, memory});
        CHECK_NOTHROW(check_schedule(table, "list"));
        const std::vector<std::int64_t> peaks = peak_activations(table);
        for (std::size_t rank = 0; rank < peaks.size(); ++rank) CHECK(peaks[rank] <= memory[rank]);
        const double makespan = schedule_cost(table, times).makespan;
        CHECK(makespan <= fastest(fixed, times, memory) * (1 + 1e-9));
        CHECK(makespan >= makespan_bound(table.placement, m, times) * (1 - 1e-9));
      }
    }
}

TEST_CASE("with twice the memory of 1F1B a list is close to the bound, and with the same well below 1F1B") {
  std::mt19937 random(11);
  for (const std::int64_t p : {4, 8})
    for (const double transfer : {0.0, 0.3}) {
      double over_bound = 0, under_1f1b = 0;
      constexpr int kSeeds = 10;
      for (int seed = 0; seed < kSeeds; ++seed) {
        const ScheduleTimes times = random_times(p, transfer, random);
        const std::int64_t m = 2 * p;
        const auto makespan = [&](std::int64_t memory) {
          return schedule_cost(list_schedule({loop_placement(p, 1), m, times, for_all(p, memory)}), times).makespan;
        };
        over_bound += makespan(2 * p) / makespan_bound(loop_placement(p, 1), m, times) - 1;
        under_1f1b += 1 - makespan(p) / schedule_cost(one_f_one_b({p, m}), times).makespan;
      }
      CAPTURE(p, transfer);
      CHECK(over_bound / kSeeds <= 0.02);
      CHECK(under_1f1b / kSeeds >= 0.09);
    }
}

TEST_CASE("a list works for stages in a V, in two directions and on one rank, and is the same each time") {
  std::mt19937 random(3);
  for (const Placement& placement :
       {v_placement(3), v_placement(2, 4), two_way_placement(4, 3), two_way_placement(3, 2), loop_placement(1, 3)}) {
    const std::int64_t ranks = 1 + *std::max_element(placement.rank.begin(), placement.rank.end());
    const ListProblem problem{placement, 5, random_times(static_cast<std::int64_t>(placement.rank.size()), 0.1, random), for_all(ranks, 6)};
    const ScheduleTable table = list_schedule(problem);
    CHECK_NOTHROW(check_schedule(table, "list"));
    CHECK(table.placement == placement);
    CHECK(list_schedule(problem).ranks == table.ranks);
  }
}

TEST_CASE("a list refuses less memory than one microbatch takes, rank by rank") {
  CHECK_ERROR(list_schedule({v_placement(2), 4, {}, {2, 1}}),
              "list: rank 1 may hold 1 activations, expected at least 2: one microbatch on each of its stages");
  CHECK_ERROR(list_schedule({two_way_placement(2, 2), 4, {}, {1, 2}}),
              "list: rank 0 may hold 1 activations, expected at least 2: one microbatch on each of its stages");
}
