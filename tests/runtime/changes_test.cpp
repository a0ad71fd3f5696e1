#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/lower.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/plan_checks.h"

using namespace skirl;

namespace {

const std::string kMeshes =
    "mesh @s0 {a:2, b:2, c:3} devices 0 1 2 3 4 5 6 7 8 9 10 11\n"
    "mesh @s1 {t:2} devices 12 13\n"
    "mesh @s2 {t:4} devices 14 15 16 17\n"
    "mesh @s3 {t:3} devices 18 19 20\n";

/// Runs the graph on both backends, freed buffers filled with NaN, and gives the output "o" of cpu where both agree.
Tensor output_of(const Graph& graph, const TensorMap& inputs) {
  std::string breaches;
  for (const Breach& breach : verify(graph)) breaches += breach.message + "\n";
  REQUIRE(breaches == "");
  const Plan plan = lower(graph, {});
  REQUIRE(memory_fault(plan) == "");
  CpuOptions options;
  options.executor.poison = true;
  const StepResult got = make_cpu_runner(plan, 5, options)->run(inputs, 1);
  const StepResult expected = Interpreter(graph, 5).run(inputs, 1);
  REQUIRE(got.replica_deviation == 0);
  REQUIRE(expected.replica_deviation == 0);
  REQUIRE(got.outputs.size() == expected.outputs.size());
  for (const auto& [name, tensor] : expected.outputs) {
    const Tensor& other = got.outputs.at(name);
    REQUIRE(other.type() == tensor.type());
    for (std::int64_t i = 0; i < tensor.elems(); ++i) REQUIRE(std::abs(tensor.get(i) - other.get(i)) <= 1e-12);
  }
  return got.outputs.at("metric/o");
}

bool is_input(const Tensor& output, const Tensor& input) {
  bool equal = output.type() == input.type();
  for (std::int64_t i = 0; equal && i < output.elems(); ++i) equal = output.get(i) == input.get(i);
  return equal;
}

/// A value that lies as `from` is changed to `to` and comes out as it was: 7 × 6 elements, which no axis of 2 or 3 divides twice.
void check_copy(const std::string& op, const std::string& from, const std::string& to) {
  INFO(op << " " << from << " to " << to);
  const std::string type = " : f64[7,6] @s0 ";
  const Graph g =
      parse(kMeshes + "%0 = input \"x\"" + type + from + "\n%1 = " + op + " %0" + type + to + "\noutput \"o\" {kind=metric} %1 mesh=@s0\n");
  const TensorMap inputs = random_inputs(g, 9, 1);
  CHECK(is_input(output_of(g, inputs), inputs.at("x")));
}

/// Terms that lie as `from`, made by summing 6 layers cut as `layers`, are changed to `to` and are then the sum.
void check_reduction(const std::string& op, const std::string& layers, const std::string& from, const std::string& to) {
  INFO(op << " " << from << " to " << to);
  const std::string type = " : f64[7,6] @s0 ";
  const Graph g = parse(kMeshes + "%0 = input \"x\" : f64[6,7,6] @s0 " + layers + "\n%1 = sum_to {shape=[7,6]} %0" + type + from +
                        "\n%2 = " + op + " %1" + type + to + "\noutput \"o\" {kind=metric} %2 mesh=@s0\n");
  const TensorMap inputs = random_inputs(g, 9, 1);
  const Tensor& x = inputs.at("x");
  const Tensor sum = output_of(g, inputs);
  for (std::int64_t i = 0; i < 42; ++i) {
    double expected = 0;
    for (std::int64_t layer = 0; layer < 6; ++layer) expected += x.get(layer * 42 + i);
    CHECK(std::abs(sum.get(i) - expected) <= 1e-12);
  }
}

void check_transfer(const std::string& from_mesh, const std::string& from, const std::string& to_mesh, const std::string& to) {
  INFO(from_mesh << " " << from << " to " << to_mesh << " " << to);
  const std::string type = " : f64[7,6] ";
  const Graph g = parse(kMeshes + "%0 = input \"x\"" + type + from_mesh + " " + from + "\n%1 = send %0" + type + from_mesh + " " + from +
                        "\n%2 = recv %1" + type + to_mesh + " " + to + "\noutput \"o\" {kind=metric} %2 mesh=" + to_mesh + "\n");
  const TensorMap inputs = random_inputs(g, 9, 1);
  CHECK(is_input(output_of(g, inputs), inputs.at("x")));
}

const std::string kZigzag = "c {0..1 6..7; 1..2 5..6; 2..5}";  // 7 rows over c
const std::string kTurned = "c {1..2 5..6; 2..5; 0..1 6..7}";

}  // namespace

TEST_CASE("pieces are gathered over one axis, over several, out of tables, and from empty pieces") {
  check_copy("all_gather", "[a, -]", "");
  check_copy("all_gather", "[a c, -]", "[a, -]");
  check_copy("all_gather", "[a b c, -]", "");  // 12 pieces of 7 rows
  check_copy("all_gather", "[a b, c]", "[a, -]");
  check_copy("all_gather", "[" + kZigzag + ", a]", "[-, a]");
  check_copy("all_gather", "[a {0..7; }, -]", "");
  check_copy("all_gather", "[a b {0..2; 2..3; 3..4 6..7; 4..6}, -]", "[a {0..3; 3..7}, -]");
  check_copy("all_gather", "[a b, -]", "[b {0..2 4..6; 2..4 6..7}, -]");
  check_copy("broadcast", "[a {0..7; }, -]", "");
}

