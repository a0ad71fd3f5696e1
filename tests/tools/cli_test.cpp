#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "ir/json.h"
#include "tests/support/command.h"

using namespace skirl;
using Catch::Matchers::Contains;

namespace {

const std::string kMlp = "--model 'mlp(4,8)' ";

Json json_of(const Outcome& outcome) { return parse_json(outcome.out, "stdout"); }

/// Bad input: exit status 2, one message that says `what`, and nothing on standard output.
void check_refused(const std::string& arguments, const std::string& what) {
  const Outcome outcome = cli(arguments);
  CAPTURE(arguments);
  CHECK(outcome.status == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, Contains(what));
  CHECK(outcome.err.rfind("skirl: ", 0) == 0);
  CHECK(outcome.err.find("skirl: ", 1) == std::string::npos);
}

}  // namespace

TEST_CASE("help teaches every command by examples") {
  CHECK_THAT(cli("--help").out, Contains("skirl run   --model gpt-tiny"));
  for (const char* command : {"run", "check", "dot", "plan", "show", "list"}) {
    const Outcome outcome = cli(std::string(command) + " --help");
    CHECK(outcome.status == 0);
    CHECK_THAT(outcome.out, Contains(std::string("  skirl ") + command + " "));
  }
}

TEST_CASE("list names everything and says where it comes from") {
  CHECK_THAT(cli("list models").out, Contains("gpt-tiny") && Contains("llama-tiny") && Contains("qwen3 (config.json)"));
  CHECK_THAT(cli("list passes").out, Contains("replicate") && Contains("shard_optimizer"));
  CHECK_THAT(cli("list strategies").out, Contains("zero") && Contains("level"));
  CHECK_THAT(cli("list schedules").out, Contains("1f1b") && Contains("gpipe"));
  CHECK_THAT(cli("list backends").out, Contains("cpu") && Contains("reference"));
  CHECK_THAT(cli("list ops").out, Contains("einsum") && Contains("b s h, h f -> b s f   h: sum   linear in each alone: 0, 1"));
  const Json passes = json_of(cli("list passes --json -"));
  for (const Json& pass : passes["passes"]) CHECK(pass["from"] == "built-in");
}

TEST_CASE("run trains and tells each step as JSON") {
  const Outcome outcome = cli("run " + kMlp + "--strategy 'pp(2, mb=4) + zero(1, dp=2)' --steps 3 --dtype f64 --json -");
  REQUIRE(outcome.status == 0);
  CHECK_THAT(outcome.err, Contains("step     3"));
  const Json steps = json_of(outcome)["steps"];
  REQUIRE(steps.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(steps[i]["step"] == i + 1);
    CHECK(steps[i]["loss"].get<double>() > 0);
    CHECK(steps[i]["grad_norm"].get<double>() > 0);
    CHECK(steps[i]["tokens_per_s"].get<double>() > 0);
  }
}

TEST_CASE("a strategy changes nothing that run prints but the speed") {
  const std::string common = "run " + kMlp + "--steps 4 --dtype f64 --optimizer sgd --lr 0.1 --clip 0.5 --json - ";
  const Json one = json_of(cli(common))["steps"];
  for (const char* strategy : {"ddp(2)", "zero(3, dp=3)", "pp(2, gpipe, mb=3)"}) {
    const Json many = json_of(cli(common + "--strategy '" + strategy + "'"))["steps"];
    REQUIRE(many.size() == one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      CHECK(many[i]["loss"].get<double>() == Approx(one[i]["loss"].get<double>()).epsilon(1e-12));
      CHECK(many[i]["grad_norm"].get<double>() == Approx(one[i]["grad_norm"].get<double>()).epsilon(1e-12));
    }
  }
}

TEST_CASE("run reads text, and the batch does not depend on the strategy") {
  const TemporaryFolder folder;
  folder.write("a.txt", "the quick brown fox jumps over the lazy dog, again and again and again. ");
  const std::string common =
      "run --model 'gpt-tiny(layers=2,width=8,heads=2,kv_heads=1,head_dim=4)' --batch 4 --seq 16 --dtype f64 --steps 2 --json - --data " +
      folder.path();
  const Json one = json_of(cli(common))["steps"];
  const Json two = json_of(cli(common + " --strategy 'pp(2, mb=2)'"))["steps"];
  REQUIRE(one.size() == 2);
  CHECK(two[1]["loss"].get<double>() == Approx(one[1]["loss"].get<double>()).epsilon(1e-12));
  CHECK(one[0]["loss"] != one[1]["loss"]);
}

