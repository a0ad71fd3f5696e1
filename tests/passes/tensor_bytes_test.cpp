#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "ir/text.h"
#include "models/model.h"
#include "tests/support/bytes.h"
#include "tests/support/compiled.h"

using namespace skirl;
using namespace skirl::test;

/// Tensor, sequence and context parallelism send what their papers say, to the byte. b samples of s tokens, width h, f64.
namespace {

constexpr std::int64_t b = 4, s = 8, h = 16, d = 4, kLayers = 2;
constexpr std::int64_t kStream = b * s * h * 8;  // bytes of the residual stream

std::string gpt(std::int64_t heads, std::int64_t kv_heads) {
  ModelOptions options;
  options.dtype = DType::F64;
  options.batch = b;
  options.seq = s;
  return print(load_model(
      "gpt-tiny(layers=2, width=16, heads=" + number(heads) + ", kv_heads=" + number(kv_heads) + ", head_dim=4, vocab=32)", options));
}

/// What is sent of activations and their gradients, of one shape in the whole: bytes and times, by operator.
struct Sent {
  std::map<std::string, std::int64_t> times;
  std::int64_t bytes = 0;
};

Sent activations(const std::string& model, const std::string& strategy, const std::vector<Shape>& shapes) {
  const Compiled c = compiled(model, strategy, sgd(1.0));
  Sent sent;
  for (const Traffic& t : traffic_of(c.placed)) {
    const Shape& shape = c.placed.type(c.placed.operand(t.node, 0)).shape;
    if (t.op == Op::Send || std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) continue;
    ++sent.times[info(t.op).name];
    sent.bytes += t.bytes;
  }
  return sent;
}

const Shape kOfStream{b, s, h};
const std::vector<Shape> kOfHeads{{b, s, 8, d}, {b, s, 4, d}};

/// Bytes of parameters' gradients.
std::int64_t gradients(const std::string& model, const std::string& strategy) {
  const Compiled c = compiled(model, strategy, sgd());
  return bytes_of(traffic_of(c.placed), [&](const Traffic& t) { return t.role == Role::Gradient && !t.scalar; });
}

}  // namespace

TEST_CASE("tp sends four all_reduces of b·s·h a layer, and two for embedding and head, whatever the number of key heads") {
  for (const std::int64_t n : {2, 4})
    for (const std::int64_t kv_heads : {8, 4, 2, 1}) {
      INFO(n << " devices, " << kv_heads << " key heads");
      const Sent sent = activations(gpt(8, kv_heads), "tp(" + number(n) + ")", {kOfStream});
      CHECK(sent.times == std::map<std::string, std::int64_t>{{"all_reduce", 4 * kLayers + 2}});
      CHECK(sent.bytes == (4 * kLayers + 2) * 2 * kStream * (n - 1) / n);
      CHECK(activations(gpt(8, kv_heads), "tp(" + number(n) + ")", {{b, s, kv_heads, d}, {b, s, 8, d}, {b, s, 32}, {b, s, 4 * h}}).bytes ==
            0);
    }
}

TEST_CASE("sequence parallelism sends the same volume, and two gathers a layer more where backward gathers again") {
  for (const std::int64_t n : {2, 4})
    for (const std::int64_t kv_heads : {8, 2}) {
      INFO(n << " devices, " << kv_heads << " key heads");
      const std::int64_t whole = activations(gpt(8, kv_heads), "tp(" + number(n) + ")", {kOfStream}).bytes;
      const Sent kept = activations(gpt(8, kv_heads), "tp(" + number(n) + ", sp)", {kOfStream});
      CHECK(kept.times == std::map<std::string, std::int64_t>{{"all_gather", 4 * kLayers + 2}, {"reduce_scatter", 4 * kLayers + 2}});
      CHECK(kept.bytes == whole);
      const Sent again = activations(gpt(8, kv_heads), "tp(" + number(n) + ", sp_regather)", {kOfStream});
      CHECK(again.times == std::map<std::string, std::int64_t>{{"all_gather", 6 * kLayers + 3}, {"reduce_scatter", 4 * kLayers + 2}});
      CHECK(again.bytes == whole + (2 * kLayers + 1) * kStream * (n - 1) / n);
    }
}

