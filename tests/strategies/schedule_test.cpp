#include "strategies/schedule.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "strategies/schedule_check.h"
#include "strategies/schedule_cost.h"
#include "strategies/schedule_directives.h"
#include "strategies/schedules/generators.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

ScheduleParams size(std::int64_t ranks, std::int64_t microbatches) {
  ScheduleParams params;
  params.ranks = ranks;
  params.microbatches = microbatches;
  return params;
}
ScheduleParams size(std::int64_t ranks, std::int64_t stages_per_rank, std::int64_t microbatches) {
  ScheduleParams params = size(ranks, microbatches);
  params.stages_per_rank = stages_per_rank;
  return params;
}

/// All stages take F, I, W.
ScheduleTimes equal_times(std::int64_t stages, double forward, double input, double weight) {
  return {std::vector<StageTimes>(static_cast<std::size_t>(stages), {forward, input, weight}), 0};
}

ScheduleTable table_of(std::int64_t stages, std::int64_t microbatches, std::vector<std::vector<Slot>> ranks) {
  ScheduleTable table;
  table.stages = stages;
  table.microbatches = microbatches;
  table.ranks = std::move(ranks);
  return table;
}

}  // namespace

TEST_CASE("every schedule runs with any number of ranks and microbatches") {
  for (const ScheduleInfo& info : schedule_table())
    for (std::int64_t ranks = 1; ranks <= 6; ++ranks)
      for (std::int64_t microbatches = 1; microbatches <= 9; ++microbatches) {
        if (info.name == "dualpipe" && ranks % 2 == 1) continue;
        CAPTURE(info.name, ranks, microbatches);
        CHECK_NOTHROW(check_schedule(info.make(size(ranks, microbatches)), info.name));
      }
}

TEST_CASE("random sizes give tables that run and hold what they are asked for") {
  std::mt19937 random(20);
  const auto up_to = [&](unsigned most) { return static_cast<std::int64_t>(random() % most + 1); };
  for (int i = 0; i < 60; ++i)
    for (const ScheduleInfo& info : schedule_table()) {
      const bool searches = info.name == "list" || info.name == "vhalf" || info.name == "vmin" || info.name == "zbv";
      if (searches && i % 6 != 0) continue;  // they take longer
      ScheduleParams params = size(up_to(9), up_to(24));
      const bool several =
          info.name == "looped_bfs" || info.name == "interleaved" || info.name == "grouped" || info.name == "interleaved_zb";
      if (several || (info.name == "list" && i % 12 == 0)) params.stages_per_rank = up_to(4);
      if (info.name == "grouped") params.group = up_to(9);
      if (info.name == "seq1f1b") params.sequence_parts = up_to(4);
      if (info.name == "list") params.memory = params.stages_per_rank.value_or(1) + up_to(12);
      if (info.name == "dualpipe") params.ranks += params.ranks % 2;
      CAPTURE(info.name, params.ranks, params.microbatches, params.stages_per_rank.value_or(0), params.memory.value_or(0));
      const ScheduleTable table = info.make(params);
      CHECK_NOTHROW(check_schedule(table, info.name));
      CHECK(table.microbatches == params.microbatches * (info.name == "seq1f1b" ? *params.sequence_parts : 1));
      for (const std::int64_t peak : peak_activations(table)) CHECK(peak <= params.memory.value_or(peak));
    }
}