TEST_CASE("check prints a line a pass and the deviation of the plan") {
  const Outcome outcome = cli("check " + kMlp + "--strategy 'pp(2, 1f1b, mb=4) + zero(1, dp=2)' --steps 3 --clip 1");
  CHECK(outcome.status == 0);
  for (const char* pass : {"partition", "split", "place", "replicate", "order", "cpu"}) CHECK_THAT(outcome.out, Contains(pass));
  const Json json = json_of(cli("check " + kMlp + "--strategy 'ddp(3)' --json -"));
  CHECK(json["worst"].get<double>() <= 1e-10);
  CHECK(json["passes"].size() >= 2);
}

TEST_CASE("a plan is the same bytes when made twice, and runs like its strategy") {
  const TemporaryFolder folder;
  const std::string strategy = kMlp + "--dtype f64 --strategy 'pp(2, mb=2) + zero(3, dp=2)' ";
  REQUIRE(cli("plan " + strategy + "-o " + (folder / "a.plan")).status == 0);
  REQUIRE(cli("plan " + strategy + "-o " + (folder / "b.plan")).status == 0);
  CHECK(!contents(folder / "a.plan").empty());
  CHECK(contents(folder / "a.plan") == contents(folder / "b.plan"));
  const Json from_plan = json_of(cli("run " + (folder / "a.plan") + " --steps 2 --json -"))["steps"];
  const Json direct = json_of(cli("run " + strategy + "--steps 2 --json -"))["steps"];
  REQUIRE(from_plan.size() == 2);
  CHECK(from_plan[1]["loss"] == direct[1]["loss"]);
  CHECK_THAT(cli("show " + (folder / "a.plan")).out, Contains("mlp(4,8)") && Contains("zero(3, dp=2)"));
  CHECK(json_of(cli("show " + (folder / "a.plan") + " --memory --json -"))["devices"].size() == 4);
}

TEST_CASE("show --directives prints a strategy file that stands for the same step") {
  const TemporaryFolder folder;
  const std::string command = "show " + kMlp + "--directives --strategy ";
  const Outcome first = cli(command + "'zero(2, dp=2) + pp(2, mb=4)'");
  REQUIRE(first.status == 0);
  folder.write("s.json", first.out);
  CHECK(cli(command + (folder / "s.json")).out == first.out);
  CHECK_THAT(first.out, Contains("\"shard_grads\""));
}

TEST_CASE("show --layouts tells how parameters and states lie") {
  const Outcome outcome = cli("show " + kMlp + "--strategy 'zero(3, dp=2)' --layouts");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out, Contains("[dp") && Contains("param") && Contains("gradient") && Contains("state"));
}

TEST_CASE("dot draws the graph of any pass") {
  const TemporaryFolder folder;
  CHECK_THAT(cli("dot " + kMlp + "--after start").out, Contains("digraph"));
  REQUIRE(cli("dot " + kMlp + "--strategy 'ddp(2)' -o " + (folder / "g.svg")).status == 0);
  CHECK_THAT(contents(folder / "g.svg"), Contains("<svg"));
  const std::string all = cli("dot " + kMlp + "--strategy 'pp(2, mb=2)' --no-fold").out;
  const std::string some = cli("dot " + kMlp + "--strategy 'pp(2, mb=2)' --no-fold --filter '{\"MB\": 0, \"PASS\": \"F\"}'").out;
  CHECK(some.size() < all.size() / 2);
  CHECK(cli("dot " + kMlp + "--strategy 'pp(2, mb=2)' --fold LAYER").out.size() < all.size());
}

TEST_CASE("dumps and --stop-after show the way of a graph") {
  const TemporaryFolder folder;
  REQUIRE(cli("run " + kMlp + "--strategy 'pp(2, mb=2)' --backend reference --stop-after 2 --dump " + (folder / "d")).status == 0);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "d")) files += entry.is_regular_file();
  CHECK(files == 3);
  CHECK_THAT(contents(folder / "d/02_split.dag"), Contains("MB=1"));
}

