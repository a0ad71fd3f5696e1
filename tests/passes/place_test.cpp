#include "passes/place.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/check_error.h"
#include "tests/support/compiled.h"
#include "tools/testing.h"

using namespace skirl;
using namespace skirl::test;

namespace {

const std::string kTwo = R"(
input %x "x" : f64[4] cut 0
%a = tanh %x PP=0
%b = tanh %a PP=1
output "b" %b
)";

Graph place(const Graph& graph, const std::string& params) { return after(place_pass(), graph, params); }
Graph place(const std::string& graph, const std::string& params) { return place(parse(graph), params); }

const char* const kTied = R"(
  input %x "x" : f64[4,3] cut 0
  param %w "w" : f64[3,3] normal(0.5)
  %h = tanh (einsum "bi,ij->bj" %x %w) PP=0
  %h = einsum "bi,ij->bj" %h %w PP=1
  loss "l" = sum (mul %h %h) PP=1
)";

}  // namespace

TEST_CASE("place puts matching nodes on a mesh, and what they read follows") {
  CHECK("\n" + print(place(kTwo, R"({"filter": {"PP": 0}, "devices": [3]})")) == R"(
streams compute p2p
mesh @s0 {dp:1} devices 3
%0 = input "x" {cut=0} : f64[4] @s0 F
%1 = tanh %0 : f64[4] @s0 F PP=0
%2 = tanh %1 : f64[4] F PP=1
output "b" {kind=metric} %2 U
)");
}

TEST_CASE("place sends once what another mesh reads") {
  const Graph first = place(kTwo, R"({"filter": {"PP": 0}, "devices": [0, 1], "axes": {"dp": 2}})");
  CHECK("\n" + print(place(first, R"({"filter": {"PP": 1}, "devices": [2, 3], "axes": {"dp": 2}})")) == R"(
streams compute p2p
mesh @s0 {dp:2} devices 0 1
mesh @s1 {dp:2} devices 2 3
%0 = input "x" {cut=0} : f64[4] @s0 F
%1 = tanh %0 : f64[4] @s0 F PP=0
%2 = send %1 : f64[4] @s0 F PP=0 stream=p2p
%3 = recv %2 : f64[4] @s1 F PP=1 stream=p2p
%4 = tanh %3 : f64[4] @s1 F PP=1
output "b" {kind=metric} %4 U mesh=@s1
)");
}

TEST_CASE("a parameter that two meshes read lives on their union, and its gradient is joined there") {
  const Graph step = differentiate(parse(kTied), sgd());
  const Graph half = place(step, R"({"filter": {"PP": 0}, "devices": [0]})");
  const Graph whole = place(half, R"({"filter": {"PP": 1}, "devices": [1]})");
  CHECK(count(whole, Op::Param) == 1);
  CHECK(count(whole, Op::Join) == 1);
  CHECK(count(whole, Op::View) > 0);
  whole.for_each_node([&](NodeId node) {
    if (whole[node].op == Op::Param || whole[node].op == Op::Sgd) CHECK(whole[whole[node].mesh].is_union());
  });
  for (const Graph& graph : {half, whole}) {
    CHECK(verify(graph).empty());
    CHECK(same_step(step, graph));
  }
}

TEST_CASE("a parameter whose readers have unlike meshes lives on the first, and the step is the same") {
  const Graph step = differentiate(parse(kTied), sgd());
  const Graph half = place(step, R"({"filter": {"PP": 0}, "devices": [0, 1]})");
  const Graph whole = place(half, R"({"filter": {"PP": 1}, "devices": [2]})");
  CHECK(count(whole, Op::Join) == 0);
  CHECK(verify(whole).empty());
  CHECK(same_step(step, whole));
}

TEST_CASE("place refuses devices that do not fit, and nodes that are placed already") {
  CHECK_ERROR(place(kTwo, R"({"devices": [0, 1, 0]})"), "device 0 is listed twice in a mesh");
  CHECK_ERROR(place(kTwo, R"({"devices": [0, 1, 2], "axes": {"dp": 2}})"), "a mesh of axes {dp:2} needs 2 devices, got 3");
  CHECK_ERROR(place(kTwo, R"({"device": [0], "devices": [1]})"), "device and devices are both given, expected one of them");
  CHECK_ERROR(place(kTwo, R"({"devices": [0], "axes": {}})"), "axes is empty, expected a name and a size such as {\"dp\": 2}");
  CHECK_ERROR(place(kTwo, R"({"devices": [0], "stream": ""})"), "stream is empty, expected a name");
  CHECK_ERROR(place(kTwo, R"({"devices": []})"), "devices is empty, expected at least one device");
  CHECK_ERROR(place(kTwo, R"({"devices": [-1]})"), "found -1, expected a whole number from 0 to 16777216");
  CHECK_ERROR(place(kTwo, R"({"devices": [0], "filter": {"PP": 2}})"), "place: the filter {\"PP\":2} matches no forward or backward node");
  CHECK_ERROR(place(kTwo, R"({"devices": [0], "filter": {"PX": 0}})"),
              "the filter {\"PX\":0} names the tag PX, which no node has; tags: PP");
  const Graph first = place(kTwo, R"({"filter": {"PP": 0}, "devices": [0]})");
  CHECK_ERROR(place(first, R"({"devices": [1]})"), "place: %1 = tanh (F PP=0) is on mesh @s0 already");
  CHECK_ERROR(place(first, R"({"filter": {"PP": 1}, "devices": [0], "axes": {"tp": 1}})"),
              "the devices of a new mesh {tp:1} already form mesh @s0 {dp:1}");
}
