#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/text.h"
#include "runtime/reference/interpreter.h"

using namespace skirl;

namespace {

using Values = std::vector<double>;

Tensor tensor(const TensorType& type, const Values& elements) {
  Tensor t(type.dtype, type.shape);
  REQUIRE(t.elems() == static_cast<std::int64_t>(elements.size()));
  for (std::size_t i = 0; i < elements.size(); ++i) t.set(static_cast<std::int64_t>(i), elements[i]);
  return t;
}

Values elements_of(const Tensor& t) {
  Values elements;
  for (std::int64_t i = 0; i < t.elems(); ++i) elements.push_back(t.get(i));
  return elements;
}

/// Runs a graph on these inputs.
TensorMap outputs(const std::string& text, const std::map<std::string, Values>& inputs, std::int64_t step = 1) {
  const Graph graph = parse(text);
  TensorMap given;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Input) return;
    const std::string& name = graph[graph[node].name];
    given[name] = tensor(graph.type(graph.result(node)), inputs.at(name));
  });
  return Interpreter(graph, 1).run(given, step).outputs;
}

/// What a graph gives as its output "y".
Values value(const std::string& text, const std::map<std::string, Values>& inputs = {}, std::int64_t step = 1) {
  return elements_of(outputs(text, inputs, step).at("metric/y"));
}

void check_close(const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).epsilon(1e-12).margin(1e-15));
}

std::string run_error(const std::string& text, const std::map<std::string, Values>& inputs) {
  try {
    outputs(text, inputs);
  } catch (const RunError& error) {
    return error.what();
  }
  return "(no error)";
}

}  // namespace

TEST_CASE("softmax_xent adds -log softmax of the labels that count") {
  const std::string text = R"(
    input %x "x" : f64[3,2]
    input %t "t" : i64[3]
    %nll, %lse = softmax_xent %x %t {ignore=-1}
    output "y" %nll
    output "lse" %lse
    output "count" (count_valid %t {ignore=-1}))";
  const TensorMap result = outputs(text, {{"x", {0, std::log(3), 7, 9, 1000, 1000}}, {"t", {0, -1, 1}}});
  check_close(elements_of(result.at("metric/y")), {std::log(4) + std::log(2)});
  check_close(elements_of(result.at("metric/lse")), {std::log(4), 9 + std::log1p(std::exp(-2)), 1000 + std::log(2)});
  check_close(elements_of(result.at("metric/count")), {2});
}

TEST_CASE("softmax_xent_bi is softmax minus one at the label, and nothing where the label is ignored") {
  const std::string text = R"(
    input %x "x" : f64[2,2]
    input %t "t" : i64[2]
    input %scale "scale" : f64[]
    %nll, %lse = softmax_xent %x %t {ignore=1}
    output "y" (softmax_xent_bi %x %t %lse %scale {ignore=1}))";
  check_close(value(text, {{"x", {0, std::log(3), 0, 0}}, {"t", {0, 1}}, {"scale", {2}}}), {2 * (0.25 - 1), 2 * 0.75, 0, 0});
}

TEST_CASE("a loss is the weighted mean, and 0 where nothing counts") {
  const std::string text = R"(
    input %sum "sum" : f64[]
    input %count "count" : f64[]
    output "y" (loss %sum %count {weight=0.5})
    output "scale" (loss_scale %count {weight=0.5}))";
  const TensorMap some = outputs(text, {{"sum", {12}}, {"count", {4}}});
  CHECK(some.at("metric/y").get(0) == 1.5);
  CHECK(some.at("metric/scale").get(0) == 0.125);
  const TensorMap none = outputs(text, {{"sum", {0}}, {"count", {0}}});
  CHECK(none.at("metric/y").get(0) == 0);
  CHECK(none.at("metric/scale").get(0) == 0);
}

