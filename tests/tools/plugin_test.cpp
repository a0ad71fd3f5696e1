#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "ir/json.h"
#include "tests/support/command.h"

using namespace skirl;
using Catch::Matchers::Contains;

namespace {

std::string plugin(const std::string& name) { return std::string(SKIRL_TEST_PLUGINS) + "/lib" + name + ".so"; }

/// `skirl check` of a strategy with one broken pass at its end.
Outcome check_broken(const std::string& model, const std::string& strategy, const std::string& pass) {
  const TemporaryFolder folder;
  const Outcome directives = cli("show " + model + " --strategy '" + strategy + "' --directives --json - 2>/dev/null");
  Json file = parse_json(directives.out, "stdout");
  file["directives"].push_back({{"op", pass}});
  return cli("check " + model + " --steps 2 --plugin " + plugin("broken_passes") + " --strategy " + folder.write("s.json", file.dump()));
}

void check_named(const Outcome& outcome, const std::string& pass) {
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.out, Contains("check failed: pass " + pass));
}

const std::string kMlp = "--model 'mlp(4,8)' --optimizer sgd --lr 0.1";
const std::string kDropout = "--model 'gpt-tiny(layers=2,width=8,heads=2,kv_heads=1,head_dim=4,vocab=16,dropout=0.3)' --seq 4 --batch 4";

}  // namespace

TEST_CASE("check names the pass that breaks the step") {
  check_named(check_broken(kMlp, "ddp(2)", "divide_twice"), "divide_twice");
  check_named(check_broken(kMlp, "pp(2, mb=2)", "skip_stage"), "skip_stage");
  check_named(check_broken(kMlp + " --clip 0.01", "ddp(2)", "count_replica"), "count_replica");
  check_named(check_broken(kDropout, "pp(2, mb=2)", "local_dropout"), "local_dropout");
}

TEST_CASE("a reduction that is dropped is caught by verify alone") {
  const Outcome outcome = check_broken(kMlp, "ddp(2)", "drop_reduction");
  check_named(outcome, "drop_reduction");
  CHECK_THAT(outcome.out, Contains("not valid") && Contains("partial"));
}

TEST_CASE("the same strategies without the broken pass hold") {
  CHECK(cli("check " + kMlp + " --clip 0.01 --strategy 'ddp(2)' --steps 2").status == 0);
  CHECK(cli("check " + kDropout + " --strategy 'pp(2, mb=2)' --steps 2").status == 0);
}

TEST_CASE("a plugin that does not fit is refused with file and reason") {
  const auto refused = [](const std::string& name, const std::string& reason) {
    const Outcome outcome = cli("list passes --plugin " + plugin(name));
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.err, Contains(name) && Contains(reason));
  };
  refused("api_fault", "its API number is 2, expected 1");
  refused("abi_fault", "its ABI is 'skirl 0.0.1, another compiler', expected 'skirl ");
  refused("taken_fault", "'split'");
  refused("throws_fault", "no licence");
}
