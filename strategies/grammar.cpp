#include "strategies/grammar.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace skirl {
namespace {

constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kWindow = 72;  // characters of a long text that an error shows

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

/// Bytes of "25MB"; none if the text is no size.
std::optional<std::int64_t> size_in(std::string_view text, bool& too_large) {
  struct Unit {
    std::string_view name;
    std::int64_t bytes;
  };
  constexpr Unit kUnits[] = {
      {"KiB", 1LL << 10}, {"MiB", 1LL << 20}, {"GiB", 1LL << 30}, {"KB", 1'000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}, {"B", 1}};
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    const std::string_view digits = text.substr(0, text.size() - unit.name.size());
    std::int64_t value = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || digits[0] == '-' || end != digits.data() + digits.size()) return std::nullopt;
    too_large = fault == std::errc::result_out_of_range || value > INT64_MAX / unit.bytes;
    return too_large ? 0 : value * unit.bytes;
  }
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<StrategyItem> strategy() {
    if (skip() == '\0') fail("the strategy is empty, expected a recipe such as \"ddp(2)\"");
    std::vector<StrategyItem> items{item(1)};
    while (skip() == '+') {
      ++at_;
      items.push_back(item(1));
    }
    if (skip() != '\0') fail("found " + found() + ", expected '+' or the end");
    return items;
  }

 private:
  [[noreturn]] void fail(const std::string& complaint) const { throw strategy_error(text_, at_, complaint); }

  /// The next character that is no space, or 0 at the end.
  char skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::string found() const {
    if (at_ >= text_.size()) return "the end";
    const char c = text_[at_];
    return c > ' ' && c < 0x7F ? "'" + std::string(1, c) + "'" : "a character that has no place here";
  }
  std::string word(const char* expected) {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && in_word(text_[at_])) ++at_;
    if (at_ == begin) fail("found " + found() + ", expected " + expected);
    return std::string(text_.substr(begin, at_ - begin));
  }

  StrategyItem item(std::size_t depth) {
    StrategyItem item;
    skip();
    item.at = at_;
    item.name = word("the name of a recipe");
    if (skip() == '(') arguments(item, depth);
    return item;
  }

  void arguments(StrategyItem& item, std::size_t depth) {
    if (depth > kMaxDepth) fail("items nested deeper than " + std::to_string(kMaxDepth));
    do {
      ++at_;  // '(' or ','
      item.args.push_back(argument(item, depth));
    } while (skip() == ',');
    if (skip() != ')') fail("found " + found() + ", expected ',' or ')'");
    ++at_;
  }

  StrategyArg argument(const StrategyItem& item, std::size_t depth) {
    StrategyArg arg;
    skip();
    arg.at = at_;
    arg.word = word("an argument");
    if (skip() == '=') {
      ++at_;
      arg.key = arg.word;
      skip();
      arg.at = at_;
      arg.word = word("a value");
    } else if (!item.args.empty() && !item.args.back().key.empty()) {
      at_ = arg.at;
      fail("a positional argument after " + item.args.back().key + "=, expected the positional ones first");
    }
    if (skip() == '(') {
      arg.kind = StrategyArg::Kind::Item;
      StrategyItem inner{arg.word, {}, arg.at};
      arguments(inner, depth + 1);
      arg.item.push_back(std::move(inner));
      return arg;
    }
    classify(arg);
    return arg;
  }

  void classify(StrategyArg& arg) {
    const std::string& w = arg.word;
    const auto [end, fault] = std::from_chars(w.data(), w.data() + w.size(), arg.number);
    bool too_large = false;
    if (end == w.data() + w.size()) {
      too_large = fault == std::errc::result_out_of_range;
      arg.kind = StrategyArg::Kind::Integer;
    } else if (const std::optional<std::int64_t> size = size_in(w, too_large)) {
      arg.number = *size;
      arg.kind = StrategyArg::Kind::Size;
    }
    if (too_large)
      throw strategy_error(text_, arg.at, "the number " + w.substr(0, 32) + " is too large, expected at most 9223372036854775807");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<StrategyItem> parse_strategy(std::string_view text) { return Parser(text).strategy(); }

Error strategy_error(std::string_view text, std::size_t at, const std::string& complaint, const std::string& help) {
  at = std::min(at, text.size());
  const std::size_t begin = at > kWindow / 2 && text.size() > kWindow ? at - kWindow / 2 : 0;
  std::string shown;
  for (const char c : text.substr(begin, kWindow)) shown += c >= ' ' && c < 0x7F ? c : '?';
  const std::string before = begin > 0 ? "…" : "";
  const std::string after = begin + kWindow < text.size() ? "…" : "";
  const std::size_t indent = 7 + (begin > 0 ? 1 : 0) + (at - begin);  // "  at   " stands before the place
  return Error(complaint, before + shown + after + "\n" + std::string(indent, ' ') + "^", help);
}

}  // namespace skirl
