#include "models/hf_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/error.h"

namespace skirl {

std::optional<JsonView> HfFields::find(std::string_view field) {
  known_.emplace_back(field);
  if (!object_.has(field)) return std::nullopt;
  JsonView view = object_.at(field);
  if (view.raw().is_null()) return std::nullopt;
  return view;
}

std::int64_t HfFields::size(std::string_view field, std::int64_t least, std::int64_t most) {
  const std::optional<JsonView> found = find(field);
  if (!found) object_.fail("the field \"" + std::string(field) + "\" is missing, which a " + family_ + " config must have");
  return found->integer(least, most);
}

std::int64_t HfFields::size(std::string_view field, std::int64_t least, std::int64_t most, std::int64_t fallback) {
  const std::optional<JsonView> found = find(field);
  return found ? found->integer(least, most) : fallback;
}

bool HfFields::flag(std::string_view field, bool fallback) {
  const std::optional<JsonView> found = find(field);
  return found ? found->boolean() : fallback;
}

double HfFields::positive(std::string_view field, double fallback) {
  const std::optional<JsonView> found = find(field);
  if (!found) return fallback;
  const double value = found->number();
  if (!(value > 0)) found->fail("found " + found->raw().dump() + ", expected a number above zero");
  return value;
}

double HfFields::probability(std::string_view field, double fallback) {
  const std::optional<JsonView> found = find(field);
  if (!found) return fallback;
  const double value = found->number();
  if (!(value >= 0 && value < 1)) found->fail("found " + found->raw().dump() + ", expected a number of at least 0 and below 1");
  return value;
}

std::string HfFields::word(std::string_view field, const char* fallback) {
  const std::optional<JsonView> found = find(field);
  return found ? found->string() : fallback;
}

void HfFields::expect_word(std::string_view field, const char* fallback, const std::vector<std::string>& known, const char* what) {
  const std::string got = word(field, fallback);
  if (std::find(known.begin(), known.end(), got) == known.end())
    object_.at(field).fail(std::string(what) + " '" + got.substr(0, 64) + "' is not built; known: " + nearest_first(got, known));
}

void HfFields::expect_flag(std::string_view field, bool value, const char* complaint) {
  if (flag(field, value) != value) object_.at(field).fail(complaint);
}

void HfFields::ignore(std::initializer_list<const char*> fields) { known_.insert(known_.end(), fields.begin(), fields.end()); }

void HfFields::refuse_others() const {
  for (const std::string& key : object_.keys()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    object_.at(key).fail("unknown field \"" + key.substr(0, 64) + "\" of a " + family_ + " config; known: " + nearest_first(key, known_, 5),
                         "remove it if it does not change the arithmetic");
  }
}

}  // namespace skirl
