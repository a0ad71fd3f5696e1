#include "strategies/compose.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/check_error.h"

using namespace skirl;

namespace {

const GraphSignature kModel{8, 4, {}, {{"LAYER", 4}}};

std::vector<Directive> directives(const std::string& strategy, const GraphSignature& model = kModel) {
  static const Registry registry;
  return strategy_directives(strategy, model, registry);
}
std::string text(const std::string& strategy) { return directives_to_text(directives(strategy)); }
std::string ops(const std::string& strategy) {
  std::string all;
  for (const Directive& d : directives(strategy)) all += (all.empty() ? "" : " ") + d.op;
  return all;
}
Error error_of(const std::string& strategy) {
  try {
    directives(strategy);
  } catch (const Error& error) {
    return error;
  }
  return Error("(no error)");
}
std::string temp_file(const std::string& name, const std::string& content) {
  const std::string path = (std::filesystem::temp_directory_path() / ("skirl_compose_test_" + name)).string();
  std::ofstream(path) << content;
  return path;
}

}  // namespace

TEST_CASE("recipes become the directives that they are documented as") {
  CHECK(text("ddp(2)") == R"({"directives": [
  {"op":"place","filter":{},"devices":[0,1],"axes":{"dp":2}},
  {"op":"replicate","filter":{},"axis":"dp"}
]}
)");
  CHECK(text("zero(3, dp=3)") == R"({"directives": [
  {"op":"place","filter":{},"devices":[0,1,2],"axes":{"dp":3}},
  {"op":"replicate","filter":{},"axis":"dp","shard_optimizer":true,"shard_grads":true,"shard_params":true}
]}
)");
  CHECK(text("zero(1, 2)").find(R"("shard_optimizer":true})") != std::string::npos);
  CHECK(text("zero(2, 2)").find(R"("shard_optimizer":true,"shard_grads":true})") != std::string::npos);
  CHECK(text("pp(2)") == R"({"directives": [
  {"op":"partition","tag":"LAYER","into":"PP","stages":2},
  {"op":"split","filter":{},"dim_name":"MB","num_microbatches":2},
  {"op":"place","filter":{"PP":0},"devices":[0]},
  {"op":"place","filter":{"PP":1},"devices":[1]},
  {"op":"order","filters":[[{"PP":0,"MB":0,"PASS":"F"}],[{"PP":0,"MB":1,"PASS":"F"}],[{"PP":0,"MB":0,"PASS":"B"}],[{"PP":0,"MB":1,"PASS":"B"}]]},
  {"op":"order","filters":[[{"PP":1,"MB":0,"PASS":"F"}],[{"PP":1,"MB":0,"PASS":"B"}],[{"PP":1,"MB":1,"PASS":"F"}],[{"PP":1,"MB":1,"PASS":"B"}]]}
]}
)");
}

TEST_CASE("a composition is sorted into the legal order, whatever the order of its items") {
  CHECK(ops("zero(1, dp=2) + pp(2, 1f1b, mb=4)") == "partition split place place replicate order order");
  CHECK(text("zero(1, dp=2) + pp(2, 1f1b, mb=4)") == text("pp(2, mb=4, schedule=1f1b) + zero(dp=2, level=1)"));
  const std::string both = text("pp(2, gpipe, mb=3) + ddp(3)");
  CHECK(both.find(R"({"op":"place","filter":{"PP":1},"devices":[3,4,5],"axes":{"dp":3}})") != std::string::npos);  // pp outermost
  CHECK(both.find(R"("num_microbatches":3)") != std::string::npos);
  CHECK(ops("pp(1, mb=1)") == "partition split place order");
  CHECK(ops("ddp(1)") == "place replicate");
}

TEST_CASE("what show prints can be loaded again") {
  for (const std::string strategy : {"ddp(2)", "pp(3, gpipe, mb=5) + zero(3, dp=2)"}) {
    const std::string path = temp_file("shown.json", text(strategy));
    CHECK(text(path) == text(strategy));
    CHECK(directives_to_json(directives(path)).dump() == parse_json(text(strategy), "x").dump());
  }
}

TEST_CASE("a bare array is applied in the legal order, an object as it is written") {
  const std::string list = R"([{"op": "order", "filters": [[{"MB": 0}], [{"MB": 1}]]},
    {"op": "place", "filter": {"PP": 0}, "devices": [0]}, {"op": "split", "filter": {}, "dim_name": "MB", "num_microbatches": 2}])";
  CHECK(ops(temp_file("array.json", list)) == "split place order");
  const std::string path = temp_file("object.json", "{\"directives\": " + list + "}");
  CHECK(ops(path) == "order place split");
  CHECK(directives(path)[1].pointer == "/directives/1");
  CHECK(directives(path)[1].file == path);
  CHECK(directives(path)[1].params.dump() == R"({"filter":{"PP":0},"devices":[0]})");
}

TEST_CASE("Piper files load as they are") {
  const std::string folder = SKIRL_TEST_DATA "/piper/";
  CHECK(ops(folder + "tied_embeddings_two_devices.json") == "split place place order order");
  CHECK(ops(folder + "ext_zero3_wildcard_stages.json") == "split place place place replicate");
  CHECK(directives(folder + "ext_zero3_wildcard_stages.json").back().pointer == "/3");
  CHECK(directives(folder + "ext_zero3_wildcard_stages.json").back().params.dump() ==
        R"({"filter":{"PP":"*"},"devices":[0,1],"reduce_stream":"dp_stream","shard_grads":true,"shard_params":true})");
}

