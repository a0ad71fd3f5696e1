#include "strategies/schedule.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "strategies/schedule_check.h"
#include "tests/strategies/schedule_files.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

std::string print(const ScheduleTable& table) {
  std::string text;
  for (const auto& slots : table.ranks) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      text += i ? " " : "";
      for (std::size_t c = 0; c < slots[i].size(); ++c) text += (c ? "+" : "") + to_string(slots[i][c]);
    }
    text += "\n";
  }
  return text;
}

ScheduleTable bad(const std::string& name, std::int64_t stages, std::int64_t microbatches) {
  ScheduleTable table = read_schedule("bad/" + name);
  table.stages = stages;
  table.microbatches = microbatches;
  return table;
}

/// The most activations that a rank holds: forwards begun and not yet taken back.
std::int64_t peak(const ScheduleTable& table, std::size_t rank) {
  std::int64_t now = 0, most = 0;
  for (const auto& slot : table.ranks[rank])
    for (const Cell& cell : slot) {
      now += cell.work == Work::F ? 1 : -1;
      most = std::max(most, now);
    }
  return most;
}

}  // namespace

TEST_CASE("gpipe and 1f1b give the orders of the public generators, cell for cell") {
  struct Golden {
    const char* file;
    std::int64_t ranks;
    std::int64_t microbatches;
  };
  for (const Golden& g : {Golden{"torch-gpipe_p2_v1_m2", 2, 2},
                          {"torch-gpipe_p2_v1_m8", 2, 8},
                          {"torch-gpipe_p2_v1_m10", 2, 10},
                          {"torch-gpipe_p4_v1_m8", 4, 8},
                          {"torch-gpipe_p4_v1_m20", 4, 20},
                          {"torch-gpipe_p8_v1_m20", 8, 20}}) {
    CAPTURE(g.file);
    CHECK(print(gpipe({g.ranks, g.microbatches})) == print(read_schedule(g.file)));
  }
  for (const Golden& g : {Golden{"sail-1f1b_p2_v1_m4", 2, 4},
                          {"sail-1f1b_p4_v1_m4", 4, 4},
                          {"sail-1f1b_p4_v1_m16", 4, 16},
                          {"sail-1f1b_p8_v1_m16", 8, 16},
                          {"torch-1f1b_p2_v1_m16", 2, 16},
                          {"torch-1f1b_p3_v1_m3", 3, 3},
                          {"torch-1f1b_p3_v1_m7", 3, 7},
                          {"torch-1f1b_p4_v1_m8", 4, 8},
                          {"torch-1f1b_p8_v1_m24", 8, 24},
                          {"torch-1f1b_p16_v1_m32", 16, 32}}) {
    CAPTURE(g.file);
    CHECK(print(one_f_one_b({g.ranks, g.microbatches})) == print(read_schedule(g.file)));
  }
}

TEST_CASE("every schedule runs with any number of ranks and microbatches") {
  for (const ScheduleInfo& info : schedule_table())
    for (std::int64_t ranks = 1; ranks <= 7; ++ranks)
      for (std::int64_t microbatches = 1; microbatches <= 9; ++microbatches) {
        CAPTURE(info.name, ranks, microbatches);
        CHECK_NOTHROW(check_schedule(info.make({ranks, microbatches}), info.name));
      }
}

TEST_CASE("1f1b holds at most as many activations as there are ranks behind, gpipe all") {
  for (std::int64_t microbatches : {1, 3, 8})
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CHECK(peak(one_f_one_b({4, microbatches}), rank) == std::min<std::int64_t>(microbatches, 4 - static_cast<std::int64_t>(rank)));
      CHECK(peak(gpipe({4, microbatches}), rank) == microbatches);
    }
}