TEST_CASE("attention is softmax of scaled products; queries share the head of keys of their group, and see no later key") {
  // Two positions, two query heads, one head of keys: products q·k are 0 or log 2 or log 3.
  const std::string head = R"(
    input %q "q" : f64[1,2,2,1]
    input %k "k" : f64[1,2,1,1]
    input %v "v" : f64[1,2,1,2]
    %o, %lse = attention %q %k %v )";
  const std::string tail = R"(
    output "y" %o
    output "lse" %lse)";
  const std::map<std::string, Values> inputs{
      {"q", {0, 1, std::log(2), std::log(3)}}, {"k", {0, 2}}, {"v", {1, 10, 3, 30}}};  // query (position 1, head 0) is log 2
  const TensorMap causal = outputs(head + "{causal=true, scale=0.5}" + tail, inputs);
  // Position 0 sees key 0 alone. Position 1: weights 1 : 2 and 1 : 3.
  check_close(elements_of(causal.at("metric/y")), {1, 10, 1, 10, 7. / 3, 70. / 3, 2.5, 25});
  check_close(elements_of(causal.at("metric/lse")), {0, 0, std::log(3), std::log(4)});
  const TensorMap all = outputs(head + "{causal=false, scale=0.5}" + tail, inputs);
  const double e = std::exp(1);
  check_close(elements_of(all.at("metric/y")), {2, 20, (1 + 3 * e) / (1 + e), (10 + 30 * e) / (1 + e), 7. / 3, 70. / 3, 2.5, 25});
}

TEST_CASE("query heads 0 and 1 read head 0 of keys, 2 and 3 head 1") {
  const std::string text = R"(
    input %q "q" : f64[1,1,4,1]
    input %k "k" : f64[1,1,2,1]
    input %v "v" : f64[1,1,2,1]
    output "y" (attention %q %k %v {causal=true, scale=1}))";
  CHECK(value(text, {{"q", {1, 2, 3, 4}}, {"k", {1, 1}}, {"v", {5, 6}}}) == Values{5, 5, 6, 6});
}

TEST_CASE("rope turns pairs half a head apart by position over base^(2i/d)") {
  const std::string text = R"(
    input %x "x" : f64[1,2,1,4]
    output "y" (rope %x {base=16, inverse=false}))";
  check_close(value(text, {{"x", {1, 2, 3, 4, 1, 0, 0, 1}}}), {1, 2, 3, 4, std::cos(1), -std::sin(0.25), std::sin(1), std::cos(0.25)});
}

TEST_CASE("rope with a factor slows down the pairs that turn seldom in the original context, and mixes between low and high") {
  // 64 tokens: pair 0 turns 64/2π = 10.2 times, pair 1 2.5 times, pair 2 0.6 times
  const std::string text = R"(
    input %x "x" : f64[1,2,1,6]
    output "y" (rope %x {base=64, factor=8, low=1, high=4, original=64}))";
  const double kept = (16 / (2 * std::acos(-1.0)) - 1) / 3;
  const double mixed = (1 - kept) * 0.25 / 8 + kept * 0.25;
  const double slow = 0.0625 / 8;
  check_close(value(text, {{"x", {0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0}}}),
              {0, 0, 0, 0, 0, 0, std::cos(1), std::cos(mixed), std::cos(slow), std::sin(1), std::sin(mixed), std::sin(slow)});
}

TEST_CASE("iota counts from its origin, whatever places of it a device holds") {
  const Values expected{10, 11, 12, 13, 14};
  CHECK(value(R"(
    %0 = iota {shape=[5]} : i64[5] F origin=[10]
    output "y" {kind=metric} %0 U)") == expected);
  for (const std::string cut : {"sp", "sp {0..1 4..5; 1..4}", "sp {; 0..5}"})
    CHECK(value(R"(
      mesh @s0 {sp:2} devices 0 1
      %0 = iota {shape=[5]} : i64[5] @s0 [)" +
                cut + R"(] F origin=[10]
      output "y" {kind=metric} %0 U mesh=@s0)") == expected);
}

TEST_CASE("an operator at an origin does to its rows what it does to those rows of the whole") {
  // rows 2..5 of a sequence of 5, on two devices by turns
  const std::string part = R"(
    mesh @s0 {sp:2} devices 0 1
    %0 = input "x" {} : f64[1,3,1,2] @s0 [-, sp {0..1 2..3; 1..2}, -, -] F
    %1 = rope {base=10, inverse=false} %0 : f64[1,3,1,2] @s0 [-, sp {0..1 2..3; 1..2}, -, -] F origin=[0,2]
    %2 = dropout {p=0.5} %1 : f64[1,3,1,2] @s0 [-, sp {0..1 2..3; 1..2}, -, -] "drop" F origin=[0,2]
    output "y" {kind=metric} %2 U mesh=@s0)";
  const std::string whole = R"(
    %0 = input "x" {} : f64[1,5,1,2] F
    %1 = rope {base=10, inverse=false} %0 : f64[1,5,1,2] F
    %2 = dropout {p=0.5} %1 : f64[1,5,1,2] "drop" F
    output "y" {kind=metric} %2 U)";
  const Values all = value(whole, {{"x", {9, 8, 7, 6, 5, 4, 3, 2, 1, 10}}});
  check_close(value(part, {{"x", {5, 4, 3, 2, 1, 10}}}), Values(all.begin() + 4, all.end()));
}