TEST_CASE("an error in a composition says what is wrong and where") {
  CHECK_ERROR(directives("zerro(1, 2)"), "there is no strategy 'zerro'; known: zero, cp, ddp, hsdp, pp, tp, tp2d");
  CHECK_ERROR(directives("ddp"), "ddp: dp is missing: devices that share the batch");
  CHECK(error_of("ddp").help() == "ddp(dp)");
  CHECK(error_of("ddp(2) + pp").help() == "pp(ranks, schedule=1f1b, mb=ranks, stages_per_rank=auto, group=auto, memory=auto)");
  CHECK_ERROR(directives("ddp(0)"), "ddp: dp is '0', expected a whole number of at least 1");
  CHECK_ERROR(directives("ddp(-3)"), "ddp: dp is '-3', expected a whole number of at least 1");
  CHECK_ERROR(directives("ddp(4.7)"), "ddp: dp is '4.7', expected a whole number of at least 1");
  CHECK_ERROR(directives("ddp(2MB)"), "ddp: dp is '2MB', expected a whole number of at least 1");
  CHECK_ERROR(directives("ddp(x(2))"), "ddp: dp is 'x(…)', expected a whole number of at least 1");
  CHECK_ERROR(directives("pp(2, 3)"), "pp: schedule is '3', expected a word");
  CHECK_ERROR(directives("ddp(2, 3)"), "ddp takes at most 1 arguments");
  CHECK_ERROR(directives("ddp(2, dp=2)"), "ddp: dp is given twice");
  CHECK_ERROR(directives("pp(2, mbs=2)"), "pp has no argument 'mbs'; known: mb, ranks, group, memory, schedule, stages_per_rank");
  CHECK_ERROR(directives("pp(2) + pp(2)"), "the recipe pp stands twice, expected it once");
  CHECK_ERROR(directives("ddp(2) + zero(1, 2)"), "ddp and zero both use the axis dp, expected one of them");
  CHECK_ERROR(directives("pp(2, zb9)"),
              "there is no schedule 'zb9'; known: zbv, zb1p, zbh1, zb2p, 1f1b, vmin, list, gpipe, vhalf, grouped, seq1f1b, dualpipe, …");
  CHECK_ERROR(directives("zero(0, 2)"), "zero: level is 0, expected 1 (optimizer states), 2 (and gradients) or 3 (and parameters)");
  CHECK(error_of("zero(0, 2)").help() == "without sharding it is ddp(2)");
  CHECK_ERROR(directives("zero(4, 2)"), "zero: level is 4, expected 1 (optimizer states), 2 (and gradients) or 3 (and parameters)");
  CHECK_ERROR(directives("ddp(1048577)"), "the degrees multiply to more than 1048576 devices");
  CHECK_ERROR(directives("ddp(1048576) + pp(4)"), "the degrees multiply to more than 1048576 devices");
  CHECK(error_of("ddp(2) + zerro(1)").at() == "ddp(2) + zerro(1)\n                ^");
  CHECK(error_of("ddp(2) + pp(9)").at() == "ddp(2) + pp(9)\n                ^");
}

TEST_CASE("a pipeline that the model cannot fill is refused") {
  CHECK_ERROR(directives("pp(5)"), "pp: 5 stages of 4 layers leave stage 4 without layers");
  CHECK_ERROR(directives("pp(2, mb=9)"), "pp: 9 microbatches cannot be made of 8 samples");
  CHECK_ERROR(directives("pp(2)", {8, 0, {}, {}}), "pp: no node of the model has an integer tag LAYER");
  CHECK_ERROR(directives("ddp(2)", {0, 4, {}, {}}), "ddp: no input of the model has a batch dimension to cut");
}

TEST_CASE("a strategy file that cannot be used is refused with its pointer") {
  CHECK_ERROR(directives("/nowhere/s.json"), "cannot read the file /nowhere/s.json: No such file or directory");
  CHECK_ERROR(directives(temp_file("a.json", "7")), "a strategy file is an array of directives or {\"directives\": […]}");
  CHECK_ERROR(directives(temp_file("b.json", "{\"directive\": []}")), "unknown key \"directive\"; known: directives");
  CHECK_ERROR(directives(temp_file("c.json", "[]")), "the strategy has no directives");
  CHECK_ERROR(directives(temp_file("d.json", "[{\"op\": 3}]")), "found 3, expected a string");
  CHECK_ERROR(directives(temp_file("e.json", "[{}]")), "the key \"op\" is missing");
  CHECK_ERROR(directives(temp_file("f.json", "[[]]")), "a directive is an object such as {\"op\": \"place\", …}");
  const std::string path = temp_file("g.json", "[{\"op\": \"plaice\"}, {\"op\": \"place\"}]");
  CHECK_ERROR(directives(path), "there is no pass 'plaice'; known: place, split, replicate, order, partition, shard_tensor");
  CHECK(error_of(path).at() == path + " /0");
}
