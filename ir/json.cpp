#include "ir/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "ir/error.h"
#include "ir/read_file.h"

namespace skirl {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxQuote = 48;  // a user's text may be megabytes long

/// Text for a message: cut short, control characters and broken bytes as \xNN.
std::string quotable(std::string_view text) {
  std::string safe;
  for (std::size_t i = 0; i < text.size() && i < kMaxQuote; ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x7F) {
      safe += text[i];
    } else {
      constexpr char kHex[] = "0123456789abcdef";
      safe += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    }
  }
  return text.size() > kMaxQuote ? safe + "…" : safe;
}

/// What a message says was found: the value if it is short, its kind otherwise.
std::string found(const Json& value) {
  switch (value.type()) {
    case Json::value_t::array:
      return value.empty() ? "an empty array" : "an array of " + std::to_string(value.size());
    case Json::value_t::object:
      return value.empty() ? "an empty object" : "an object of " + std::to_string(value.size());
    case Json::value_t::string:
      return "\"" + quotable(value.get_ref<const std::string&>()) + "\"";
    default:
      return value.dump();
  }
}

std::string place(std::string_view file, std::string_view pointer) {
  if (file.empty() || pointer.empty()) return std::string(file) + std::string(pointer);
  return std::string(file) + " " + std::string(pointer);
}

std::string escaped(std::string_view key) {
  std::string text = "/";
  const std::string safe = quotable(key);
  for (const char c : safe) text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return text;
}

/// Hands bytes to the parser and remembers how far it has come: its events do not tell.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }
  bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

/// Builds the document and refuses what nlohmann's own builder lets pass.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(std::string_view text, std::string_view file) : text_(text), file_(file), reached_(text.data()) {}

  Json read() {
    const char* begin = text_.data();
    const char* end = begin + text_.size();
    if (const std::size_t nul = text_.find('\0'); nul != std::string_view::npos) {  // the parser would take it for the end
      reached_ = begin + nul + 1;
      throw Error("malformed JSON: a NUL byte", here());
    }
    Json::sax_parse(Cursor(begin, &reached_), Cursor(end, &reached_), this);
    return std::move(document_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) out_of_range(std::to_string(value));
    return add(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& written) override {
    const std::string digits = written.substr(0, written.find_first_of("eE"));
    const bool whole = written.find_first_of(".eE") == std::string::npos;
    const bool vanished = value == 0 && digits.find_first_of("123456789") != std::string::npos;
    if (whole || vanished || !std::isfinite(value)) out_of_range(written);
    return add(value);
  }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }  // not in JSON text
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& value) override {
    Level& level = levels_.back();
    level.key = value;
    if (!level.keys.insert(value).second)
      throw Error("the key \"" + quotable(value) + "\" stands twice in one object", here(), "keep one of them");
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& exception) override {
    std::string reason = exception.what();
    if (const std::size_t overflow = reason.find("number overflow parsing '"); overflow != std::string::npos)
      out_of_range(reason.substr(overflow + 25, reason.rfind('\'') - overflow - 25));
    if (const std::size_t dash = reason.find(" - "); dash != std::string::npos) reason = reason.substr(dash + 3);
    std::string last;
    if (const std::size_t read = reason.find("; last read: '"); read != std::string::npos) {
      last = reason.substr(read + 14);
      reason.resize(read);
      const std::size_t expected = last.rfind("'; expected ");
      if (expected != std::string::npos) reason += last.substr(expected + 1);
      last = last.substr(0, expected == std::string::npos ? last.rfind('\'') : expected);
    }
    throw Error("malformed JSON: " + reason + (last.empty() ? "" : ", after '" + quotable(last) + "'"), here());
  }

 private:
  struct Level {
    Json value;
    std::string key;  // of the member that is being read
    std::unordered_set<std::string> keys;
  };

  template <class T>
  bool add(T&& value) {
    if (levels_.empty()) {
      document_ = std::forward<T>(value);
    } else if (Level& level = levels_.back(); level.value.is_array()) {
      level.value.get_ref<Json::array_t&>().emplace_back(std::forward<T>(value));
    } else {
      // push at the end: the keys are known to differ, and the map's own insertion looks at all of them
      Json::object_t& object = level.value.get_ref<Json::object_t&>();
      object.Json::object_t::Container::emplace_back(level.key, std::forward<T>(value));
    }
    return true;
  }
  bool open(Json value) {
    if (levels_.size() == kMaxDepth) throw Error("nested deeper than " + std::to_string(kMaxDepth) + " levels", here());
    levels_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return add(std::move(value));
  }

  [[noreturn]] void out_of_range(std::string_view written) const {
    throw Error("the number " + quotable(written) + " is out of range, expected a 64-bit integer or a finite double", here());
  }

  /// "strategy.json line 3 /directives/2/op". The parser has read at most one character too far.
  std::string here() const {
    const char* end = std::max(text_.data(), reached_ - 1);
    std::string text = std::string(file_) + (file_.empty() ? "line " : " line ") + std::to_string(1 + std::count(text_.data(), end, '\n'));
    std::string pointer;
    for (const Level& level : levels_)
      if (level.value.is_array())
        pointer += "/" + std::to_string(level.value.size());
      else if (!level.keys.empty())
        pointer += escaped(level.key);
    return pointer.empty() ? text : text + " " + pointer;
  }

  std::string_view text_;
  std::string_view file_;
  const char* reached_;
  Json document_;
  std::vector<Level> levels_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view file) { return Reader(text, file).read(); }

