#include "passes/replicate.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/text.h"
#include "passes/place.h"
#include "tests/support/check_error.h"
#include "tests/support/compiled.h"
#include "tools/testing.h"

using namespace skirl;
using namespace skirl::test;

namespace {

const char* const kModel = R"(
  input %x "x" : f64[5,2] cut 0
  param %w "w" : f64[2] ones
  loss "l" = sum (mul %x %w) LAYER=0
)";

Graph placed(const std::string& devices, const std::string& axes = "{\"dp\": 2}", const std::string& model = kModel) {
  return after(place_pass(), differentiate(parse(model), sgd()), "{\"devices\": [" + devices + "], \"axes\": " + axes + "}");
}

Graph replicate(const std::string& params) { return after(replicate_pass(), placed("0, 1"), params); }

/// The nodes of the update and what comes to it.
std::string weights(const Graph& graph) {
  std::string text = "\n";
  const std::string whole = print(graph);
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = whole.find('\n', at);
    const std::string line = whole.substr(at, end - at);
    for (const char* op : {"param", "all_gather", "all_reduce", "reduce_scatter", "sgd", "sum_to {shape=[2]}"})
      if (line.find(std::string(" = ") + op) != std::string::npos && line.find("f64[2]") != std::string::npos) text += line + "\n";
    at = end + 1;
  }
  return text;
}

}  // namespace

TEST_CASE("replicate cuts the batch and reduces each gradient once") {
  CHECK(weights(replicate("{}")) == R"(
%0 = param "w" {init=constant, scale=1, trainable=true} : f64[2] @s0 F LAYER=0
%11 = sum_to {shape=[2]} %10 : f64[2] @s0 partial(dp) "mul.0" BW LAYER=0
%12 = all_reduce %11 : f64[2] @s0 "mul.0" BW LAYER=0 stream=reduce
%13 = sgd {lr=0.1, momentum=0, weight_decay=0} %0 %12 : f64[2] @s0 "w" U LAYER=0
)");
}

TEST_CASE("zero 1 runs the update on parts and gathers the parameter behind it") {
  CHECK(weights(replicate(R"({"shard_optimizer": true})")) == R"(
%0 = param "w" {init=constant, scale=1, trainable=true} : f64[2] @s0 F LAYER=0
%11 = sum_to {shape=[2]} %10 : f64[2] @s0 partial(dp) "mul.0" BW LAYER=0
%12 = reduce_scatter %11 : f64[2] @s0 [dp] "mul.0" BW LAYER=0 stream=reduce
%14 = sgd {lr=0.1, momentum=0, weight_decay=0} %13 %12 : f64[2] @s0 [dp] "w" U LAYER=0
%15 = all_gather %14 : f64[2] @s0 "w" U LAYER=0 stream=gather role=param
)");
}

TEST_CASE("zero 3 stores the parameter in parts and gathers it for each use") {
  CHECK(weights(replicate(R"({"shard_optimizer": true, "shard_grads": true, "shard_params": true})")) == R"(
%0 = param "w" {init=constant, scale=1, trainable=true} : f64[2] @s0 [dp] F LAYER=0
%5 = all_gather %0 : f64[2] @s0 "w" F LAYER=0 stream=gather role=param
%12 = sum_to {shape=[2]} %11 : f64[2] @s0 partial(dp) "mul.0" BW LAYER=0
%13 = reduce_scatter %12 : f64[2] @s0 [dp] "mul.0" BW LAYER=0 stream=reduce
%14 = sgd {lr=0.1, momentum=0, weight_decay=0} %0 %13 : f64[2] @s0 [dp] "w" U LAYER=0
)");
}

TEST_CASE("storage is cut along the first dimension that has an element for each device, else along the largest") {
  CHECK(storage_dim({4, 9}, 4) == 0);
  CHECK(storage_dim({3, 9}, 4) == 1);
  CHECK(storage_dim({1, 3, 2}, 4) == 1);
  CHECK(storage_dim({1}, 2) == 0);
  CHECK(storage_dim({}, 2) == std::nullopt);
}

TEST_CASE("replicate keeps the step at every level") {
  const Graph step = differentiate(parse(mlp_text(2, 3, 5)), adam());
  const Graph on_devices = after(place_pass(), step, R"({"devices": [0, 1, 2]})");
  for (const char* level : {"{}", R"({"shard_optimizer": true})", R"({"shard_optimizer": true, "shard_grads": true})",
                            R"({"shard_optimizer": true, "shard_grads": true, "shard_params": true})"})
    CHECK(same_step(step, after(replicate_pass(), on_devices, level)));
}

TEST_CASE("replicate refuses an axis that is not there, and what is not placed or cannot be cut") {
  CHECK_ERROR(replicate(R"({"axis": "tp"})"), "replicate: no mesh has an axis 'tp'; axes: dp");
  CHECK_ERROR(after(replicate_pass(), differentiate(parse(kModel), sgd()), "{}"), "replicate: nothing is placed yet");
  CHECK_ERROR(replicate(R"({"filter": {"PP": 0}})"), "the filter {\"PP\":0} names the tag PP, which no node has; tags: LAYER");
  CHECK_ERROR(replicate(R"({"filter": {"LAYER": 1}})"), "replicate: the filter {\"LAYER\":1} matches no node on a mesh with axis 'dp'");
  CHECK_ERROR(replicate(R"({"filter": {"LAYER": 0}, "devices": [2, 3]})"),
              "replicate: %5 = loss_scale \"l\" (BI LAYER=0) is on other devices than the directive lists (mesh @s0)");
  CHECK_ERROR(
      replicate(R"({"shard_grad": true})"),
      "unknown key \"shard_grad\"; known: shard_grads, shard_params, filter, axis, shard_optimizer, gather_stream, devices, bucket_size, "
      "reduce_stream");
  const std::string whole = "input %x \"x\" : f64[5,2]\nparam %w \"w\" : f64[2] ones\nloss \"l\" = sum (mul %x %w)\n";
  CHECK_ERROR(after(replicate_pass(), placed("0, 1", "{\"dp\": 2}", whole), "{}"),
              "replicate: nothing can be cut over axis 'dp': no input of the region has a batch dimension");
}

TEST_CASE("replicate refuses an axis that cuts the region already") {
  const Graph once = replicate("{}");
  CHECK_ERROR(after(replicate_pass(), once, "{}"), "replicate: axis 'dp' cuts %2 = mul \"mul.0\" (F LAYER=0) already");
}