TEST_CASE("bubbles follow the closed forms beyond the sizes of the files") {
  for (const std::int64_t p : {2, 4, 6, 10})
    for (const std::int64_t m : {2 * p, 3 * p, 5 * p + 2}) {
      CAPTURE(p, m);
      const double f = 2, i = 3, w = 1, b = i + w;
      const auto bubble = [&](const ScheduleTable& table) { return schedule_cost(table, equal_times(table.stages, f, i, w)).bubble; };
      const double ranks = static_cast<double>(p - 1);
      CHECK(bubble(gpipe(size(p, m))) == ranks * (f + b));
      CHECK(bubble(one_f_one_b(size(p, m))) == ranks * (f + b));
      CHECK(bubble(seq1f1b(size(p, m))) == ranks * (f + b));
      for (const std::int64_t v : {1, 2, 3}) {
        CHECK(bubble(looped_bfs(size(p, v, m))) == ranks * (f + b));
        CHECK(bubble(interleaved(size(p, v, m / p * p))) == ranks * (f + b));
      }
      // Split backwards: in the sources' times F = I = W.
      const auto unit = [&](const ScheduleTable& table) { return schedule_cost(table); };
      CHECK(unit(zb1p(size(p, m))).bubble == ranks);
      CHECK(unit(zbh1(size(p, m))).bubble == ranks);
      CHECK(unit(interleaved_zero_bubble(size(p, 2, m / p * p))).bubble == ranks);
      CHECK(unit(zb2p(size(p, m))).span_bubble == 0);
      CHECK(unit(zb2p(size(p, m))).bubble == ranks);
      CHECK(unit(zbv(size(p, m))).span_bubble == 0);
      CHECK(unit(zbv(size(p, m))).bubble == ranks);
      const double pair = 3;
      CHECK(unit(dualpipe(size(p, m + m % 2))).bubble == (static_cast<double>(p) / 2 - 1) * (pair + 2 - 3));
      CHECK(unit(dualpipev(size(p, m))).bubble == ranks * (pair + 2 - 3));
    }
}

TEST_CASE("schedules hold as many activations as their papers say") {
  const auto most = [](const ScheduleTable& table) {
    const std::vector<std::int64_t> peaks = peak_activations(table);
    return *std::max_element(peaks.begin(), peaks.end());
  };
  for (const std::int64_t m : {1, 3, 8, 40})
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CHECK(peak_activations(one_f_one_b(size(4, m)))[rank] == std::min<std::int64_t>(m, 4 - static_cast<std::int64_t>(rank)));
      CHECK(peak_activations(gpipe(size(4, m)))[rank] == m);
    }
  CHECK(most(zb1p(size(6, 40))) == 6);
  CHECK(most(zbh1(size(6, 40))) == 6);
  CHECK(most(zb2p(size(6, 40))) == 12);
  CHECK(most(zbv(size(6, 40))) == 12);
  CHECK(most(vhalf(size(6, 40))) == 8);
  CHECK(most(vmin(size(6, 40))) == 6);
  CHECK(most(dualpipe(size(6, 40))) == 7);
  CHECK(most(dualpipev(size(6, 40))) == 13);
}

TEST_CASE("a schedule becomes one order directive a rank") {
  const std::vector<Directive> directives = order_directives(one_f_one_b(size(2, 2)));
  REQUIRE(directives.size() == 2);
  CHECK(directives[0].op == "order");
  CHECK(
      directives[0].params.dump() ==
      R"({"filters":[[{"PP":0,"MB":0,"PASS":"F"}],[{"PP":0,"MB":1,"PASS":"F"}],[{"PP":0,"MB":0,"PASS":"B"}],[{"PP":0,"MB":1,"PASS":"B"}]]})");
  const ScheduleTable pairs = table_of(1, 2, {{{{0, Work::F, 0}}, {{0, Work::F, 1}, {0, Work::I, 0}}, {{0, Work::W, 0}}}});
  CHECK(
      order_directives(pairs)[0].params.dump() ==
      R"({"filters":[[{"PP":0,"MB":0,"PASS":"F"}],[{"PP":0,"MB":1,"PASS":"F"},{"PP":0,"MB":0,"PASS":"BI"}],[{"PP":0,"MB":0,"PASS":"BW"}]]})");
}

