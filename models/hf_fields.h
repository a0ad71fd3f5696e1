#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/json.h"

namespace skirl {

/// Reads the fields of one object of a config, where null means absent, and remembers which it was asked for. Every complaint names file
/// and JSON pointer, found and expected.
class HfFields {
 public:
  HfFields(JsonView object, std::string family) : object_(std::move(object)), family_(std::move(family)) {}

  /// The field, or none where it is absent or null.
  std::optional<JsonView> find(std::string_view field);
  /// A size that must be there.
  std::int64_t size(std::string_view field, std::int64_t least, std::int64_t most);
  std::int64_t size(std::string_view field, std::int64_t least, std::int64_t most, std::int64_t fallback);
  bool flag(std::string_view field, bool fallback);
  /// Above zero.
  double positive(std::string_view field, double fallback);
  /// At least 0 and below 1.
  double probability(std::string_view field, double fallback);
  std::string word(std::string_view field, const char* fallback);
  /// Throws Error at the field if its word is none of `known`.
  void expect_word(std::string_view field, const char* fallback, const std::vector<std::string>& known, const char* what);
  /// Throws Error at the field if it is given and not `value`.
  void expect_flag(std::string_view field, bool value, const char* complaint);
  /// Fields that change nothing of a training step.
  void ignore(std::initializer_list<const char*> fields);
  /// Throws Error at the first field that nobody asked for.
  void refuse_others() const;

  const JsonView& object() const { return object_; }
  const std::string& family() const { return family_; }

 private:
  JsonView object_;
  std::string family_;
  std::vector<std::string> known_;
};

}  // namespace skirl
