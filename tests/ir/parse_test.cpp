#include <catch2/catch.hpp>
#include <fstream>

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/check_error.h"

using namespace skirl;

TEST_CASE("a model file is expanded: dims, repeats, nested expressions and reassigned values") {
  const Graph g = parse(R"(
dim B = 8
dim H = 2*(1 + 1)
input %x "x" : f32[B,H] cut 0            # cut 0: this is the batch dimension
input %y "y" : f32[B,H] cut 0
repeat i in 0..2 {
  param %w "l{i}.w" : f32[H,H] normal(0.5) frozen
  %x = tanh (einsum "bi,ij->bj" %x %w)   LAYER=i+1
}
loss "mse" = mse %x %y weight 0.5  HEAD
)",
                        "m.txt", {{"B", 16}});
  CHECK(print(g) == R"(%0 = input "x" {cut=0} : f32[16,4] F
%1 = input "y" {cut=0} : f32[16,4] F
%2 = param "l0.w" {init=normal, scale=0.5, trainable=false} : f32[4,4] F
%3 = einsum "bi,ij->bj" %0 %2 : f32[16,4] F LAYER=1
%4 = tanh %3 : f32[16,4] F LAYER=1
%5 = param "l1.w" {init=normal, scale=0.5, trainable=false} : f32[4,4] F
%6 = einsum "bi,ij->bj" %4 %5 : f32[16,4] F LAYER=2
%7 = tanh %6 : f32[16,4] F LAYER=2
%8 = sq_error %7 %1 : f32[] "mse.sum" F HEAD
%9 = loss {weight=0.5, count=64} %8 : f32[] "mse" F HEAD
output "mse" {kind=loss} %9 U HEAD
)");
}