TEST_CASE("what the command line cannot mean is refused") {
  check_refused("", "subcommand");
  check_refused("run --modle x", "--modle");
  check_refused("run", "--model is missing");
  check_refused("list things", "no list of 'things'; known: ");
  check_refused("run " + kMlp + "--steps 0", "--steps is 0");
  check_refused("run " + kMlp + "--steps 2.5", "--steps is '2.5'");
  check_refused("run " + kMlp + "--steps -3", "--steps is '-3'");
  check_refused("run " + kMlp + "--lr nan", "--lr");
  check_refused("run " + kMlp + "--dtype f8", "known: f64, f32, bf16, f16");
  check_refused("run " + kMlp + "--optimizer adam", "adam");
  check_refused("run " + kMlp + "--backend gpu", "gpu");
  check_refused("run " + kMlp + "--set B", "DIM=N");
  check_refused("run " + kMlp + "--set Q=3", "Q");
  check_refused("run " + kMlp + "--stop-after 9", "--stop-after is 9");
  check_refused("show " + kMlp + "--layouts --memory", "one of");
  check_refused("dot " + kMlp + "--fold LAYRE", "no node has the tag 'LAYRE'; known: LAYER");
  check_refused("dot " + kMlp + "--filter '{\"PASS\": \"Q\"}'", "unknown PASS 'Q'");
  check_refused("dot " + kMlp + "--after splitt", "no pass 'splitt' ran; those that did: start");
  check_refused("check " + kMlp + "--backend null", "nothing to compare");
  check_refused("bogus", "there is no command 'bogus'; known: run, check");
  check_refused("run " + kMlp + "--data ''", "--data is empty");
  check_refused("run " + kMlp + "--momentum 0.9", "--momentum is of sgd, but --optimizer is adamw");
  check_refused("plan " + kMlp + "-o -", "-o is '-'");
  check_refused("plan " + kMlp + "-o both --json ./both", "-o and --json name the same file");
}

