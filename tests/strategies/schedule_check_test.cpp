#include "strategies/schedule_check.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "strategies/schedule_csv.h"
#include "strategies/schedule_transfers.h"
#include "strategies/schedules/generators.h"
#include "tests/strategies/schedule_files.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

/// A table by its lines; nothing about it is checked.
ScheduleTable table_of(const std::string& text, std::int64_t stages, std::int64_t microbatches, Placement placement = {}) {
  ScheduleTable table;
  table.stages = stages;
  table.microbatches = microbatches;
  table.placement = std::move(placement);
  std::size_t at = 0;
  const auto number = [&] {
    std::size_t digits = 0;
    const std::int64_t value = std::stoll(text.substr(at), &digits);
    at += digits;
    return value;
  };
  bool overlapped = false;
  table.ranks.emplace_back();
  while (at < text.size()) {
    if (text[at] == '\n') {
      if (++at < text.size()) table.ranks.emplace_back();
      overlapped = false;
      continue;
    }
    if (!overlapped) table.ranks.back().emplace_back();
    Cell cell;
    cell.stage = number();
    cell.work = static_cast<Work>(std::string("FBIW").find(text.at(at++)));
    cell.microbatch = number();
    table.ranks.back().back().push_back(cell);
    overlapped = at < text.size() && text[at] == '+';
    if (at < text.size() && text[at] != '\n') ++at;
  }
  return table;
}

ScheduleTable bad(const std::string& name) {
  for (const auto& e : nlohmann::json::parse(schedule_text("bad/index.json")))
    if (e.at("name") == name)
      return table_of(schedule_text("bad/" + name + ".csv"), e.at("stages"), e.at("microbatches"),
                      {e.at("stage_to_rank").get<std::vector<std::int64_t>>(), {}, 0});
  throw std::runtime_error("no bad schedule " + name);
}

std::string place_of(const std::function<void()>& fails) {
  try {
    fails();
  } catch (const Error& error) {
    return error.at();
  }
  return "no error";
}

/// Actions of ranks: "0F0 0SEND_F0 (…)" without groups.
ScheduleActions actions_of(const std::vector<std::vector<std::string>>& ranks) {
  ScheduleActions actions;
  for (const auto& rank : ranks) {
    actions.emplace_back();
    for (const std::string& text : rank) {
      ScheduleAction action;
      action.column = static_cast<std::int64_t>(actions.back().size());
      std::size_t digits = 0;
      const std::int64_t stage = std::stoll(text, &digits);
      const std::string rest = text.substr(digits);
      if (rest.size() > 6)
        action.transfers.push_back({rest[0] == 'S', rest[5] == 'F', stage, std::stoll(rest.substr(6))});
      else
        action.slot.push_back({stage, static_cast<Work>(std::string("FBIW").find(rest[0])), std::stoll(rest.substr(1))});
      actions.back().push_back(std::move(action));
    }
  }
  return actions;
}

}  // namespace