TEST_CASE("keys and values that are whole on several devices cost an all_reduce of their parameters' gradients") {
  const std::int64_t keys = 2 * kLayers * (h * 2 * d + 2 * d) * 8;  // weights and biases of two key heads
  CHECK(gradients(gpt(8, 2), "tp(2)") == 0);
  CHECK(gradients(gpt(8, 2), "tp(4)") == 2 * keys / 2 / 2);  // half of the heads, over the two devices that share them
  CHECK(gradients(gpt(8, 1), "tp(2)") == 2 * keys / 2 / 2);  // the only head, over both
}

TEST_CASE("ulysses sends four exchanges forward and four backward") {
  for (const std::int64_t n : {2, 4}) {
    const Sent sent = activations(gpt(8, 4), "cp(" + number(n) + ", ulysses)", kOfHeads);
    CHECK(sent.times == std::map<std::string, std::int64_t>{{"all_to_all", 8 * kLayers}});
    CHECK(activations(gpt(8, 4), "cp(" + number(n) + ", ulysses)", {kOfStream}).bytes == 0);
    const std::int64_t queries = b * s * 8 * d * 8;
    const std::int64_t keys = b * s * 4 * d * 8;
    CHECK(sent.bytes == 2 * kLayers * (2 * queries + 2 * keys) * (n - 1) / (n * n));
  }
}

TEST_CASE("a ring turns keys and values forward, and these and their gradients backward") {
  for (const std::int64_t n : {2, 4}) {
    const Sent sent = activations(gpt(8, 4), "cp(" + number(n) + ", ring)", kOfHeads);
    CHECK(sent.times == std::map<std::string, std::int64_t>{{"permute", (2 + 4) * (n - 1) * kLayers}});
    CHECK(sent.bytes == (2 + 4) * (n - 1) * kLayers * (b * s * 4 * d * 8) / n);
  }
}

TEST_CASE("context parallelism that gathers keys and values scatters their gradients") {
  const Sent sent = activations(gpt(8, 4), "cp(2, gather)", kOfHeads);
  CHECK(sent.times == std::map<std::string, std::int64_t>{{"all_gather", 2 * kLayers}, {"reduce_scatter", 2 * kLayers}});
  CHECK(sent.bytes == 4 * kLayers * (b * s * 4 * d * 8) / 2);
}

TEST_CASE("gradients that are summed over context and data parallel devices are reduced once over both") {
  const std::int64_t model = gradients(gpt(8, 4), "ddp(2)");  // 2Ψ/2
  CHECK(gradients(gpt(8, 4), "ddp(4)") == model * 2 * 3 / 4);
  CHECK(gradients(gpt(8, 4), "cp(2) + ddp(2)") == model * 2 * 3 / 4);
}

TEST_CASE("hsdp scatters among the near devices and reduces only pieces over the far ones") {
  const std::string model = mlp_text(4, 8, 8);
  const std::int64_t whole = 4 * 8 * 8 * 8;
  const Compiled c = compiled(model, "hsdp(2, 2)", sgd());
  std::map<Op, std::int64_t> sent;
  for (const Traffic& t : traffic_of(c.placed))
    if (!t.scalar) sent[t.op] += t.bytes;
  CHECK(sent[Op::ReduceScatter] == whole / 2);
  CHECK(sent[Op::AllReduce] == 2 * (whole / 2) / 2);
  CHECK(sent[Op::AllGather] == (2 * whole - whole / 4) / 2);  // the first layer's weights are not read backward
}

TEST_CASE("zero on top of tp stores and sends parts of parts") {
  const std::string model = mlp_text(4, 8, 8);
  for (const int level : {1, 2, 3}) {
    const auto parameters = [&](const std::string& strategy) {
      const Compiled c = compiled(model, strategy, sgd());
      return bytes_of(traffic_of(c.placed), [&](const Traffic& t) { return !t.scalar && t.op != Op::AllReduce; });
    };
    const std::string zero = "zero(" + number(level) + ", dp=2)";
    CHECK(parameters("tp(2) + " + zero) == parameters(zero) / 2);
  }
}
