#include "strategies/registry.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/builder.h"
#include "strategies/compose.h"
#include "strategies/schedules/generators.h"
#include "tests/support/check_error.h"

using namespace skirl;

TEST_CASE("a registry says where each entry comes from") {
  Registry registry;
  CHECK(registry.strategy("zero").origin == "built-in");
  CHECK(registry.schedule("1f1b").origin == "built-in");
  registry.origin = "libmine.so";
  registry.add(StrategyInfo{
      "mine", "all on one device", {}, {}, [](const StrategyArgs&, const StrategyContext&) { return std::vector<Directive>{}; }});
  CHECK(registry.strategy("mine").origin == "libmine.so");
  CHECK(directives_to_text(strategy_directives("mine", {8, 4, {}, {}}, registry)) ==
        "{\"directives\": [\n  {\"op\":\"place\",\"filter\":{},\"devices\":[0]}\n]}\n");
}

TEST_CASE("a recipe gets its arguments by name, defaults filled in, and the mesh of the whole composition") {
  Registry registry;
  std::string got;
  registry.add(StrategyInfo{"seen",
                            "",
                            {{"how", "item", "", ""},
                             {"size", "size", "", ""},
                             {"n", "integer", "7", ""},
                             {"copy", "integer", "n", ""},
                             {"w", "word", "abc", ""}},
                            {},
                            [&](const StrategyArgs& args, const StrategyContext& context) {
                              for (const auto& [name, value] : args) got += name + "=" + value.dump() + " ";
                              got += "dp=" + std::to_string(context.mesh.at("dp")) + " tp=" + std::to_string(context.mesh.at("tp"));
                              return std::vector<Directive>{};
                            }});
  strategy_directives("seen(ddp(3), 1KB, n=-2) + zero(1, dp=5)", {8, 4, {}, {}}, registry);
  CHECK(got == R"(copy=-2 how={"item":"ddp","args":{"dp":3}} n=-2 size=1000 w="abc" dp=5 tp=1)");
  CHECK_ERROR(strategy_directives("seen(ddq(3), 1KB)", {8, 4, {}, {}}, registry), "there is no strategy 'ddq'; known: ddp, cp, hsdp, pp, tp, tp2d, zero, seen");
  CHECK_ERROR(strategy_directives("seen(ddp(3), 1000)", {8, 4, {}, {}}, registry), "seen: size is '1000', expected a size such as 25MB");
}

TEST_CASE("a registry refuses a name twice, a name that is no word, and an entry without its function") {
  Registry registry;
  registry.origin = "libmine.so";
  const auto nothing = [](const StrategyArgs&, const StrategyContext&) { return std::vector<Directive>{}; };
  CHECK_ERROR(registry.add(StrategyInfo{"ddp", "", {}, {}, nothing}), "strategy 'ddp' of libmine.so is there already: built-in");
  CHECK_ERROR(registry.add(StrategyInfo{"a+b", "", {}, {}, nothing}), "strategy 'a+b' of libmine.so: the name is no word");
  CHECK_ERROR(registry.add(StrategyInfo{"7", "", {}, {}, nothing}), "strategy '7' of libmine.so: the name is no word");
  CHECK_ERROR(registry.add(StrategyInfo{"mine", "", {}, {}, {}}), "strategy 'mine' of libmine.so has no function");
  CHECK_ERROR(registry.add(ScheduleInfo{"gpipe", "", gpipe}), "schedule 'gpipe' of libmine.so is there already: built-in");
  PassInfo pass;
  pass.name = "split";
  pass.run = [](Graph graph, const Directive&) { return graph; };
  CHECK_ERROR(registry.add(pass), "pass 'split' of libmine.so is there already: built-in");
}

TEST_CASE("the signature of a graph tells batch, layers, parameters and tags") {
  ModelBuilder m;
  ValueId x = m.input("x", {6, 2}, 0);
  m.input("mask", {1, 2}, std::nullopt);
  for (std::int64_t i : {0, 1, 2, 1}) {
    const auto layer = m.tag("LAYER", i);
    const auto block = m.tag("BLOCK", i == 1 ? "attn" : "mlp");
    x = m.tanh(x);
  }
  const ValueId w = m.param("w", {2, 2}, 0.1);
  m.mse("mse", m.einsum("bi,ij->bj", x, w), m.input("y", {6, 2}, 0));
  const GraphSignature signature = signature_of(m.take());
  CHECK(signature.batch == 6);
  CHECK(signature.layers == 3);
  CHECK(signature.params == std::vector<std::string>{"w"});
  CHECK(signature.tag_counts == std::map<std::string, std::int64_t>{{"BLOCK", 2}, {"LAYER", 3}});
}
