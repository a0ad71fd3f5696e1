#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "ir/builder.h"
#include "ir/random.h"
#include "runtime/step.h"
#include "runtime/tensor.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A graph with one parameter "w" of this type and initial value.
struct OneParam {
  Graph graph;
  NodeId node;
  OneParam(DType dtype, const ParamAttrs& attrs, const Shape& shape = {7, 5}) {
    Builder builder(graph);
    node = graph[builder.source(Op::Param, "w", {dtype, shape}, attrs)].producer;
  }
  Tensor value(std::uint64_t seed) const { return initial_value(graph, node, seed); }
};

}  // namespace

TEST_CASE("every 16-bit float that is a number comes back from its value, with its sign") {
  int wrong = 0;
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    if (const float x = from_bf16(bits); !std::isnan(x)) wrong += to_bf16(x) != bits;
    if (const float x = from_f16(bits); !std::isnan(x)) wrong += to_f16(x) != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("16-bit floats round to nearest, ties to even, in one step from double") {
  CHECK(rounded(DType::BF16, 1 + 0x1p-8) == 1);                     // half-way, down to even
  CHECK(rounded(DType::BF16, 1 + 3 * 0x1p-8) == 1 + 0x1p-6);        // half-way, up to even
  CHECK(rounded(DType::BF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);  // just above half: f32 in between would lose it
  CHECK(rounded(DType::F16, 1 + 0x1p-11) == 1);
  CHECK(rounded(DType::F16, 1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10);
  CHECK(rounded(DType::F16, 0x1p-25) == 0);  // half of the smallest subnormal
  CHECK(rounded(DType::F16, -1.5 * 0x1p-24) == -0x1p-23);
  CHECK(rounded(DType::BF16, 0x1.8p-133) == 0x1p-132);  // subnormal, up to even
}

TEST_CASE("what is too large for a 16-bit float is infinite, and NaN stays NaN") {
  CHECK(rounded(DType::F16, 65519) == 65504);
  CHECK(rounded(DType::F16, 65520) == kInfinity);
  CHECK(rounded(DType::F16, -1e300) == -kInfinity);
  CHECK(rounded(DType::BF16, 0x1.FEFFp127) == 0x1.FEp127);
  CHECK(rounded(DType::BF16, 0x1.FFp127) == kInfinity);
  for (const DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    CHECK(std::isnan(rounded(dtype, std::nan(""))));
    CHECK(rounded(dtype, -kInfinity) == -kInfinity);
  }
}

TEST_CASE("a tensor starts at zero and keeps each dtype's elements apart") {
  for (const std::string& name : dtype_names()) {
    CAPTURE(name);
    Tensor t(*dtype_named(name), {2, 2});
    t.set(1, 1);
    CHECK(t.get(0) == 0);
    CHECK(t.get(1) == 1);
    CHECK(t.get(2) == 0);
    CHECK(t.size_bytes() == 4 * static_cast<std::size_t>(size_bytes(t.type().dtype)));
  }
  Tensor small(DType::I32, {3});
  small.set(0, 1e12);
  small.set(1, -1e12);
  small.set(2, std::nan(""));
  CHECK(small.get(0) == 2147483647);
  CHECK(small.get(1) == -2147483648.0);
  CHECK(small.get(2) == 0);
}

TEST_CASE("names and keys hash to the same numbers in every process") {
  CHECK(hash_text("") == 0xCBF29CE484222325ull);  // FNV-1a, 64 bits: the published values
  CHECK(hash_text("foobar") == 0x85944171F73967E8ull);
  CHECK(mix_bits(0x9E3779B97F4A7C15ull) == 0xE220A8397B1DCDAFull);  // splitmix64 of seed 0, first number
  CHECK(random_key("w", 1, 0) != random_key("w", 0, 1));
  CHECK(fold(fold(1, 2), 3) != fold(fold(1, 3), 2));
}

TEST_CASE("random numbers have the moments of their distribution") {
  constexpr int kDraws = 100000;
  double mean = 0, square = 0, flat = 0;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t key = fold(random_key("moments", 3, 0), i);
    mean += normal(key) / kDraws;
    square += normal(key) * normal(key) / kDraws;
    flat += uniform(key) / kDraws;
    if (uniform(key) < 0 || uniform(key) >= 1) FAIL("outside [0, 1)");
  }
  CHECK(std::abs(mean) < 0.02);
  CHECK(std::abs(square - 1) < 0.02);
  CHECK(std::abs(flat - 0.5) < 0.005);
}

TEST_CASE("initial values depend on name, seed and global index, not on the dtype or the sizes") {
  const ParamAttrs attrs{"normal", 0.5, true};
  const Tensor w = OneParam(DType::F64, attrs).value(1);
  const Tensor other_seed = OneParam(DType::F64, attrs).value(2);
  const Tensor narrow = OneParam(DType::BF16, attrs).value(1);
  const Tensor taller = OneParam(DType::F64, attrs, {9, 5}).value(1);
  const Tensor wider = OneParam(DType::F64, attrs, {7, 6}).value(1);
  for (std::int64_t i = 0; i < w.elems(); ++i) {
    CHECK(w.get(i) != other_seed.get(i));
    CHECK(narrow.get(i) == rounded(DType::BF16, w.get(i)));
    CHECK(taller.get(i) == w.get(i));
    CHECK(wider.get(i / 5 * 6 + i % 5) == w.get(i));
  }
}

TEST_CASE("a parameter is constant or uniform if it says so, and an unknown kind is refused") {
  const Tensor constant = OneParam(DType::F32, {"constant", 0.25, true}).value(1);
  const Tensor uniform = OneParam(DType::F64, {"uniform", 0.25, true}).value(1);
  double lowest = 1, highest = -1;
  for (std::int64_t i = 0; i < constant.elems(); ++i) {
    CHECK(constant.get(i) == 0.25);
    lowest = std::min(lowest, uniform.get(i));
    highest = std::max(highest, uniform.get(i));
  }
  CHECK(lowest >= -0.25);
  CHECK(lowest < -0.1);
  CHECK(highest <= 0.25);
  CHECK(highest > 0.1);
  CHECK_ERROR(OneParam(DType::F32, {"xavier", 1, true}), "param: init is \"xavier\", expected one of normal, uniform, constant");
}

TEST_CASE("random inputs are new in every step, and integers stay in their range") {
  Graph g;
  Builder builder(g);
  builder.source(Op::Input, "x", {DType::F64, {4, 3}}, InputAttrs{0, {}});
  builder.source(Op::Input, "ids", {DType::I64, {200}}, InputAttrs{0, 3});
  const TensorMap first = random_inputs(g, 1, 1);
  const TensorMap second = random_inputs(g, 1, 2);
  for (std::int64_t i = 0; i < 12; ++i) CHECK(first.at("x").get(i) != second.at("x").get(i));
  std::int64_t seen[3] = {0, 0, 0};
  for (std::int64_t i = 0; i < 200; ++i) ++seen[static_cast<int>(first.at("ids").get(i))];
  for (const std::int64_t n : seen) CHECK(n > 30);
}
