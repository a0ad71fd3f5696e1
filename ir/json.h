#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace skirl {

using Json = nlohmann::ordered_json;

/// Reads JSON text strictly: duplicate keys, depth over 64, NaN, trailing text and malformed input are Errors that name `file` and line (or JSON
/// pointer), what was found and what was expected.
Json parse_json(std::string_view text, std::string_view file);
Json read_json_file(const std::string& path);

/// A cursor in a parsed document that knows where it is: every complaint names file and JSON pointer, found and expected.
class JsonView {
 public:
  JsonView(const Json& value, std::string file, std::string pointer = "") : value_(value), file_(std::move(file)), pointer_(std::move(pointer)) {}

  const Json& raw() const { return value_; }
  const std::string& file() const { return file_; }
  /// "strategy.json /directives/2".
  std::string where() const;
  [[noreturn]] void fail(std::string_view complaint, std::string_view help = {}) const;

  bool is_array() const;
  bool is_object() const;
  std::size_t size() const;
  JsonView at(std::size_t index) const;
  bool has(std::string_view key) const;
  JsonView at(std::string_view key) const;  // Error if it is missing
  std::vector<std::string> keys() const;
  /// Error for any key not in `known`, nearest first.
  void only_keys(const std::vector<std::string>& known) const;

  std::string string() const;
  bool boolean() const;
  double number() const;
  /// A whole number in [least, most]; 4.7, −3 where a count belongs, and 1e99 are Errors.
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  std::int64_t count() const;  // ≥ 1

 private:
  const Json& value_;
  std::string file_;
  std::string pointer_;
};

}  // namespace skirl