TEST_CASE("norms divide by the deviation of each row, or its root mean square") {
  const std::string layer = R"(
    input %x "x" : f64[1,2]
    input %gamma "gamma" : f64[2]
    input %beta "beta" : f64[2]
    output "y" (layer_norm %x %gamma %beta {eps=3}))";
  CHECK(value(layer, {{"x", {1, 3}}, {"gamma", {2, 4}}, {"beta", {10, 20}}}) == Values{9, 22});  // variance 1, so divided by 2
  const std::string rms = R"(
    input %x "x" : f64[1,2]
    input %gamma "gamma" : f64[2]
    output "y" (rms_norm %x %gamma {eps=11}))";
  CHECK(value(rms, {{"x", {1, 3}}, {"gamma", {4, 8}}}) == Values{1, 6});  // mean square 5, so divided by 4
}

TEST_CASE("adamw makes the step of the paper: moments corrected, decay apart from the gradient") {
  const std::string text = R"(
    input %p "p" : f64[1]
    input %g "g" : f64[1]
    input %m "m" : f64[1]
    input %v "v" : f64[1]
    %p1, %m1, %v1 = adamw %p %g %m %v {lr=0.1, beta1=0.5, beta2=0.75, eps=0, weight_decay=0.25}
    output "y" %p1
    output "m" %m1
    output "v" %v1)";
  // First step from nothing: both corrections undo the (1 - beta), so the direction is the sign of the gradient.
  const TensorMap first = outputs(text, {{"p", {2}}, {"g", {-3}}, {"m", {0}}, {"v", {0}}}, 1);
  check_close(elements_of(first.at("metric/y")), {2 - 0.1 * (-1 + 0.25 * 2)});
  check_close(elements_of(first.at("metric/m")), {-1.5});
  check_close(elements_of(first.at("metric/v")), {2.25});
  // Second: m = 0.5·(-1.5) + 0.5·1 = -0.25, v = 0.75·2.25 + 0.25·1 = 1.9375, corrections 1 - 1/4 and 1 - 9/16.
  const TensorMap second = outputs(text, {{"p", {2}}, {"g", {1}}, {"m", {-1.5}}, {"v", {2.25}}}, 2);
  check_close(elements_of(second.at("metric/m")), {-0.25});
  check_close(elements_of(second.at("metric/v")), {1.9375});
  check_close(elements_of(second.at("metric/y")), {2 - 0.1 * (-0.25 / 0.75 / std::sqrt(1.9375 / 0.4375) + 0.25 * 2)});
}

TEST_CASE("sgd with momentum and decay, and clipping by the norm") {
  const std::string sgd = R"(
    input %p "p" : f64[1]
    input %g "g" : f64[1]
    input %b "b" : f64[1]
    %p1, %b1 = sgd %p %g %b {lr=0.5, momentum=0.25, weight_decay=0.125}
    output "y" %p1
    output "b" %b1)";
  const TensorMap step = outputs(sgd, {{"p", {8}}, {"g", {3}}, {"b", {4}}});
  CHECK(step.at("metric/b").get(0) == 5);  // 0.25·4 + 3 + 0.125·8
  CHECK(step.at("metric/y").get(0) == 5.5);
  const std::string clip = R"(
    input %g "g" : f64[2]
    %coef, %norm = clip_coef (sum_sq %g) {max_norm=2, eps=3}
    output "y" %coef
    output "norm" %norm)";
  CHECK(value(clip, {{"g", {3, 4}}}) == Values{0.25});  // 2 / (5 + 3)
  CHECK(outputs(clip, {{"g", {3, 4}}}).at("metric/norm").get(0) == 5);
  CHECK(value(clip, {{"g", {0.3, 0.4}}}) == Values{2 / 3.5});
  CHECK(value(clip, {{"g", {0, 0}}}) == Values{2. / 3});
}