Json read_json_file(const std::string& path) { return parse_json(read_file(path, "the file"), path); }

std::string JsonView::where() const { return place(file_, pointer_); }

void JsonView::fail(std::string_view complaint, std::string_view help) const {
  throw Error(std::string(complaint), where(), std::string(help));
}

bool JsonView::is_array() const { return value_.is_array(); }
bool JsonView::is_object() const { return value_.is_object(); }

std::size_t JsonView::size() const {
  if (!value_.is_array()) fail("found " + found(value_) + ", expected an array");
  return value_.size();
}

JsonView JsonView::at(std::size_t index) const {
  if (index >= size()) fail("found an array of " + std::to_string(size()) + ", expected at least " + std::to_string(index + 1));
  return {value_[index], file_, pointer_ + "/" + std::to_string(index)};
}

bool JsonView::has(std::string_view key) const {
  if (!value_.is_object()) fail("found " + found(value_) + ", expected an object");
  return value_.contains(key);
}

JsonView JsonView::at(std::string_view key) const {
  if (!has(key)) fail("the key \"" + std::string(key) + "\" is missing");
  return {value_.at(std::string(key)), file_, pointer_ + escaped(key)};
}

std::vector<std::string> JsonView::keys() const {
  if (!value_.is_object()) fail("found " + found(value_) + ", expected an object");
  std::vector<std::string> names;
  for (const auto& [name, member] : value_.items()) names.push_back(name);
  return names;
}

void JsonView::only_keys(const std::vector<std::string>& known) const {
  for (const std::string& key : keys())
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail("unknown key \"" + quotable(key) + "\"; known: " + (known.empty() ? "none" : nearest_first(key, known)));
}

std::string JsonView::string() const {
  if (!value_.is_string()) fail("found " + found(value_) + ", expected a string");
  return value_.get<std::string>();
}

bool JsonView::boolean() const {
  if (!value_.is_boolean()) fail("found " + found(value_) + ", expected true or false");
  return value_.get<bool>();
}

double JsonView::number() const {
  if (!value_.is_number()) fail("found " + found(value_) + ", expected a number");
  return value_.get<double>();
}

std::int64_t JsonView::integer(std::int64_t least, std::int64_t most) const {
  const bool whole = value_.is_number_integer();
  if (whole && !value_.is_number_unsigned()) {
    const std::int64_t value = value_.get<std::int64_t>();
    if (value >= least && value <= most) return value;
  } else if (whole) {  // made in C++, where unsigned numbers stay unsigned
    const std::uint64_t value = value_.get<std::uint64_t>();
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) && static_cast<std::int64_t>(value) >= least &&
        static_cast<std::int64_t>(value) <= most)
      return static_cast<std::int64_t>(value);
  }
  std::string range;
  if (most == std::numeric_limits<std::int64_t>::max())
    range = least == std::numeric_limits<std::int64_t>::min() ? "" : " of at least " + std::to_string(least);
  else
    range = " from " + std::to_string(least) + " to " + std::to_string(most);
  fail("found " + found(value_) + ", expected a whole number" + range);
}

std::int64_t JsonView::count() const { return integer(1, std::numeric_limits<std::int64_t>::max()); }

}  // namespace skirl
