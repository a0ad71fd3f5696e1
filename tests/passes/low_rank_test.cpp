#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "ir/text.h"
#include "models/model.h"
#include "tests/support/bytes.h"
#include "tests/support/compiled.h"

using namespace skirl;
using namespace skirl::test;

/// Low-rank layers under tensor parallelism, after BOOST: what blocks send is as narrow as the rank. b samples of s tokens, width h, rank
/// r.
namespace {

constexpr std::int64_t b = 4, s = 8, h = 16, r = 2, kLayers = 2;

const std::string kStream = to_string(TensorType{DType::F64, {b, s, h}});
const std::string kNarrow = to_string(TensorType{DType::F64, {b, s, r}});

std::string llama(std::int64_t rank) {
  ModelOptions options;
  options.dtype = DType::F64;
  options.batch = b;
  options.seq = s;
  return print(load_model("llama-tiny(layers=2, width=16, head_dim=4, inner=24, vocab=32, low_rank=" + number(rank) + ")", options));
}

/// What blocks send: how often, operator, and type in the whole.
std::string sent_in_blocks(const std::string& model, const std::string& strategy) {
  const Compiled c = compiled(model, strategy, sgd(1.0));
  std::map<std::string, std::int64_t> times;
  for (const Traffic& t : traffic_of(c.placed))
    if (!t.scalar && tag_of(c.placed, t.node, "LAYER") >= 0)
      ++times[info(t.op).name + std::string(" ") + to_string(c.placed.type(c.placed.operand(t.node, 0)))];
  std::string text;
  for (const auto& [what, count] : times) text += (text.empty() ? "" : ", ") + number(count) + " " + what;
  return text;
}

}  // namespace

TEST_CASE("tp sums the narrow activations of low-rank layers, seven a layer and none of the stream") {
  CHECK(sent_in_blocks(llama(0), "tp(2)") == number(4 * kLayers) + " all_reduce " + kStream);
  CHECK(sent_in_blocks(llama(r), "tp(2)") == number(7 * kLayers) + " all_reduce " + kNarrow);
}

TEST_CASE("with the width of the stream cut too, all that is summed is narrow, or a number a token") {
  const std::string sent = sent_in_blocks(llama(r), "tp(2, cut=bottleneck)");
  INFO(sent);
  CHECK(sent.find(number(14 * kLayers) + " all_reduce " + kNarrow) != std::string::npos);
  CHECK(sent.find("all_reduce " + kStream) == std::string::npos);
}

TEST_CASE("low-rank layers compute the same step under tp, whichever cut") {
  CHECK(broken(llama(r), "tp(2)") == "");
  CHECK(broken(llama(r), "tp(2, cut=bottleneck)") == "");
  CHECK(broken(llama(3), "tp(4)") == "");
}