TEST_CASE("sum adds in the type that it is told and rounds once") {
  const auto added = [](int ones, const std::string& start, const std::string& accumulate) {
    std::string text = "%a = fill {shape=[1], dtype=bf16, value=" + start + "}\n%one = fill {shape=[1], dtype=bf16, value=1}\n%s = sum %a";
    for (int i = 0; i < ones; ++i) text += " %one";
    return value(text + " {accumulate=" + accumulate + "}\noutput \"y\" (cast %s {dtype=f64})").front();
  };
  CHECK(added(512, "0", "f32") == 512);
  CHECK(added(512, "0", "bf16") == 256);  // 256 + 1 is no bf16 and goes back to the even 256
  CHECK(added(2, "256", "f32") == 258);
  CHECK(added(2, "256", "bf16") == 256);
  CHECK(added(1, "256", "f32") == 256);  // 257, rounded when it is stored
}

TEST_CASE("in f32, 256 + 1 is 257") {
  CHECK(value(R"(
    %a = fill {shape=[1], dtype=f32, value=256}
    %one = fill {shape=[1], dtype=f32, value=1}
    output "y" (sum %a %one {accumulate=f32}))") == Values{257});
  CHECK(value(R"(
    %a = fill {shape=[1], dtype=f32, value=256}
    %one = fill {shape=[1], dtype=f32, value=1}
    output "y" (sum %a %one {accumulate=bf16}))") == Values{256});
}

TEST_CASE("dropout draws the same mask however its operand is cut") {
  const auto dropped = [](const std::string& layout, const std::string& name, std::int64_t step) {
    const std::string cut = layout.empty() ? "" : " @s0 " + layout;
    const std::string on = layout.empty() ? "" : " @s0";
    return value(
        "mesh @s0 {a:2, b:3} devices 0 1 2 3 4 5\n"
        "%x = fill {shape=[7,5], dtype=f64, value=1} : f64[7,5]" +
            cut +
            "\n"
            "%y = dropout {p=0.5} %x : f64[7,5]" +
            cut + " \"" + name +
            "\"\n"
            "output \"y\" {kind=metric} %y" +
            (on.empty() ? "" : " U mesh=@s0") + "\n",
        {}, step);
  };
  const Values whole = dropped("", "drop", 1);
  std::size_t zeros = 0;
  for (const double y : whole) {
    CHECK((y == 0 || y == 2));
    zeros += y == 0;
  }
  CHECK(zeros > 5);
  CHECK(zeros < 30);
  CHECK(dropped("[a, -]", "drop", 1) == whole);
  CHECK(dropped("[a, b]", "drop", 1) == whole);
  CHECK(dropped("[-, a b]", "drop", 1) == whole);
  CHECK(dropped("[b a, -]", "drop", 1) == whole);
  CHECK(dropped("", "drop", 2) != whole);
  CHECK(dropped("", "other", 1) != whole);
}

TEST_CASE("an index outside its range ends the step with the node and the index") {
  const std::string lookup = R"(
    input %table "table" : f64[3,1]
    input %ids "ids" : i64[2]
    output "y" (embedding %table %ids "lookup"))";
  const std::map<std::string, Values> good{{"table", {5, 6, 7}}, {"ids", {2, 0}}};
  CHECK(value(lookup, good) == Values{7, 5});
  CHECK(run_error(lookup, {{"table", {5, 6, 7}}, {"ids", {0, 3}}}) == "%2 = embedding \"lookup\" (F): index 3 is outside [0, 3)");
  CHECK(run_error(lookup, {{"table", {5, 6, 7}}, {"ids", {-1, 0}}}) == "%2 = embedding \"lookup\" (F): index -1 is outside [0, 3)");
  const std::string xent = R"(
    input %x "x" : f64[1,2]
    input %t "t" : i64[1]
    output "y" (softmax_xent %x %t {ignore=-1}))";
  CHECK(run_error(xent, {{"x", {0, 0}}, {"t", {2}}}) == "%2 = softmax_xent (F): index 2 is outside [0, 2)");
  CHECK(run_error(xent, {{"x", {0, 0}}, {"t", {-1}}}) == "(no error)");
}

TEST_CASE("the interpreter refuses inputs that are missing or of another type") {
  const Graph graph = parse(R"(
    input %x "x" : f64[2]
    output "y" (tanh %x))");
  const auto complaint = [&](const TensorMap& inputs) {
    try {
      Interpreter(graph, 1).run(inputs, 1);
    } catch (const Error& error) {
      return error.complaint();
    }
    return std::string("(no error)");
  };
  CHECK(complaint({}) == "no input 'x' is given, expected f64[2]");
  CHECK(complaint({{"x", Tensor(DType::F32, {2})}}) == "input 'x' is f32[2], expected f64[2]");
}