TEST_CASE("cuts move between dimensions, over one axis and over several, and between tables") {
  check_copy("all_to_all", "[a, -]", "[-, a]");
  check_copy("all_to_all", "[a c, -]", "[a, c]");
  check_copy("all_to_all", "[a b c, -]", "[-, a b c]");
  check_copy("all_to_all", "[a, c]", "[c, a]");
  check_copy("all_to_all", "[c, -]", "[" + kZigzag + ", -]");
  check_copy("all_to_all", "[" + kZigzag + ", -]", "[-, c {0..1; 1..5; 5..6}]");
  check_copy("all_to_all", "[a {0..7; }, b]", "[-, b a]");
}

TEST_CASE("a cut is turned round its ring") {
  check_copy("permute", "[c, -]", "[c {3..5; 5..7; 0..3}, -]");
  check_copy("permute", "[" + kZigzag + ", a]", "[" + kTurned + ", a]");
  check_copy("permute", "[a {0..7; }, -]", "[a {; 0..7}, -]");
  check_copy("permute", "[-, a b {0..1; 1..3; 3..4; 4..6}]", "[-, a b {1..3; 0..1; 4..6; 3..4}]");
}

TEST_CASE("each device keeps its piece of what it has") {
  check_copy("local_slice", "", "[a, c]");
  check_copy("local_slice", "[a, -]", "[a b c, -]");
  check_copy("local_slice", "[a, -]", "[a, c {0..1 5..6; 1..2 4..5; 2..4}]");
  check_copy("local_slice", "", "[" + kZigzag + ", a b]");
}

TEST_CASE("what all have becomes one device's, over one axis and several, and is reduced again") {
  for (const std::string& axes : {std::string("a"), std::string("a c"), std::string("a b c")}) {
    const Graph g = parse(kMeshes + "%0 = input \"x\" : f64[7,6] @s0\n%1 = zero_rest %0 : f64[7,6] @s0 partial(" + axes +
                          ")\n%2 = all_reduce %1 : f64[7,6] @s0\noutput \"o\" {kind=metric} %2 mesh=@s0\n");
    const TensorMap inputs = random_inputs(g, 9, 1);
    CHECK(is_input(output_of(g, inputs), inputs.at("x")));
  }
}

TEST_CASE("terms are added over one axis and several, whole and in pieces") {
  check_reduction("all_reduce", "[a, -, -]", "partial(a)", "");
  check_reduction("all_reduce", "[a b, -, -]", "partial(a b)", "");
  check_reduction("all_reduce", "[a c, b, -]", "[b, -] partial(a c)", "[b, -]");
  check_reduction("all_reduce", "[a, " + kZigzag + ", -]", "[" + kZigzag + ", -] partial(a)", "[" + kZigzag + ", -]");
  check_reduction("reduce_scatter", "[c, -, -]", "partial(c)", "[c, -]");
  check_reduction("reduce_scatter", "[a c, -, -]", "partial(a c)", "[a c, -]");
  check_reduction("reduce_scatter", "[a b c, -, -]", "partial(a b c)", "[a b c, -]");
  check_reduction("reduce_scatter", "[a c, b, -]", "[b, -] partial(a c)", "[b a, c]");
  check_reduction("reduce_scatter", "[c, -, -]", "partial(c)", "[" + kZigzag + ", -]");
  check_reduction("reduce_scatter", "[a, -, -]", "partial(a)", "[a {; 0..7}, -]");
}

TEST_CASE("one collective carries several tensors, each with a change of its own axes") {
  const Graph g = parse(kMeshes + R"(
%0 = input "x" : f64[7,6] @s0 [a, -]
%1 = input "y" : f64[5] @s0 [a b]
%2, %3 = all_gather %0 %1 : f64[7,6] @s0, f64[5] @s0
output "o" {kind=metric} %2 mesh=@s0
output "p" {kind=metric} %3 mesh=@s0
)");
  const TensorMap inputs = random_inputs(g, 9, 1);
  CHECK(is_input(output_of(g, inputs), inputs.at("x")));
}

TEST_CASE("meshes of other degrees exchange tiles, of even cuts, tables and replicas") {
  const std::vector<std::string> meshes{"@s1", "@s2", "@s3"};
  for (const std::string& from : meshes)
    for (const std::string& to : meshes) {
      if (from == to) continue;
      check_transfer(from, "[t, -]", to, "[t, -]");
      check_transfer(from, "[t, -]", to, "[-, t]");
      check_transfer(from, "", to, "[t, -]");
      check_transfer(from, "[-, t]", to, "");
    }
  check_transfer("@s1", "[t {0..1 5..7; 1..5}, -]", "@s3", "[t {0..1 6..7; 1..2 5..6; 2..5}, -]");
  check_transfer("@s2", "[t {0..7; ; ; }, -]", "@s1", "[t {; 0..7}, -]");
  check_transfer("@s0", "[a c, b]", "@s2", "[-, t]");
  check_transfer("@s2", "[t, -]", "@s0", "[" + kZigzag + ", b]");
}