TEST_CASE("losses of a model expand to sum, count and loss") {
  CHECK(print(parse(R"(
input %x "x" : f32[6,5] cut 0
input %labels "y" : i32[6] cut 0 range 5
loss "ce" = softmax_xent %x %labels ignore -1 weight 0.5
loss "s" = sum (tanh %x)
)")) == R"(%0 = input "x" {cut=0} : f32[6,5] F
%1 = input "y" {cut=0, range=5} : i32[6] F
%2, %3 = softmax_xent {ignore=-1} %0 %1 : f32[], f32[6] "ce.sum" F
%4 = count_valid {ignore=-1} %1 : f64[] "ce.count" F
%5 = loss {weight=0.5} %2 %4 : f32[] "ce" F
output "ce" {kind=loss} %5 U
%6 = tanh %0 : f32[6,5] F
%7 = sum_to {shape=[]} %6 : f32[] "s.sum" F
%8 = loss {weight=1, count=1} %7 : f32[] "s" F
output "s" {kind=loss} %8 U
)");
}

TEST_CASE("an input says which dimension is the batch and which the sequence") {
  const Graph g = parse("input %t \"tokens\" : i32[3,7] range 5 sequence 1 cut 0\noutput \"t\" %t\n");
  CHECK(print(g).substr(0, print(g).find('\n')) == R"(%0 = input "tokens" {cut=0, sequence=1, range=5} : i32[3,7] F)");
  CHECK(print(parse(print(g))) == print(g));
  CHECK_ERROR(parse("input %t \"tokens\" : i32[3,7] cut 0 sequence 2\n"),
              "the dimension of 'sequence' is 2, expected 0 to 1");
  CHECK_ERROR(parse("input %t \"tokens\" : i32[3,7] cut 0 sequence 0\n"),
              "input: sequence is 0, expected another dimension than cut, the batch");
}

TEST_CASE("parameters: every initial value, ties, names of nested nodes") {
  CHECK(print(parse(R"(
param %a "a" : f32[4] zeros
param %b "b" : f32[4] ones frozen
param %c "c" : f32[4] uniform(0.25) PART='half'
input %x "x" : f32[4]
%y = add (dropout {p=0.5} (mul %x %c) "drop") (mul %x %c) "sum" EP=1
output "y" %y
)")) == R"(%0 = param "a" {init=constant, scale=0, trainable=true} : f32[4] F
%1 = param "b" {init=constant, scale=1, trainable=false} : f32[4] F
%2 = param "c" {init=uniform, scale=0.25, trainable=true} : f32[4] F PART=half
%3 = input "x" : f32[4] F
%4 = mul %3 %2 : f32[4] F EP=1
%5 = dropout {p=0.5} %4 : f32[4] "drop" F EP=1
%6 = mul %3 %2 : f32[4] F EP=1
%7 = add %5 %6 : f32[4] "sum" F EP=1
output "y" {kind=metric} %7 U
)");
}

namespace {

/// complaint, then " at PLACE".
std::string refusal(const std::string& text, const std::map<std::string, std::int64_t>& set = {}) {
  try {
    parse(text, "m.txt", set);
    return "(no error)";
  } catch (const Error& error) {
    return error.complaint() + " at " + error.at();
  }
}

}  // namespace

TEST_CASE("errors name file and line, what was found, and the nearest names") {
  CHECK(refusal("dim B = 8\ninput %x \"x\" : f32[B]\n%y = tanhh %x\n") ==
        "unknown operator 'tanhh'; nearest: tanh, param, state, add, pad, cast, … at m.txt:3");
  CHECK(refusal("input %x \"x\" : f32[8]\n%y = tanh %xx\n") == "unknown value '%xx'; known: %x at m.txt:2");
  CHECK(refusal("input %x \"x\" : f32[Q]\n") == "unknown dimension 'Q'; no dim is defined at m.txt:1");
  CHECK(refusal("dim BATCH = 8\n", {{"BATHC", 2}}) == "no dimension 'BATHC' to set to 2; dimensions: BATCH at m.txt:1");
  CHECK(refusal("dim B = 8\n", {{"B", -2}}) == "dim 'B' is set to -2, expected 0 to 1099511627776 at m.txt:1");
  CHECK(refusal("input %x \"x\" : f33[8]\n") == "unknown type 'f33'; known: f32, f64, f16, i32, bf16, i64, bool at m.txt:1");
  CHECK(refusal("%0 = input \"x\" : f32[8] @s1\n") == "unknown mesh '@s1'; no mesh is defined at m.txt:1");
  CHECK(refusal("mesh @s0 {dp:2} devices 0 1\n%0 = input \"x\" : f32[8] @s0 [tp]\n") == "no axis 'tp' on mesh {dp:2}; axes: dp at m.txt:2");
  CHECK(refusal("mesh @s0 {dp:2} devices 0 1 2\n") == "a mesh of axes {dp:2} needs 2 devices, got 3 at m.txt:1");
  CHECK(refusal("mesh @s0 {dp:2} devices 0 0\n") == "device 0 is listed twice in a mesh at m.txt:1");
  CHECK(refusal("input %x \"x\" : f32[8] cut 1\n") == "the dimension of 'cut' is 1, expected 0 to 0 at m.txt:1");
  CHECK(refusal("input %x \"x\" : f32[8]\n%y = scale {facto=2} %x\n") == "unknown attribute 'facto' of scale; known: factor at m.txt:2");
  CHECK(refusal("input %x \"x\" : f32[8]\n%y = tanh %x : f32[9]\n") == "tanh: the text says f32[9], its operands give f32[8] at m.txt:2");
  CHECK(refusal("input %x \"x\" : f32[8]\n%y = tanh %x %x\n") == "tanh: got 2 operands, expected 1 at m.txt:2");
  CHECK(refusal("input %x \"x\" : f32[8]\ntanh %x\n") == "the results of tanh have no name, expected '%name = ' before it at m.txt:2");
  CHECK(refusal("input %x \"x\" : f32[8]\n%y, %z = tanh %x\n") == "tanh gives 1 results, the line names 2 at m.txt:2");
  const std::string q = "input %q \"q\" : f32[1,8,1,2]\n";
  CHECK(refusal(q + "%o, %l = attention_piece {pieces={0..2; 4..3}} %q %q %q\n") ==
        "the end of an interval is 3, expected 5 to 1099511627776 at m.txt:2");
  CHECK(refusal(q + "%o, %l = attention_piece {pieces=[0, 8]} %q %q %q\n") ==
        "found '[', expected '{' before a table of intervals at m.txt:2");
  CHECK(refusal("loss \"l\" = mae %x %y\n") == "unknown loss 'mae'; known: mse, sum, softmax_xent at m.txt:1");
  CHECK(refusal("inptu %x\n") ==
        "unknown statement 'inptu'; known: input, dim, repeat, mesh, param, loss, output, fence, streams at m.txt:1");
  CHECK(refusal("repeat i in 0..2 {\nparam %w \"w\" : f32[2]\n}\n") == "a second parameter is named \"w\" at m.txt:2");
  CHECK(refusal("param %w \"w{j}\" : f32[2]\n") == "unknown dimension 'j'; no dim is defined, in braces within \"w{j}\" at m.txt:1");
  CHECK(refusal("input %x \"x\" : f32[7/2]\n") == "7 / 2 is not a whole number at m.txt:1");
  CHECK(refusal("%0 = fence after=[%9]\n") == "fence gives 0 results, the line names 1 at m.txt:1");
  CHECK(refusal("fence after=[%9]\n") == "'after' names %9, which is not defined at m.txt:1");
  CHECK(refusal("input %x \"x\" : f32[2] A=1 A=2\n") == "tag 'A' stands twice at m.txt:1");
}

TEST_CASE("hostile text is refused, and soon") {
  std::string nested = "input %x \"x\" : f32[2]\n%y = tanh ";
  for (int i = 0; i < 300'000; ++i) nested += "(tanh ";
  CHECK(refusal(nested) == "nested more than 64 deep at m.txt:2");
  CHECK(refusal("dim B = " + std::string(100'000, '(')) == "nested more than 64 deep at m.txt:1");
  CHECK(refusal("dim B = " + std::string(100'000, '-')) == "nested more than 64 deep at m.txt:1");
  std::string repeats;
  for (int i = 0; i < 1000; ++i) repeats += "repeat i" + std::to_string(i) + " in 0..2 {\n";
  CHECK(refusal(repeats) == "nested more than 64 deep at m.txt:65");
  CHECK(refusal("repeat i in 0..1e12 { }\n") == "found '1e12', expected a whole number at m.txt:1");
  CHECK(refusal("repeat i in 0..1000000000000 { }\n") == "the repeats run more than 10 million times at m.txt:1");
  CHECK(refusal("repeat i in 0..10000000 {\n" + std::string(1000, '#') + "\n}\n") ==
        "the repeats expand to more than 1 GiB of text at m.txt:3");
  CHECK(refusal("repeat i in 0..3 {\n%x = \n") == "found the end of the line, expected an operator at m.txt:2");
  CHECK(refusal("repeat i in 0..3 {\n") == "a repeat has no '}' at m.txt:1");
  CHECK(refusal("repeat i in 3..3 {\n") == "a repeat has no '}' at m.txt:1");
  CHECK(refusal("repeat i in 3..1 {\n}\n") == "a repeat runs from 3 to 1, which is below at m.txt:1");
  CHECK(refusal("input %x \"x\" : f32[99999999999999999999]\n") ==
        "found '99999999999999999999', expected a whole number below 2^63 at m.txt:1");
  CHECK(refusal("input %x \"x\" : f32[9223372036854775807 * 2]\n") == "a product goes beyond 2^63 at m.txt:1");
  CHECK(refusal("input %x \"x\" : f32[1099511627777]\n") == "a dimension is 1099511627777, expected 0 to 1099511627776 at m.txt:1");
  CHECK(refusal("input %x \"x\" : f32[-1]\n") == "a dimension is -1, expected 0 to 1099511627776 at m.txt:1");
  CHECK(refusal("input %x \"x\" : f32[1099511627776,1099511627776,0]\n") ==
        "f32[1099511627776,1099511627776,0] has more than 2^62 elements at m.txt:1");
  CHECK(refusal(std::string("input \0 x\n", 10)) == "unexpected character '\\x00' at m.txt:1");
  CHECK(refusal("input %x \"x\n") == "a string does not end on its line; it starts with \"x at m.txt:1");
  CHECK(refusal("input %x \"x\\") == "a string has no end; it starts with \"x\\ at m.txt:1");
  CHECK(refusal("input %x \"\\q\" : f32[2]\n") == "unknown escape '\\q', expected one of \\\" \\' \\\\ \\{ \\} \\n \\t \\xHH at m.txt:1");
  std::string wide = "input %x \"x\" : f32[2]\n%y = sum ";
  for (int i = 0; i < 70'000; ++i) wide += "%x ";
  CHECK(refusal(wide) == "more than 65,535 operands at m.txt:2");
  std::string meshes;
  for (int i = 0; i < 60'000; ++i) meshes += "mesh @m" + std::to_string(i) + " {a:1} devices " + std::to_string(i) + "\n";
  CHECK(refusal(meshes + "x") ==
        "unknown statement 'x'; known: dim, mesh, loss, input, param, fence, repeat, output, streams at m.txt:60001");
}

TEST_CASE("random bytes and damaged graphs are refused or read, never worse") {
  const std::string good = R"(streams compute p2p
mesh @s0 {dp:2, tp:2} devices 0 1 2 3
mesh @s1 {dp:2, tp:2} devices 4 5 6 7
mesh @u0 = @s0 @s1
dim B = 8
repeat i in 0..2 { param %w "l{i}" : f32[4,B] normal(0.1) frozen }
%0 = input "x" {cut=0} : f64[8,5] @s0 [dp {0..3 5..6; 3..5 6..8}, tp] F 'a b'='c' X=-3 origin=[16,0] role=gradient stream=p2p
^0 = fence mesh=@s1 after=[%0]
%1, %2 = rms_norm {eps=1e-6} %0 (fill {shape=[5], dtype=f64, value=1} "n") : f64[8,5] @s0, f64[8] @s0 after=[^0, %0]
loss "s" = sum %0 weight 2
output "y" {kind=metric} %1 mesh=@s0
)";
  CHECK_NOTHROW(parse(good));
  std::uint64_t state = 7;
  const auto random = [&](std::size_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<std::size_t>((state >> 33) % below);
  };
  const std::string alphabet = "%@^\"'{}[]()=:,;.+-*/ \n#0123456789abcdefghijklmnopqrstuvwxyzFBU\\";
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (std::size_t edits = 1 + random(4); edits > 0; --edits) {
      const std::size_t at = random(text.size());
      if (random(3) == 0)
        text.erase(at, 1 + random(20));
      else if (random(2) == 0)
        text[at] = random(10) == 0 ? static_cast<char>(random(256)) : alphabet[random(alphabet.size())];
      else
        text.insert(at, text.substr(random(text.size()), random(30)));
      if (text.empty()) text = " ";
    }
    try {
      const std::string once = print(parse(text));
      CHECK(print(parse(once)) == once);
      ++read;
    } catch (const Error&) {
    }
  }
  CHECK(read > 30);
  CHECK(read < 3000);
  std::string garbage(10 << 20, ' ');
  for (char& c : garbage) c = alphabet[random(alphabet.size())];
  CHECK_THROWS_AS(parse(garbage), Error);
  CHECK_THROWS_AS(parse(std::string(10 << 20, '"')), Error);
  CHECK_THROWS_AS(parse(std::string(10 << 20, '{')), Error);
}

namespace {

/// The first indented block of docs/graph.md behind a heading, without its indent.
std::string documented(const std::string& heading) {
  std::ifstream file(std::string(SKIRL_SOURCE_DIR) + "/docs/graph.md");
  std::string text;
  bool found = false;
  for (std::string line; std::getline(file, line);) {
    found = found || line == heading;
    if (found && line.starts_with("    ")) text += line.substr(4) + "\n";
    if (!text.empty() && !line.starts_with("    ")) break;
  }
  return text;
}

}  // namespace

TEST_CASE("what the documentation shows is read and valid") {
  const std::string graph = documented("## The text form");
  CHECK(print(parse(graph)) == graph);
  CHECK(verify(parse(graph)).empty());
  const std::string model = documented("## A model file");
  CHECK(verify(parse(model)).empty());
  CHECK(print(parse(model, "m", {{"B", 3}})).find("f32[3,10]") != std::string::npos);
  CHECK(parse(model).node_count() == 31);
}
