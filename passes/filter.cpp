#include "passes/filter.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "ir/error.h"

namespace skirl {
namespace {

constexpr std::uint8_t bit(Phase phase) { return static_cast<std::uint8_t>(1u << static_cast<unsigned>(phase)); }

struct Pass {
  const char* name;
  std::uint8_t phases;
};
constexpr Pass kPasses[] = {
    {"F", bit(Phase::F)}, {"B", bit(Phase::BI) | bit(Phase::BW)}, {"BI", bit(Phase::BI)}, {"BW", bit(Phase::BW)}, {"U", bit(Phase::U)}};
constexpr std::uint8_t kAllPhases = 0xFF;
/// A matcher that is asked about few nodes is not worth a table of all tag sets.
constexpr std::size_t kTablePays = 256;

std::optional<std::int64_t> integer_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint8_t parse_phases(const JsonView& value) {
  if (value.raw().is_null()) return bit(Phase::U);
  std::vector<std::string> known;
  for (const Pass& pass : kPasses) {
    known.emplace_back(pass.name);
    if (value.raw() == pass.name) return pass.phases;
  }
  const std::string got = value.raw().is_string() ? value.string() : "";
  value.fail((got.empty() ? "PASS is no word" : "unknown PASS '" + got.substr(0, 32) + "'") + "; known: " + nearest_first(got, known) +
             ", null");
}

FilterTerm parse_term(const std::string& tag, const JsonView& value) {
  using Kind = FilterTerm::Kind;
  if (value.raw().is_null()) return {Kind::None, tag, 0, 0, {}};
  if (value.raw() == false) return {Kind::Absent, tag, 0, 0, {}};
  if (value.raw().is_number_integer()) {
    const std::int64_t number = value.integer(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
    return {Kind::Integer, tag, number, number, {}};
  }
  if (!value.raw().is_string())
    value.fail("a value of tag " + tag + " is an integer, a word, \"*\", a range \"lo..hi\", null or false; found " +
               (value.is_array() || value.is_object() ? value.raw().type_name() : value.raw().dump()));
  const std::string text = value.string();
  if (text == "*") return {Kind::Any, tag, 0, 0, {}};
  if (const std::optional<std::int64_t> number = integer_in(text)) return {Kind::Integer, tag, *number, *number, {}};
  if (const std::size_t dots = text.find(".."); dots != std::string::npos) {
    const std::optional<std::int64_t> low = integer_in(std::string_view(text).substr(0, dots));
    const std::optional<std::int64_t> high = integer_in(std::string_view(text).substr(dots + 2));
    if (!low || !high) value.fail("found \"" + text.substr(0, 48) + "\", expected a range of integers such as \"0..3\"");
    if (*low > *high) value.fail("the range \"" + text + "\" is empty, expected the lower end first");
    return {Kind::Range, tag, *low, *high, {}};
  }
  if (text.empty()) value.fail("found \"\", expected a value of tag " + tag);
  return {Kind::Word, tag, 0, 0, text};
}

bool holds(const FilterTerm& term, NameId word, const TagValue* value) {
  using Kind = FilterTerm::Kind;
  if (value == nullptr) return term.kind == Kind::Absent;
  switch (term.kind) {
    case Kind::Any:
      return true;
    case Kind::None:
      return value->kind == TagValue::Kind::None;
    case Kind::Word:
      return value->kind == TagValue::Kind::Word && word.valid() && value->number == word.index();
    case Kind::Integer:
    case Kind::Range:
      return value->kind == TagValue::Kind::Integer && value->number >= term.low && value->number <= term.high;
    case Kind::Absent:
      return false;
  }
  return false;
}

[[noreturn]] void refuse_tag(const Graph& graph, const Filter& filter, const std::string& tag) {
  std::vector<char> used(graph.tag_set_count(), 0);
  graph.for_each_node([&](NodeId node) { used[graph[node].tags.index()] = 1; });
  std::vector<std::string> known;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i])
      for (const Tag& t : graph[TagSetId(i)].tags)
        if (std::find(known.begin(), known.end(), graph[t.name]) == known.end()) known.push_back(graph[t.name]);
  std::sort(known.begin(), known.end());
  throw Error("the filter " + to_string(filter) + " names the tag " + tag +
              ", which no node has; tags: " + (known.empty() ? "none" : nearest_first(tag, known)));
}

}  // namespace

Filter parse_filter(const JsonView& json) {
  Filter filter;
  for (const std::string& tag : json.keys()) {
    const JsonView value = json.at(tag);
    if (tag.empty()) json.fail("a tag has no name");
    if (tag == "PASS")
      filter.phases = parse_phases(value);
    else
      filter.terms.push_back(parse_term(tag, value));
  }
  return filter;
}

std::string to_string(const Filter& filter) {
  using Kind = FilterTerm::Kind;
  Json json = Json::object();
  for (const FilterTerm& term : filter.terms) switch (term.kind) {
      case Kind::Integer:
        json[term.tag] = term.low;
        break;
      case Kind::Word:
        json[term.tag] = term.word;
        break;
      case Kind::Any:
        json[term.tag] = "*";
        break;
      case Kind::Range:
        json[term.tag] = std::to_string(term.low) + ".." + std::to_string(term.high);
        break;
      case Kind::None:
        json[term.tag] = nullptr;
        break;
      case Kind::Absent:
        json[term.tag] = false;
        break;
    }
  if (filter.phases)
    for (const Pass& pass : kPasses)
      if (pass.phases == *filter.phases) json["PASS"] = pass.name;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Matcher::Matcher(const Graph& graph, const Filter& filter, UnknownTags unknown)
    : graph_(graph), filter_(filter), phases_(filter.phases.value_or(kAllPhases)) {
  for (const FilterTerm& term : filter.terms) {
    names_.push_back(graph.find_name(term.tag));
    words_.push_back(term.kind == FilterTerm::Kind::Word ? graph.find_name(term.word) : NameId());
    if (!names_.back().valid() && unknown == UnknownTags::Refuse) refuse_tag(graph, filter, term.tag);
  }
}

bool Matcher::matches(const TagSet& tags) const {
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (!holds(filter_.terms[i], words_[i], tags.find(names_[i]))) return false;
  return true;
}

bool Matcher::operator()(NodeId node) {
  const Node& n = graph_[node];
  if ((phases_ & bit(n.phase)) == 0) return false;
  if (names_.empty()) return true;
  if (++asked_ < kTablePays) return matches(graph_[n.tags]);
  if (n.tags.index() >= by_tags_.size()) by_tags_.resize(graph_.tag_set_count(), -1);
  std::int8_t& known = by_tags_[n.tags.index()];
  if (known < 0) known = matches(graph_[n.tags]) ? 1 : 0;
  return known == 1;
}

}  // namespace skirl
