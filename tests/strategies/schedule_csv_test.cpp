#include "strategies/schedule_csv.h"

#include <catch2/catch.hpp>
#include <random>

#include "strategies/schedules/generators.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

ScheduleTable parse(std::string_view text) { return parse_schedule_csv(text, "hand.csv"); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("an exported table comes back, also edited as spreadsheets do") {
  const ScheduleTable table = one_f_one_b(ScheduleParams{2, 3});
  const std::string text = schedule_csv(table);
  CHECK(text == "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  for (const char* same :
       {"0F0, 0F1 ,0B0,\t0F2,0B1 , 0B2\n 1F0,1B0,1F1,1B1,1F2,1B2\n", "0F0,0F1,0B0,0F2,0B1,0B2\r\n1F0,1B0,1F1,1B1,1F2,1B2\r\n",
        "0F0,0F1,0B0,0F2,0B1,0B2,\n1F0,1B0,1F1,1B1,1F2,1B2,\n", "0F0,0F1,,,0B0,0F2,0B1,0B2\n,1F0,1B0,1F1,1B1,1F2,1B2\n\n\n",
        "\xEF\xBB\xBF\"0F0\",0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2"}) {
    CAPTURE(same);
    CHECK(parse(same).ranks == table.ranks);
    CHECK(parse(same).placement == table.placement);
  }
  const ScheduleTable pairs = dualpipe(ScheduleParams{2, 4});
  const std::string overlapped = schedule_csv(pairs);
  CHECK(overlapped.find("(1F3;0B0)OVERLAP_F_B") != std::string::npos);
  CHECK(parse(overlapped).ranks == pairs.ranks);
  CHECK(parse(overlapped).placement == pairs.placement);
}

TEST_CASE("a broken table is refused with file, rank, column and entry") {
  const std::string text = "0F0,0F1,,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n";
  CHECK_ERROR(parse(replaced(text, ",0F2", "")), "schedule 'hand.csv': stage 0 microbatch 2 has B, expected F and B, or F, I and W");
  CHECK_ERROR(parse(replaced(text, "0F2", "0F1")), "schedule 'hand.csv': rank 0 column 4: 0F1 occurs twice, also at rank 0 column 1");
  CHECK_ERROR(parse(replaced(text, "1B0", "1W0,1I0")),
              "schedule 'hand.csv': deadlock: rank 0 column 3 at 0B0 waits for 1I0; rank 1 column 1 at 1W0 waits for 1I0");
  CHECK_ERROR(parse(replaced(text, "1F0,1B0", "1B0,1F0")),
              "schedule 'hand.csv': deadlock: rank 0 column 3 at 0B0 waits for 1B0; rank 1 column 0 at 1B0 waits for 1F0");
  CHECK_ERROR(parse(replaced(text, "0F2", "7F2")), "schedule 'hand.csv': stage 0 microbatch 2 has no F, expected F and B, or F, I and W");
  try {
    parse(replaced(text, "1F1", "1X1"));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.complaint() == "'1X1' is no cell: there is no work 'X'");
    CHECK(error.at() == "hand.csv rank 1 column 2");
  }
}

TEST_CASE("hostile text is refused with its place") {
  CHECK_ERROR(parse(""), "the schedule has no cells");
  CHECK_ERROR(parse(",,\n\n"), "the schedule has no cells");
  CHECK_ERROR(parse("0F"), "'0F' has no microbatch");
  CHECK_ERROR(parse("F0"), "'F0' is no cell: it starts with no stage");
  CHECK_ERROR(parse("-1F0"), "'-1F0' is no cell: it starts with no stage");
  CHECK_ERROR(parse("0F0x"), "'0F0x' is no cell: 'x' is left over");
  CHECK_ERROR(parse("0f0"), "'0f0' is no cell: 'f0' is left over");
  CHECK_ERROR(parse("0F0;0B0"), "'0F0;0B0' is no cell: ';0B0' is left over");
  CHECK_ERROR(parse("99999999999999999999F0"), "'99999999999999999999F0' has a number that is too large: at most 1048575");
  CHECK_ERROR(parse("0F1048576"), "'0F1048576' has a number that is too large: at most 1048575");
  CHECK_ERROR(parse("1048575F1048575"), "schedule 'hand.csv': stage 0 microbatch 0 has nothing, expected F and B, or F, I and W");
  CHECK_ERROR(parse("(0F0;0B0"), "'(0F0;0B0' is no group of cells: expected (…;…)OVERLAP_F_B or (…;…)BATCH");
  CHECK_ERROR(parse("(0F0;0B0)OVERLAP"), "'(0F0;0B0)OVERLAP' is no group of cells: expected (…;…)OVERLAP_F_B or (…;…)BATCH");
  CHECK_ERROR(parse("(0F0;0SEND_F0)OVERLAP_F_B"),
              "'(0F0;0SEND_F0)OVERLAP_F_B' mixes work and transfers: OVERLAP_F_B holds cells, BATCH transfers");
  CHECK_ERROR(parse("()BATCH"), "'' is no cell: it starts with no stage");
  CHECK_ERROR(parse("0F0+"), "'' is no cell: it starts with no stage");
  CHECK_ERROR(parse("0SEND_X0"), "'0SEND_X0' is no cell");
  CHECK_ERROR(parse("0UNSHARD1"), "'0UNSHARD1' has a microbatch, expected none: it is about all of them");
  CHECK_ERROR(parse("0F0 \x02,0B0"), "'0F0 ?' is no cell: ' ?' is left over");
  CHECK_ERROR(parse("\x01\xff"), "'?\?' is no cell: it starts with no stage");
  CHECK_ERROR(read_schedule_csv("/nowhere/hand.csv"), "cannot read the schedule file /nowhere/hand.csv: it is no file");
  CHECK_ERROR(read_schedule_csv("/"), "cannot read the schedule file /: it is no file");
}

TEST_CASE("random damage is read or refused, never worse") {
  const std::string text = schedule_csv(zbh1(ScheduleParams{3, 5}), true);
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string damaged = text;
    for (unsigned k = 0; k < 1 + random() % 3; ++k) {
      const std::size_t at = random() % damaged.size();
      if (random() % 2)
        damaged.erase(at, random() % 4 + 1);
      else
        damaged[at] = "0123456789FBIW,;()+ \n_SENDRCV"[random() % 29];
    }
    try {
      parse(damaged);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 300);
}
