#include "strategies/grammar.h"

#include <catch2/catch.hpp>

#include "tests/support/check_error.h"

using namespace skirl;

namespace {

std::string print(const StrategyItem& item);
std::string print(const StrategyArg& arg) {
  std::string text = arg.key.empty() ? "" : arg.key + "=";
  switch (arg.kind) {
    case StrategyArg::Kind::Integer:
      return text + "i" + std::to_string(arg.number);
    case StrategyArg::Kind::Size:
      return text + "s" + std::to_string(arg.number);
    case StrategyArg::Kind::Word:
      return text + arg.word;
    case StrategyArg::Kind::Item:
      return text + print(arg.item.front());
  }
  return "";
}
std::string print(const StrategyItem& item) {
  std::string text = item.name + "(";
  for (const StrategyArg& arg : item.args) text += (text.back() == '(' ? "" : ", ") + print(arg);
  return text + ")";
}
std::string parsed(const std::string& text) {
  std::string all;
  for (const StrategyItem& item : parse_strategy(text)) all += (all.empty() ? "" : " + ") + print(item);
  return all;
}
std::string place(const std::string& text) {
  try {
    parse_strategy(text);
  } catch (const Error& error) {
    return error.at();
  }
  return "(no error)";
}

}  // namespace

TEST_CASE("the short form is read into items") {
  CHECK(parsed("pp(4, dualpipev, mb=16) + zero(1, dp=2) + recompute(full)") ==
        "pp(i4, dualpipev, mb=i16) + zero(i1, dp=i2) + recompute(full)");
  CHECK(parsed(" ddp ( 2 )\n+plain ") == "ddp(i2) + plain()");
  CHECK(parsed("pp(2,1f1b)") == "pp(i2, 1f1b)");
  CHECK(parsed("bucket(25MB, x=1KiB, y=0B)") == "bucket(s25000000, x=s1024, y=s0)");
  CHECK(parsed("a(b(1, c=d(2)), e)") == "a(b(i1, c=d(i2)), e)");
  CHECK(parsed("a(-3, 4.7, 1e9, MB, -1MB)") == "a(i-3, 4.7, 1e9, MB, -1MB)");  // what is no integer and no size is a word
  CHECK(parse_strategy("ddp(2) + pp(3)")[1].at == 9);
}

TEST_CASE("an error in the short form puts a caret under its place") {
  CHECK_ERROR(parse_strategy(""), "the strategy is empty, expected a recipe such as \"ddp(2)\"");
  CHECK_ERROR(parse_strategy("ddp(2) zero(1)"), "found 'z', expected '+' or the end");
  CHECK_ERROR(parse_strategy("ddp(2) +"), "found the end, expected the name of a recipe");
  CHECK_ERROR(parse_strategy("ddp()"), "found ')', expected an argument");
  CHECK_ERROR(parse_strategy("ddp(2"), "found the end, expected ',' or ')'");
  CHECK_ERROR(parse_strategy("ddp(2,)"), "found ')', expected an argument");
  CHECK_ERROR(parse_strategy("pp(mb=)"), "found ')', expected a value");
  CHECK_ERROR(parse_strategy("pp(mb=4, 2)"), "a positional argument after mb=, expected the positional ones first");
  CHECK_ERROR(parse_strategy("ddp(99999999999999999999)"),
              "the number 99999999999999999999 is too large, expected at most 9223372036854775807");
  CHECK_ERROR(parse_strategy("b(9223372036854775807GB)"),
              "the number 9223372036854775807GB is too large, expected at most 9223372036854775807");
  CHECK_ERROR(parse_strategy("ddp(2)\xff"), "found a character that has no place here, expected '+' or the end");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "a(";
  CHECK_ERROR(parse_strategy(deep), "items nested deeper than 16");

  CHECK(place("ddp(2) zero(1)") == "ddp(2) zero(1)\n              ^");
  CHECK(place("ddp(2\t+ x") == "ddp(2?+ x\n             ^");
  const std::string at = place(std::string(500, 'a') + "!" + std::string(500, 'b'));
  CHECK(at == "…" + std::string(36, 'a') + "!" + std::string(35, 'b') + "…\n" + std::string(7 + 1 + 36, ' ') + "^");
}