TEST_CASE("a pair takes the time of both of its halves, starts when both can and ends as one") {
  const ScheduleTable table = dualpipev(size(1, 2));
  CHECK(table.ranks[0] == std::vector<Slot>{{{0, Work::F, 0}},
                                            {{1, Work::F, 0}},
                                            {{0, Work::F, 1}},
                                            {{1, Work::B, 0}},
                                            {{1, Work::F, 1}, {0, Work::B, 0}},
                                            {{1, Work::B, 1}},
                                            {{0, Work::I, 1}},
                                            {{0, Work::W, 1}}});
  const ScheduleCost cost = schedule_cost(table);
  CHECK(cost.end[0] == std::vector<double>{1, 2, 3, 5, 8, 10, 11, 12});
  CHECK(cost.bubble_fraction == 0);
}

TEST_CASE("a transfer takes its time between ranks and none on one rank") {
  ScheduleTimes times;
  times.transfer = 0.5;
  const ScheduleCost cost = schedule_cost(zbv_closed(size(2, 1)), times);
  CHECK(cost.start[0][0] == 0);
  CHECK(cost.start[1][0] == 1.5);  // stage 1 on rank 1
  CHECK(cost.start[1][1] == 2.5);  // stage 2 too
  CHECK(cost.start[0][1] == 4);    // stage 3 on rank 0
}

TEST_CASE("sizes and settings that a schedule cannot take are refused with the rule and the nearest legal ones") {
  CHECK_ERROR(gpipe(size(2, 2, 4)), "gpipe: got 2 stages per rank, expected exactly 1");
  CHECK_ERROR(zbv(size(4, 1, 8)), "zbv: got 1 stage per rank, expected exactly 2");
  CHECK_ERROR(dualpipev(size(4, 3, 8)), "dualpipev: got 3 stages per rank, expected exactly 2");
  CHECK_ERROR(dualpipe(size(3, 8)), "dualpipe: 3 ranks, expected an even number: the two directions meet between two ranks");
  CHECK_ERROR(interleaved(size(4, 0, 8)), "interleaved: 0 stages per rank, expected at least 1");
  CHECK_ERROR(zb1p(size(0, 8)), "zb1p: 0 ranks, expected at least 1");
  CHECK_ERROR(vmin(size(2, 0)), "vmin: 0 microbatches, expected at least 1");
  CHECK_ERROR(gpipe(size(1'000'000'000, 8)), "gpipe: 1000000000 ranks of 1 stages and 8 microbatches are too many");
  CHECK_ERROR(interleaved(size(4096, 4096, 4'000'000)), "interleaved: 4096 ranks of 4096 stages and 4000000 microbatches are too many");
  ScheduleParams params = size(4, 8);
  params.group = 2;
  CHECK_ERROR(interleaved(params), "interleaved has no group size");
  params.group = 0;
  CHECK_ERROR(grouped_interleaved(params), "grouped: 0 microbatches in a group, expected at least 1");
  params = size(4, 8);
  params.memory = 3;
  CHECK_ERROR(zb2p(params), "zb2p has no memory limit");
  params.stages_per_rank = 4;
  CHECK_ERROR(list_table(params), "list: rank 0 may hold 3 activations, expected at least 4: one microbatch on each of its stages");
  params = size(2, 2);
  params.times = ScheduleTimes{{{1, 1, 1}, {1, 0, 1}}, 0};
  CHECK_ERROR(list_table(params), "list: a time of stage 1 is 0.000000, expected a number above 0");
  params.times = ScheduleTimes{{{1, 1, 1}}, 0};
  CHECK_ERROR(list_table(params), "list: times of 1 stages, expected 2");
  params.times = ScheduleTimes{{}, -1};
  CHECK_ERROR(list_table(params), "list: the transfer time is -1.000000, expected a number of at least 0");
  try {
    dualpipe(size(3, 8));
  } catch (const Error& error) {
    CHECK(error.help() == "the nearest are 2 and 4 ranks; dualpipev takes any");
  }
}
