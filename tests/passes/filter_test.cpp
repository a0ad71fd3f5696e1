#include "passes/filter.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/check_error.h"

using namespace skirl;

namespace {

Filter filter_of(const std::string& text) {
  const Json json = parse_json(text, "s.json");
  return parse_filter(JsonView(json, "s.json", "/0/filter"));
}

std::string round(const std::string& text) { return to_string(filter_of(text)); }

/// Six nodes: (LAYER=i, BLOCK=attn or mlp) in F and BI for i in 0..1, one BW with RE and no value, one U without tags.
struct Tagged {
  Graph graph;
  std::vector<NodeId> nodes;

  Tagged() {
    for (const Phase phase : {Phase::F, Phase::BI})
      for (std::int64_t layer = 0; layer < 2; ++layer) {
        TagSet tags = with_tag({}, {graph.intern("LAYER"), TagValue::integer(layer)});
        tags = with_tag(tags, {graph.intern("BLOCK"), TagValue::word(graph.intern(layer == 0 ? "attn" : "mlp"))});
        add(phase, tags);
      }
    add(Phase::BW, with_tag({}, {graph.intern("RE"), TagValue{}}));
    add(Phase::U, {});
  }
  void add(Phase phase, const TagSet& tags) {
    NodeInit init;
    init.phase = phase;
    init.tags = graph.intern(tags);
    nodes.push_back(graph.add(init));
  }
  /// "110000": which nodes match.
  std::string match(const std::string& text, UnknownTags unknown = UnknownTags::Refuse) {
    const Filter filter = filter_of(text);
    Matcher matches(graph, filter, unknown);
    std::string bits;
    for (const NodeId node : nodes) bits += matches(node) ? '1' : '0';
    return bits;
  }
};

}  // namespace

TEST_CASE("a filter selects by tags and phase, all terms at once") {
  Tagged t;
  CHECK(t.match("{}") == "111111");
  CHECK(t.match(R"({"LAYER": 0})") == "101000");
  CHECK(t.match(R"({"LAYER": "1"})") == "010100");
  CHECK(t.match(R"({"LAYER": "*"})") == "111100");
  CHECK(t.match(R"({"LAYER": "0..1"})") == "111100");
  CHECK(t.match(R"({"LAYER": "1..7"})") == "010100");
  CHECK(t.match(R"({"LAYER": "-3..0"})") == "101000");
  CHECK(t.match(R"({"BLOCK": "mlp"})") == "010100");
  CHECK(t.match(R"({"BLOCK": "moe"})") == "000000");
  CHECK(t.match(R"({"BLOCK": 0})") == "000000");
  CHECK(t.match(R"({"LAYER": null})") == "000000");
  CHECK(t.match(R"({"RE": null})") == "000010");
  CHECK(t.match(R"({"RE": false})") == "111101");
  CHECK(t.match(R"({"LAYR": false})", UnknownTags::MatchNothing) == "111111");
  CHECK(t.match(R"({"RE": "*"})") == "000010");
  CHECK(t.match(R"({"PASS": "F"})") == "110000");
  CHECK(t.match(R"({"PASS": "B"})") == "001110");
  CHECK(t.match(R"({"PASS": "BI"})") == "001100");
  CHECK(t.match(R"({"PASS": "BW"})") == "000010");
  CHECK(t.match(R"({"PASS": "U"})") == "000001");
  CHECK(t.match(R"({"PASS": null})") == "000001");
  CHECK(t.match(R"({"LAYER": 1, "BLOCK": "mlp", "PASS": "B"})") == "000100");
}

TEST_CASE("a matcher answers alike before and after it has made its table") {
  Tagged t;
  const Filter filter = filter_of(R"({"LAYER": 1})");
  Matcher matches(t.graph, filter);
  for (int i = 0; i < 200; ++i)
    for (std::size_t n = 0; n < t.nodes.size(); ++n) REQUIRE(matches(t.nodes[n]) == (n == 1 || n == 3));
  t.add(Phase::F, with_tag(with_tag({}, {t.graph.intern("LAYER"), TagValue::integer(1)}), {t.graph.intern("MB"), TagValue::integer(0)}));
  CHECK(matches(t.nodes.back()));  // a tag set made after the matcher
}

TEST_CASE("a filter prints as the JSON that it was read from") {
  CHECK(round(R"({"PASS": "B", "PP": 0, "MB": "0..3", "EP": "*", "RE": null, "BLOCK": "attn", "X": "7"})") ==
        R"({"PP":0,"MB":"0..3","EP":"*","RE":null,"BLOCK":"attn","X":7,"PASS":"B"})");
  CHECK(round(R"({"MB": false})") == R"({"MB":false})");
  CHECK(round(R"({"PASS": null})") == R"({"PASS":"U"})");
  CHECK(round("{}") == "{}");
}

TEST_CASE("a filter refuses tags and values that cannot be") {
  Tagged t;
  CHECK_ERROR(t.match(R"({"LAYR": 0})"), "the filter {\"LAYR\":0} names the tag LAYR, which no node has; tags: LAYER, BLOCK, RE");
  CHECK(t.match(R"({"LAYR": 0})", UnknownTags::MatchNothing) == "000000");
  CHECK_ERROR(filter_of(R"({"PASS": "FB"})"), "unknown PASS 'FB'; known: F, B, BI, BW, U, null");
  CHECK_ERROR(filter_of(R"({"PASS": 1})"), "PASS is no word; known: F, B, U, BI, BW, null");
  CHECK_ERROR(filter_of(R"({"MB": 4.7})"), "a value of tag MB is an integer, a word, \"*\", a range \"lo..hi\", null or false; found 4.7");
  CHECK_ERROR(filter_of(R"({"MB": [1]})"),
              "a value of tag MB is an integer, a word, \"*\", a range \"lo..hi\", null or false; found array");
  CHECK_ERROR(filter_of(R"({"MB": "3..1"})"), "the range \"3..1\" is empty, expected the lower end first");
  CHECK_ERROR(filter_of(R"({"MB": "0..x"})"), "found \"0..x\", expected a range of integers such as \"0..3\"");
  CHECK_ERROR(filter_of(R"({"MB": ""})"), "found \"\", expected a value of tag MB");
  CHECK_ERROR(filter_of(R"([["PP", 0]])"), "found an array of 1, expected an object");
}
