#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "ir/json.h"
#include "strategies/schedule_csv.h"
#include "strategies/schedules/generators.h"
#include "tests/support/command.h"
#include "tools/draw/schedule_svg.h"
#include "tools/draw/schedule_text.h"

using namespace skirl;
using Catch::Matchers::Contains;

namespace {

void check_refused(const std::string& arguments, const std::string& what) {
  const Outcome outcome = cli(arguments);
  CAPTURE(arguments);
  CHECK(outcome.status == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, Contains(what));
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("a schedule is drawn over time, plain in a pipe") {
  const Outcome outcome = cli("show --schedule 1f1b --ranks 2 --mbs 3");
  CHECK(outcome.status == 0);
  CHECK(outcome.out ==
        "rank 0  F0 F1       B0--- F2 B1---    B2---\n"
        "rank 1     F0 B0--- F1 B1--- F2 B2---\n"
        "\n"
        "makespan 12, bubble 3 (25.0 % of all ranks idle), span bubble 3\n"
        "most activations held: 2 1\n");
  CHECK_THAT(cli("show --schedule dualpipev --ranks 1 --mbs 2").out, Contains("rank 0  0F0 1F0 0F1 1B0---- 1F1+0B0---- 1B1---- 0I1 0W1\n"));
  CHECK_THAT(cli("show --schedule seq1f1b --ranks 2 --mbs 2 --sequence-parts 3").out, Contains("F0 F1 F2 F3"));
  CHECK_THAT(cli("show --schedule grouped --ranks 2 --mbs 4 --group 1").out, Contains("most activations held: 3 2"));
}

TEST_CASE("every schedule that is listed can be shown") {
  const Json list = parse_json(cli("list schedules --json -").out, "stdout");
  CHECK(list["schedules"].size() == 16);
  for (const Json& schedule : list["schedules"]) {
    const std::string name = schedule["name"];
    CAPTURE(name);
    const Outcome outcome = cli("show --schedule " + name + " --ranks 4 --mbs 5 --csv");
    CHECK(outcome.status == 0);
    CHECK(parse_schedule_csv(outcome.out, name).ranks.size() == 4);
  }
}

TEST_CASE("a table goes out as CSV, comes back as a file, and JSON says what it costs") {
  const TemporaryFolder folder;
  const Outcome csv = cli("show --schedule zb1p --ranks 3 --mbs 4 --csv");
  CHECK(csv.out == schedule_csv(zb1p({3, 4})));
  const std::string file = folder.write("mine.csv", cli("show --schedule zb1p --ranks 3 --mbs 4 --csv --transfers").out);
  CHECK(cli("show --schedule " + file + " --csv").out == csv.out);
  CHECK(cli("show --schedule " + file + " --ranks 3 --mbs 4 --csv").out == csv.out);
  const Json json = parse_json(cli("show --schedule " + file + " --json -").out, "stdout");
  CHECK(json["makespan"] == 14.0);
  CHECK(json["peak_activations"] == Json({3, 3, 3}));
  CHECK(json["ranks"][0]["cells"][0] == "0F0");
  const std::string times = folder.write("times.json", R"({"stages": [{"forward": 1, "input": 2, "weight": 0.5}], "transfer": 0.25})");
  CHECK(parse_json(cli("show --schedule list --ranks 2 --mbs 2 --times " + times + " --json -").out, "stdout")["makespan"].get<double>() >
        7);
  const Outcome check = cli("check --model 'mlp(3,4)' --strategy 'pp(3, mine.csv, mb=4)'");
  CHECK(check.status == 2);  // no such file in this folder
  CHECK_THAT(check.err, Contains("cannot read the schedule file mine.csv"));
  CHECK(run_command("cd " + folder.path() + " && " SKIRL_CLI " check --model 'mlp(3,4)' --strategy 'pp(3, mine.csv, mb=4)'").status == 0);
}

TEST_CASE("a picture has every cell once, the colours of its stages and a frame around pairs") {
  const TemporaryFolder folder;
  CHECK(cli("show --schedule dualpipe --ranks 2 --mbs 4 --svg " + (folder / "d.svg")).status == 0);
  const std::string svg = contents(folder / "d.svg");
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  const ScheduleTable table = dualpipe({2, 4});
  std::size_t pairs = 0;
  for (const auto& slots : table.ranks)
    for (const Slot& slot : slots) {
      pairs += slot.size() > 1;
      for (const Cell& cell : slot) CHECK(count(svg, "<title>" + to_string(cell) + ", ") == 1);
    }
  CHECK(count(svg, "class=\"p\"") == pairs + 1);  // and one in the legend
  CHECK(count(svg, "nan") == 0);
  CHECK_THAT(draw::schedule_svg(table, schedule_cost(table), "<a&b>"), Contains("&lt;a&amp;b&gt;"));
}

TEST_CASE("in a terminal cells are coloured and long rows are folded") {
  const ScheduleTable table = one_f_one_b({2, 12});
  const std::string text = draw::schedule_text(table, schedule_cost(table), {true, 60});
  CHECK(count(text, "rank 0") > 1);
  CHECK(count(text, "\x1b[0;38;2;") >= 48);
  std::size_t widest = 0, width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      i = text.find('m', i);
    else if (text[i] == '\n')
      width = 0;
    else
      widest = std::max(widest, ++width);
    if (count(text.substr(0, i), "makespan") > 0) break;
  }
  CHECK(widest <= 62);
}

TEST_CASE("a schedule of a plugin is listed, shown, proved and run") {
  const std::string plugin = "--plugin " SKIRL_TEST_PLUGINS "/libown_schedule.so ";
  CHECK_THAT(cli("list schedules " + plugin).out, Contains("one_by_one"));
  CHECK_THAT(cli("show " + plugin + "--schedule one_by_one --ranks 2 --mbs 2").out, Contains("rank 1     F0 B0---          F1 B1---\n"));
  CHECK(cli("check " + plugin + "--model 'mlp(2,4)' --strategy 'pp(2, one_by_one, mb=4)'").status == 0);
  check_refused("show " + plugin + "--schedule stuck --ranks 2 --mbs 1",
                "schedule 'stuck': deadlock: rank 0 column 0 at 0B0 waits for 0F0; rank 1 column 0 at 1F0 waits for 0F0\n"
                "  at   rank 0  [0B0] 0F0\n"
                "       rank 1  [1F0] 1B0\n");
}

TEST_CASE("what cannot be shown is refused") {
  check_refused("show --schedule 1f1b --mbs 3", "show --schedule 1f1b takes --ranks");
  check_refused("show --schedule 1f1b --ranks 3", "show --schedule 1f1b takes --mbs");
  check_refused("show --schedule zbw --ranks 2 --mbs 2", "there is no schedule 'zbw'; known: zbv, ");
  check_refused("show --schedule zbv --ranks 4 --stages-per-rank 3 --mbs 2", "zbv: got 3 stages per rank, expected exactly 2");
  check_refused("show --schedule 1f1b --ranks 0 --mbs 2", "--ranks is 0, expected at least 1");
  check_refused("show --schedule 1f1b --ranks 2000000000 --mbs 2", "too many");
  check_refused("show --schedule 1f1b --ranks 2 --mbs 2 --group 2", "1f1b has no group size");
  check_refused("show --schedule 1f1b --ranks 2 --mbs 2 --transfers", "--transfers is of --csv, which is not given");
  check_refused("show --csv --model 'mlp(2,4)'", "--csv is of show --schedule, which is not given");
  check_refused("show --schedule 1f1b --ranks 2 --mbs 2 --model 'mlp(2,4)'", "show takes --schedule or --model, not both");
  check_refused("show x.plan --schedule 1f1b --ranks 2 --mbs 2", "show takes a plan (x.plan) or --schedule, not both");
  check_refused("show --schedule none.csv", "cannot read the schedule file none.csv");
  check_refused("show --schedule 1f1b --ranks 2 --mbs 2 --svg /nowhere/a.svg", "cannot write /nowhere/a.svg");
  const TemporaryFolder folder;
  const std::string file = folder.write("a.csv", "0F0,0B0\n1F0,1B0\n");
  check_refused("show --schedule " + file + " --ranks 3", "it has 2 ranks, asked for are 3");
  check_refused("show --schedule " + file + " --mbs 3", "it has 1 microbatches, asked for are 3");
  check_refused("show --schedule " + file + " --activations 3", "a file has settled group, sequence parts, memory and times");
  const auto times = [&](const std::string& text, const std::string& what) {
    check_refused("show --schedule list --ranks 2 --mbs 2 --times " + folder.write("t.json", text), what);
  };
  times("[]", "times are an object");
  times(R"({"stages": []})", "expected a list of one or more stages");
  times(R"({"stages": [{"forward": 1, "input": 0, "weight": 1}]})", "a time is a number above 0");
  times(R"({"stages": [{"forward": 1, "input": 1}]})", "weight");
  times(R"({"stages": [{"forward": 1, "input": 1, "weight": 1}], "transfer": -1})", "a time is a number of at least 0");
  times(R"({"stages": [{"forward": 1, "input": 1, "weight": 1}], "overlap": 0})", "a share above 0");
  times(R"({"stages": [{"forward":1,"input":1,"weight":1},{"forward":1,"input":1,"weight":1},{"forward":1,"input":1,"weight":1}]})",
        "has times of 3 stages, the schedule has 2");
}