TEST_CASE("a schedule becomes one order directive a rank") {
  const std::vector<Directive> directives = order_directives(one_f_one_b({2, 2}));
  REQUIRE(directives.size() == 2);
  CHECK(directives[0].op == "order");
  CHECK(
      directives[0].params.dump() ==
      R"({"filters":[[{"PP":0,"MB":0,"PASS":"F"}],[{"PP":0,"MB":1,"PASS":"F"}],[{"PP":0,"MB":0,"PASS":"B"}],[{"PP":0,"MB":1,"PASS":"B"}]]})");
  const ScheduleTable pairs{1, 2, {{{{0, Work::F, 0}}, {{0, Work::F, 1}, {0, Work::I, 0}}, {{0, Work::W, 0}}}}};
  CHECK(
      order_directives(pairs)[0].params.dump() ==
      R"({"filters":[[{"PP":0,"MB":0,"PASS":"F"}],[{"PP":0,"MB":1,"PASS":"F"},{"PP":0,"MB":0,"PASS":"BI"}],[{"PP":0,"MB":0,"PASS":"BW"}]]})");
}

TEST_CASE("a schedule that cannot run is refused with rank, column and cell") {
  CHECK_ERROR(check_schedule(bad("deadlock-two-ranks", 2, 2), "x"),
              "schedule 'x': deadlock: rank 0 column 1 at 0B0 waits for 1B0; rank 1 column 1 at 1F1 waits for 0F1");
  CHECK_ERROR(check_schedule(bad("deadlock-backward-first", 4, 4), "x"),
              "schedule 'x': deadlock: rank 0 column 4 at 0B0 waits for 1B0; rank 1 column 0 at 1B0 waits for 1F0; "
              "rank 2 column 0 at 2F0 waits for 1F0; rank 3 column 0 at 3F0 waits for 2F0");
  CHECK_ERROR(check_schedule(bad("w-before-i", 4, 4), "x"),
              "schedule 'x': deadlock: rank 0 column 8 at 0I2 waits for 1I2; rank 1 column 7 at 1I2 waits for 2I2; "
              "rank 2 column 6 at 2I2 waits for 3I2; rank 3 column 5 at 3W2 waits for 3I2");
  CHECK_ERROR(check_schedule(bad("pair-waits-for-itself", 8, 8), "x"),
              "schedule 'x': deadlock: rank 0 column 18 at 7F4+7B4 waits for 7F4; rank 1 column 18 at 6B4 waits for 7B4; "
              "rank 2 column 17 at 5B4 waits for 6B4; rank 3 column 17 at 4B4 waits for 5B4");
  CHECK_ERROR(check_schedule(bad("missing-w", 4, 4), "x"), "schedule 'x': stage 2 microbatch 1 has FI, expected F and B, or F, I and W");
  CHECK_ERROR(check_schedule(bad("both-b-and-i", 4, 4), "x"),
              "schedule 'x': stage 0 microbatch 3 has FBIW, expected F and B, or F, I and W");
  CHECK_ERROR(check_schedule(bad("twice-and-missing", 4, 4), "x"), "schedule 'x': rank 0 column 3: 0F2 occurs twice, also on rank 0");
  CHECK_ERROR(check_schedule(bad("torch-1f1b-ir-last-rank", 4, 4), "x"),
              "schedule 'x': rank 3 column 6: 3F4 is outside 4 stages and 4 microbatches");
  CHECK_ERROR(check_schedule({1, 1, {{{{0, Work::F, 0}}, {}}}}, "x"), "schedule 'x': rank 0 column 1: the slot has no cell");
  CHECK_ERROR(check_schedule({2, 1, {{{{0, Work::F, 0}}, {{0, Work::B, 0}}}}}, "x"),
              "schedule 'x': stage 1 microbatch 0 has nothing, expected F and B, or F, I and W");
  CHECK_ERROR(check_schedule({1, 1, {{{{0, Work::F, 0}}}, {{{0, Work::B, 0}}}}}, "x"),
              "schedule 'x': 0B0 is on rank 1, the rest of stage 0 microbatch 0 on rank 0");
}

TEST_CASE("a deadlock is drawn with the stuck cells marked") {
  try {
    check_schedule(bad("deadlock-two-ranks", 2, 2), "x");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.at() == "rank 0  0F0 [0B0] 0F1 0B1\n       rank 1  1F0 [1F1] 1B0 1B1");
  }
}
