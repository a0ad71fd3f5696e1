#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "tests/support/bytes.h"
#include "tests/support/compiled.h"

using namespace skirl;
using namespace skirl::test;

/// Each strategy sends what its paper says, to the byte.
namespace {

constexpr std::int64_t kLayer = 4 * 4 * 8;  // bytes of one layer's weights in f64
constexpr std::int64_t kModel = 4 * kLayer;

std::vector<Traffic> traffic(const std::string& strategy, const OptimizerParams& optimizer = adam()) {
  return traffic_of(compiled(mlp_text(4, 4, 8), strategy, optimizer).placed);
}

std::string in_microbatches(std::int64_t mb, const std::string& replicate) {
  return strategy_file("{\"op\": \"split\", \"num_microbatches\": " + number(mb) +
                       R"(}, {"op": "place", "devices": [0, 1], "axes": {"dp": 2}},
                       {"op": "replicate", "axis": "dp")" +
                       replicate + "}");
}

bool tensors(const Traffic& t) { return !t.scalar; }
bool gradients(const Traffic& t) { return t.role == Role::Gradient; }

}  // namespace

TEST_CASE("ddp asks for exactly one all_reduce a gradient, also with microbatches, and else for scalars only") {
  for (const std::string& strategy :
       {std::string("ddp(2)"), std::string("ddp(4)"), in_microbatches(4, ""), std::string("pp(2, mb=4) + ddp(2)")})
    for (const OptimizerParams& optimizer : {adam(), sgd(1.0)}) {
      INFO(strategy);
      std::map<std::string, int> reductions;
      for (const Traffic& t : traffic(strategy, optimizer)) {
        if (t.op == Op::Send) continue;
        CHECK(t.op == Op::AllReduce);
        if (t.scalar) continue;
        CHECK(gradients(t));
        ++reductions[t.name];
      }
      CHECK(reductions.size() == 4);
      for (const auto& [name, times] : reductions) CHECK((name + " " + number(times)) == name + " 1");
    }
}

TEST_CASE("ddp sends 2Ψ(n−1)/n") {
  CHECK(bytes_of(traffic("ddp(2)"), tensors) == kModel);
  CHECK(bytes_of(traffic("ddp(4)"), tensors) == 2 * kModel * 3 / 4);
  CHECK(bytes_of(traffic(in_microbatches(4, "")), tensors) == kModel);
}

TEST_CASE("zero 1 sends 2Ψ(n−1)/n: gradients are scattered, parameters gathered once") {
  CHECK(bytes_of(traffic("zero(1, dp=2)"), tensors) == kModel);
  CHECK(bytes_of(traffic("zero(1, dp=4)"), tensors) == 2 * kModel * 3 / 4);
  CHECK(bytes_of(traffic(in_microbatches(4, R"(, "shard_optimizer": true)")), tensors) == kModel);
}

TEST_CASE("zero 2 scatters gradients each microbatch: (M+1)Ψ(n−1)/n") {
  const std::string zero2 = R"(, "shard_optimizer": true, "shard_grads": true)";
  CHECK(bytes_of(traffic("zero(2, dp=4)"), tensors) == 2 * kModel * 3 / 4);
  for (const std::int64_t mb : {1, 2, 4}) CHECK(bytes_of(traffic(in_microbatches(mb, zero2)), tensors) == (mb + 1) * kModel / 2);
}

TEST_CASE("zero 3 gathers parameters for each use and scatters gradients: 3MΨ(n−1)/n") {
  // of the first layer nobody asks for the gradient of the data, so its weights are gathered forward only
  const std::string zero3 = R"(, "shard_optimizer": true, "shard_grads": true, "shard_params": true)";
  CHECK(bytes_of(traffic("zero(3, dp=4)"), tensors) == (3 * kModel - kLayer) * 3 / 4);
  for (const std::int64_t mb : {1, 2, 4}) CHECK(bytes_of(traffic(in_microbatches(mb, zero3)), tensors) == mb * (3 * kModel - kLayer) / 2);
}

TEST_CASE("the gradient norm costs one scalar") {
  for (const std::string strategy : {"zero(1, dp=2)", "zero(2, dp=2)", "zero(3, dp=2)"}) {
    const auto scalars = [&](const OptimizerParams& optimizer) {
      std::int64_t n = 0;
      for (const Traffic& t : traffic(strategy, optimizer)) n += t.scalar ? 1 : 0;
      return n;
    };
    CHECK(scalars(sgd(1.0)) == scalars(sgd()) + 1);
  }
}

TEST_CASE("a pipeline sends each boundary activation and each gradient once a microbatch") {
  const auto sent = [](const std::string& strategy, std::int64_t& sends) {
    const std::vector<Traffic> all = traffic(strategy);
    sends = 0;
    for (const Traffic& t : all) sends += t.op == Op::Send && !t.scalar ? 1 : 0;
    return bytes_of(all, [](const Traffic& t) { return t.op == Op::Send && !t.scalar; });
  };
  std::int64_t sends = 0;
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    CHECK(sent("pp(2, " + schedule + ", mb=4)", sends) == 2 * 8 * 4 * 8);  // 8 rows of 4, forward and backward
    CHECK(sends == 2 * 4);
    CHECK(sent("pp(4, " + schedule + ", mb=8)", sends) == 3 * 2 * 8 * 4 * 8);
    CHECK(sends == 3 * 2 * 8);
    CHECK(sent("pp(2, " + schedule + ", mb=4) + zero(3, dp=2)", sends) == 8 * 4 * 8);  // each device half of the rows
    CHECK(sends == 2 * 4);
  }
}
