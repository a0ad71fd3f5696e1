#include "ir/json.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/check_error.h"

using namespace skirl;

namespace {

std::string place_of_error(const std::string& text) {
  try {
    parse_json(text, "f.json");
  } catch (const Error& error) {
    return error.at();
  }
  return "(no error)";
}

}  // namespace

TEST_CASE("JSON keeps the order of keys and the kinds of numbers") {
  const Json json = parse_json(R"({"z": [1, -2, 2.5, 1e3], "a": {"t": true, "n": null, "s": "x\n\u00e9"}})", "f.json");
  CHECK(json.dump() == R"({"z":[1,-2,2.5,1000.0],"a":{"t":true,"n":null,"s":"x\né"}})");
  CHECK(parse_json(" 7 ", "f.json") == 7);
  CHECK(parse_json("-9223372036854775808", "f.json") == std::numeric_limits<std::int64_t>::min());
  const std::string open(64, '[');
  CHECK_NOTHROW(parse_json(open + std::string(64, ']'), "f.json"));
}

TEST_CASE("a JSON error tells file, line and pointer") {
  CHECK_ERROR(parse_json(R"({"a": 1, "a": 2})", "f.json"), "the key \"a\" stands twice in one object");
  CHECK(place_of_error("{\n \"directives\": [\n {},\n {\"op\": 1,\n \"op\": 2}]}") == "f.json line 5 /directives/1/op");
  CHECK(place_of_error("[\n1,\n1e999]") == "f.json line 3 /1");
  CHECK(place_of_error("[\n1,\n\n 99999999999999999999\n]") == "f.json line 4 /1");
  CHECK(place_of_error("[1,\n2\n") == "f.json line 2 /2");
  CHECK(place_of_error(R"({"a/b": {"c~d": [1 2]}})") == "f.json line 1 /a~1b/c~0d/1");
}

TEST_CASE("JSON that other readers let pass is refused") {
  CHECK_ERROR(parse_json("99999999999999999999", "f.json"),
              "the number 99999999999999999999 is out of range, expected a 64-bit integer or a finite double");
  CHECK_ERROR(parse_json("9223372036854775808", "f.json"),
              "the number 9223372036854775808 is out of range, expected a 64-bit integer or a finite double");
  CHECK_ERROR(parse_json("[1e999]", "f.json"), "the number 1e999 is out of range, expected a 64-bit integer or a finite double");
  CHECK_ERROR(parse_json("[-1e-999]", "f.json"), "the number -1e-999 is out of range, expected a 64-bit integer or a finite double");
  CHECK_ERROR(parse_json(std::string(65, '[') + std::string(65, ']'), "f.json"), "nested deeper than 64 levels");
  CHECK_ERROR(parse_json(std::string(300'000, '['), "f.json"), "nested deeper than 64 levels");
  CHECK_ERROR(parse_json("[NaN]", "f.json"), "malformed JSON: invalid literal, after '[N'");
  CHECK_ERROR(parse_json("{} {}", "f.json"), "malformed JSON: unexpected '{'; expected end of input");
  CHECK_ERROR(parse_json("", "f.json"), "malformed JSON: unexpected end of input; expected '[', '{', or a literal");
  CHECK_ERROR(parse_json("[1,]", "f.json"), "malformed JSON: unexpected ']'; expected '[', '{', or a literal");
  CHECK_ERROR(parse_json("\"\xff\"", "f.json"), "malformed JSON: invalid string: ill-formed UTF-8 byte, after '\"\\xff'");
  CHECK_ERROR(parse_json("\"" + std::string(100'000, 'x'), "f.json"),
              "malformed JSON: invalid string: missing closing quote, after '\"" + std::string(47, 'x') + "…'");
}

TEST_CASE("a view checks kinds, ranges and keys") {
  const Json json = parse_json(R"({"n": 3, "f": 4.7, "m": -3, "w": "x", "b": true, "l": [1, 2], "big": 1e99})", "s.json");
  const JsonView view(json, "s.json", "/top");
  CHECK(view.at("n").integer(0, 3) == 3);
  CHECK(view.at("n").count() == 3);
  CHECK(view.at("f").number() == 4.7);
  CHECK(view.at("l").at(1).integer(2, 2) == 2);
  CHECK(view.at("l").at(1).where() == "s.json /top/l/1");
  CHECK(view.at("b").boolean());
  CHECK(view.at("w").string() == "x");
  CHECK_FALSE(view.has("absent"));
  CHECK(view.keys().size() == 7);

  CHECK_ERROR(view.at("f").count(), "found 4.7, expected a whole number of at least 1");
  CHECK_ERROR(view.at("m").count(), "found -3, expected a whole number of at least 1");
  CHECK_ERROR(view.at("big").integer(0, 9), "found 1e+99, expected a whole number from 0 to 9");
  CHECK_ERROR(view.at("w").integer(0, 9), "found \"x\", expected a whole number from 0 to 9");
  CHECK_ERROR(view.at("n").integer(4, 9), "found 3, expected a whole number from 4 to 9");
  CHECK_ERROR(view.at("n").string(), "found 3, expected a string");
  CHECK_ERROR(view.at("l").number(), "found an array of 2, expected a number");
  CHECK_ERROR(view.at("n").boolean(), "found 3, expected true or false");
  CHECK_ERROR(view.at("n").size(), "found 3, expected an array");
  CHECK_ERROR(view.at("l").at(2), "found an array of 2, expected at least 3");
  CHECK_ERROR(view.at("l").at("x"), "found an array of 2, expected an object");
  CHECK_ERROR(view.at("stages"), "the key \"stages\" is missing");
  CHECK_ERROR(view.only_keys({"n", "f", "m", "b", "l", "width"}), "unknown key \"w\"; known: n, f, m, b, l, width");
}

TEST_CASE("a file that cannot be read is an error") {
  CHECK_ERROR(read_json_file("/nowhere/x.json"), "cannot read the file /nowhere/x.json: No such file or directory");
  CHECK_ERROR(read_json_file("/"), "cannot read the file /: Is a directory");
  const std::string path = (std::filesystem::temp_directory_path() / "skirl_json_test_empty.json").string();
  std::ofstream(path).close();
  CHECK_ERROR(read_json_file(path), "malformed JSON: unexpected end of input; expected '[', '{', or a literal");
  std::filesystem::remove(path);
}