TEST_CASE("a schedule that cannot run is refused with rank, column and cell") {
  CHECK_ERROR(check_schedule(bad("deadlock-two-ranks"), "x"),
              "schedule 'x': deadlock: rank 0 column 1 at 0B0 waits for 1B0; rank 1 column 1 at 1F1 waits for 0F1");
  CHECK_ERROR(check_schedule(bad("deadlock-backward-first"), "x"),
              "schedule 'x': deadlock: rank 0 column 4 at 0B0 waits for 1B0; rank 1 column 0 at 1B0 waits for 1F0; "
              "rank 2 column 0 at 2F0 waits for 1F0; rank 3 column 0 at 3F0 waits for 2F0");
  CHECK_ERROR(check_schedule(bad("w-before-i"), "x"),
              "schedule 'x': deadlock: rank 0 column 8 at 0I2 waits for 1I2; rank 1 column 7 at 1I2 waits for 2I2; "
              "rank 2 column 6 at 2I2 waits for 3I2; rank 3 column 5 at 3W2 waits for 3I2");
  CHECK_ERROR(check_schedule(bad("pair-waits-for-itself"), "x"),
              "schedule 'x': deadlock: rank 0 column 18 at 7F4+7B4 waits for 7F4; rank 1 column 18 at 6B4 waits for 7B4; "
              "rank 2 column 17 at 5B4 waits for 6B4; rank 3 column 17 at 4B4 waits for 5B4");
  CHECK_ERROR(check_schedule(bad("missing-w"), "x"), "schedule 'x': stage 2 microbatch 1 has FI, expected F and B, or F, I and W");
  CHECK_ERROR(check_schedule(bad("both-b-and-i"), "x"), "schedule 'x': stage 0 microbatch 3 has FBIW, expected F and B, or F, I and W");
  CHECK_ERROR(check_schedule(bad("twice-and-missing"), "x"), "schedule 'x': rank 0 column 3: 0F2 occurs twice, also at rank 0 column 2");
  CHECK_ERROR(check_schedule(bad("torch-1f1b-ir-last-rank"), "x"),
              "schedule 'x': rank 3 column 6: 3F4 is outside 4 stages and 4 microbatches");
  ScheduleTable moved = bad("v-stages-placed-as-loop");
  moved.ranks = zbv(ScheduleParams{2, 4}).ranks;
  moved.placement = loop_placement(2, 2);
  CHECK_ERROR(check_schedule(moved, "zbv"), "schedule 'zbv': rank 0 column 3: 3F0 is on rank 0, expected rank 1, where stage 3 is");
  CHECK_ERROR(check_schedule(bad("v-stages-placed-as-loop"), "x"),
              "schedule 'x': rank 0 column 3: 2F0 is on rank 0, expected rank 1, where stage 2 is");
  CHECK_ERROR(check_schedule(table_of("0F0,0B0\n1F0,1B0\n", 2, 1, {{1, 0}, {}, 0}), "x"),
              "schedule 'x': rank 0 column 0: 0F0 is on rank 0, expected rank 1, where stage 0 is");
  CHECK_ERROR(check_schedule(table_of("0F0\n0B0\n", 1, 1), "x"),
              "schedule 'x': 0B0 is on rank 1, the rest of stage 0 microbatch 0 on rank 0");
  ScheduleTable empty_slot = table_of("0F0,0B0\n", 1, 1);
  empty_slot.ranks[0].emplace_back();
  CHECK_ERROR(check_schedule(empty_slot, "x"), "schedule 'x': rank 0 column 2: the slot has no cell");
}

TEST_CASE("few cells and large numbers are refused at once") {
  CHECK_ERROR(check_schedule(table_of("0F0,0B0\n1F0,1B0\n", 1'000'000, 1'000'000), "x"),
              "schedule 'x': stage 0 microbatch 1 has nothing, expected F and B, or F, I and W");
  CHECK_ERROR(check_schedule(table_of("0F0\n1F0,1B0\n", 2, 2), "x"),
              "schedule 'x': stage 0 microbatch 1 has nothing, expected F and B, or F, I and W");
  CHECK_ERROR(check_schedule(table_of("0F0,0B0,0B1\n1F0\n", 2, 2), "x"),
              "schedule 'x': stage 0 microbatch 1 has B, expected F and B, or F, I and W");
}

TEST_CASE("parts of a sequence go in order, and backwards from the last") {
  ScheduleTable table = table_of("0F0,0F1,0B1,0B0\n", 1, 2);
  table.sequence_parts = 2;
  CHECK_NOTHROW(check_schedule(table, "x"));
  std::swap(table.ranks[0][2], table.ranks[0][3]);
  CHECK_ERROR(check_schedule(table, "x"), "schedule 'x': deadlock: rank 0 column 2 at 0B0 waits for 0B1");
  table = table_of("0F1,0F0,0B1,0B0\n", 1, 2);
  table.sequence_parts = 2;
  CHECK_ERROR(check_schedule(table, "x"), "schedule 'x': deadlock: rank 0 column 0 at 0F1 waits for 0F0");
}

TEST_CASE("what is wrong is drawn as a grid, the cells in question in brackets below each other") {
  CHECK(place_of([] { check_schedule(bad("deadlock-two-ranks"), "x"); }) == "rank 0  0F0 [0B0] 0F1 0B1\n       rank 1  1F0 [1F1] 1B0 1B1");
  CHECK(place_of([] { check_schedule(bad("deadlock-backward-first"), "x"); }) ==
        "rank 0  0F0 0F1 0F2 0F3 [0B0] 0B1 0B2 0B3\n"
        "       rank 1                  [1B0] 1F0 1F1 1F2 1F3 1B1 1B2 ...\n"
        "       rank 2                  [2F0] 2F1 2B0 2F2 2B1 2F3 2B2 ...\n"
        "       rank 3                  [3F0] 3B0 3F1 3B1 3F2 3B2 3F3 ...");
  CHECK(place_of([] { check_schedule(bad("twice-and-missing"), "x"); }) == "rank 0  0F0 0F1 0F2 [0F2] 0B0 0B1 0B2 0B3");
}