TEST_CASE("a strategy that cannot be is refused") {
  check_refused("run " + kMlp + "--strategy 'zeroo(1, dp=2)'", "zeroo");
  check_refused("run " + kMlp + "--strategy 'pp(2'", "^");
  check_refused("run " + kMlp + "--strategy 'pp(9)'", "9");
  check_refused("run " + kMlp + "--strategy 'pp(2, mb=9)'", "9");
  const TemporaryFolder folder;
  const auto with = [&](const std::string& text) { return "run " + kMlp + "--strategy " + folder.write("s.json", text); };
  check_refused(with("[{\"op\": \"plaec\"}]"), "place");
  check_refused(with("[{\"op\": \"place\", \"devices\": [0, 0]}]"), "twice");
  check_refused(with("[{\"op\": \"place\", \"filter\": {\"STAGE\": 1}, \"devices\": [0]}]"), "STAGE");
  check_refused(with("[{\"op\": \"place\", \"devices\": [0, 1]}, {\"op\": \"replicate\", \"axis\": \"tp\"}]"), "tp");
  check_refused(with("[{\"op\": \"place\", \"devices\": [0],}]"), "s.json");
  check_refused(with("[{\"op\": \"place\", \"op\": \"split\"}]"), "s.json");
  check_refused(with("[{\"op\": \"split\", \"num_microbatches\": 4.7}]"), "/0/num_microbatches");
  check_refused(with("[{\"op\": \"split\", \"num_microbatches\": -3}]"), "/0/num_microbatches");
  check_refused(with(std::string(300'000, '[')), "64");
  check_refused(with(""), "s.json");
  check_refused(with(std::string("[]\0", 3)), "malformed JSON: a NUL byte");
  check_refused("run " + kMlp + "--strategy " + (folder / "none.json"), "none.json");
}

TEST_CASE("a model that cannot be is refused") {
  check_refused("run --model mlpp", "mlp");
  const TemporaryFolder folder;
  check_refused("run --model " + folder.write("m.dag", "input %x \"x\" : f32[4,4] cut 0\n%y = tanhh %x\n"), "m.dag");
  check_refused("run --model " + folder.write("e.dag", ""), "empty");
  check_refused("run --model " + (folder / "none.dag"), "none.dag");
  check_refused("run --model /dev/zero", "cannot read the model file /dev/zero: it is not a regular file");
}

TEST_CASE("data that cannot be read is refused") {
  const TemporaryFolder folder;
  const std::string gpt = "run --model gpt-tiny --data ";
  check_refused(gpt + (folder / "none.txt"), "none.txt");
  check_refused(gpt + folder.write("empty.txt", ""), "is empty");
  check_refused(gpt + folder.write("short.txt", "too short"), "9 bytes, expected at least 65");
  std::filesystem::create_directory(folder / "nothing");
  check_refused(gpt + (folder / "nothing"), "is empty");
  check_refused("run " + kMlp + "--data " + folder.write("a.txt", "some text"), "does not read text");
  check_refused(gpt + "/dev/zero", "cannot read the data /dev/zero: it is not a regular file");
  check_refused("run --model 'gpt-tiny(vocab=64)' --seq 4 --data " + folder.write("b.txt", "01234567a"),
                "byte 8 is 97, expected at most 63");
}

TEST_CASE("a plan that cannot be is refused") {
  const TemporaryFolder folder;
  check_refused("run " + (folder / "none.plan"), "none.plan");
  check_refused("run " + folder.write("empty.plan", ""), "is empty");
  check_refused("run " + folder.write("bad.plan", "hello\n"), "bad.plan");
  REQUIRE(cli("plan " + kMlp + "-o " + (folder / "a.plan")).status == 0);
  const std::string text = contents(folder / "a.plan");
  check_refused("run " + folder.write("half.plan", text.substr(0, text.size() / 2)), "half.plan");
  check_refused("run " + (folder / "a.plan") + " --strategy 'ddp(2)'", "not both");
  check_refused("run " + (folder / "a.plan") + " --lr 0.1", "or --lr, not both");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  check_refused("run " + (folder / "pipe"), "it is not a regular file");
}

TEST_CASE("nothing is half written where output cannot be written") {
  const TemporaryFolder folder;
  const std::string nowhere = folder / "no/such/folder/x";
  check_refused("plan " + kMlp + "-o " + nowhere, "cannot write");
  check_refused("dot " + kMlp + "-o " + nowhere + ".svg", "cannot write");
  check_refused("run " + kMlp + "--json " + nowhere, "cannot write");
  check_refused("run " + kMlp + "--dump /dev/null/x", "/dev/null/x");
  check_refused("dot " + kMlp + "-o " + (folder / "x.png"), ".svg");
  // A fault after the file is open leaves nothing behind, and an older file as it was.
  folder.write("old.plan", "as it was");
  check_refused("plan " + kMlp + "--strategy 'pp(9)' -o " + (folder / "old.plan"), "9");
  check_refused("run " + kMlp + "--strategy 'pp(9)' --json " + (folder / "new.json"), "9");
  CHECK(contents(folder / "old.plan") == "as it was");
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  CHECK(files == 1);
}

TEST_CASE("output goes through a link, straight into a device, and never gets lost unsaid") {
  const TemporaryFolder folder;
  folder.write("real.plan", "old");
  std::filesystem::permissions(folder / "real.plan", std::filesystem::perms(0600));
  std::filesystem::create_symlink("real.plan", folder / "link.plan");
  REQUIRE(cli("plan " + kMlp + "-o " + (folder / "link.plan")).status == 0);
  CHECK(std::filesystem::is_symlink(folder / "link.plan"));
  CHECK(contents(folder / "real.plan").size() > 100);
  CHECK(std::filesystem::status(folder / "real.plan").permissions() == std::filesystem::perms(0600));
  std::filesystem::create_symlink("/dev/null", folder / "null");
  CHECK(cli("plan " + kMlp + "-o " + (folder / "null")).status == 0);
  CHECK(std::filesystem::is_symlink(folder / "null"));
  CHECK(std::filesystem::is_character_file("/dev/null"));
  check_refused("list models > /dev/full", "cannot write standard output");
}

TEST_CASE("a step that is not finite ends a run after its JSON, and is no fault of a pass") {
  const std::string wild = kMlp + "--steps 9 --optimizer sgd --lr 1e30 ";
  const Outcome run = cli("run " + wild + "--json -");
  CHECK(run.status == 3);
  CHECK_THAT(run.err, Contains("the loss is not a finite number"));
  CHECK(json_of(run)["steps"].size() >= 2);
  const Outcome check = cli("check " + wild + "--dtype f32 --strategy 'ddp(2)'");
  CHECK(check.status == 3);
  CHECK_THAT(check.err, Contains("is not a finite number"));
  CHECK_THAT(check.out, !Contains("check failed"));
}

TEST_CASE("a plugin that cannot be loaded is refused, with file and reason") {
  const TemporaryFolder folder;
  check_refused("list passes --plugin " + (folder / "none.so"), "there is no such file");
  check_refused("list passes --plugin " + folder.write("text.so", "not a library"), "text.so");
}