TEST_CASE("a placement that a schedule was not made for is refused with the stage and both ranks") {
  CHECK_NOTHROW(check_placement(v_placement(4), zbv(ScheduleParams{4, 8}).placement, "zbv"));
  CHECK_ERROR(check_placement(loop_placement(4, 2), v_placement(4), "zbv"), "schedule 'zbv': stage 4 is on rank 0, expected rank 3");
  CHECK_ERROR(check_placement(loop_placement(4, 1), v_placement(4), "zbv"), "schedule 'zbv': 4 stages, expected 8");
  CHECK_ERROR(check_placement(loop_placement(4, 1), two_way_placement(4, 2), "dualpipe"),
              "schedule 'dualpipe': microbatches enter at rank 0 only, expected both ends");
}

TEST_CASE("transfers that block and wait in a circle are refused, with both ranks and both tensors") {
  const ScheduleTable crossing = table_of("0F0,1F1,1B1,0B0\n0F1,1F0,1B0,0B1\n", 2, 2, {{0, 1}, {1, 0}, 1});
  CHECK_NOTHROW(check_schedule(crossing, "x"));
  CHECK_NOTHROW(check_transfers(with_transfers(crossing), crossing, "x"));
  CHECK_ERROR(check_transfers(actions_of({{"0F0", "0SEND_F0", "1RECV_F1", "1F1", "1B1", "1SEND_B1", "0RECV_B0", "0B0"},
                                          {"0F1", "0SEND_F1", "1RECV_F0", "1F0", "1B0", "1SEND_B0", "0RECV_B1", "0B1"}}),
                              crossing, "x"),
              "schedule 'x': deadlock when sends block: rank 0 column 1 waits at 0SEND_F0 -> rank 1 column 1 waits at 0SEND_F1 -> rank 0");
}

TEST_CASE("transfers that do not fit their table are refused") {
  const ScheduleTable table = table_of("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", 2, 2, {{0, 1}, {}, 0});
  const auto check = [&](std::vector<std::string> first, std::vector<std::string> second) {
    check_transfers(actions_of({first, second}), table, "x");
  };
  const std::vector<std::string> sender = {"0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1"};
  const std::vector<std::string> receiver = {"1RECV_F0", "1F0", "1B0", "1RECV_F1", "1SEND_B0", "1F1", "1B1", "1SEND_B1"};
  CHECK_NOTHROW(check(sender, receiver));
  CHECK_ERROR(check({"0SEND_F0", "0F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1"}, receiver),
              "schedule 'x': rank 0 column 0: 0SEND_F0 stands before 0F0, which makes it");
  CHECK_ERROR(check(sender, {"1F0", "1RECV_F0", "1B0", "1RECV_F1", "1SEND_B0", "1F1", "1B1", "1SEND_B1"}),
              "schedule 'x': rank 1 column 0: 1F0 stands before 1RECV_F0, which it reads");
  CHECK_ERROR(check({"0F0", "0SEND_F0", "0F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1"}, receiver),
              "schedule 'x': rank 0: 0SEND_F1 is missing: 0F1 makes what stage 1 reads on another rank");
  CHECK_ERROR(check({"0F0", "0SEND_F0", "0F1", "0SEND_F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1"}, receiver),
              "schedule 'x': rank 0 column 4: 0SEND_F1 occurs twice");
  CHECK_ERROR(check({"0F0", "0F1", "0SEND_F1", "0SEND_F0", "0RECV_B0", "0B0", "0RECV_B1", "0B1"}, receiver),
              "schedule 'x': rank 1 column 0: receives 1RECV_F0 where rank 0 sends 0SEND_F1 (number 0 between them)");
  CHECK_ERROR(check({"0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0SEND_B1"}, receiver),
              "schedule 'x': rank 0 column 8: 0SEND_B1 has no other side: there are 2 stages");
  CHECK_ERROR(check(sender, {"1RECV_F0", "1F0", "1B0", "1RECV_F1", "1SEND_B0", "1F1", "1B1", "1SEND_B1", "1RECV_F1"}),
              "schedule 'x': rank 1 column 8: 1RECV_F1 is read by no cell behind it");
  CHECK_ERROR(check({"1SEND_B0", "0F0"}, receiver), "schedule 'x': rank 0 column 0: 1SEND_B0 belongs on rank 1");
}
