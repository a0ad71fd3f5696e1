#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "ir/json.h"

namespace skirl {

/// Selects nodes by tags and phase: {"LAYER": 3, "BLOCK": "attn", "EP": "*", "MB": "0..3", "RE": null, "PASS": "B"}. All terms must hold;
/// {} matches every node. A value is an integer (also as a string of digits), a word, "*" (the tag is there), a range "lo..hi" (both ends
/// in) null (the tag is there with no value; for PASS: an update node) or false (the tag is not there). PASS is F, B (BI and BW), BI, BW or
/// U.
struct FilterTerm {
  enum class Kind : std::uint8_t { Integer, Word, Any, Range, None, Absent } kind = Kind::Any;
  std::string tag;
  std::int64_t low = 0;  // the integer, or the range's ends
  std::int64_t high = 0;
  std::string word;
};

struct Filter {
  std::vector<FilterTerm> terms;
  std::optional<std::uint8_t> phases;  // bit i: Phase i; none: all
};

/// Throws Error (located) for a value of the wrong kind or an unknown PASS.
Filter parse_filter(const JsonView& json);
std::string to_string(const Filter& filter);  // as compact JSON

/// What a Matcher does with a tag name that the graph has never seen: refuse it, or match nothing.
enum class UnknownTags : std::uint8_t { Refuse, MatchNothing };

/// A filter over one graph, evaluated once a tag set. Throws Error for a tag name that no node of the graph has, with the known ones.
class Matcher {
 public:
  Matcher(const Graph& graph, const Filter& filter, UnknownTags unknown = UnknownTags::Refuse);
  bool operator()(NodeId node);

 private:
  bool matches(const TagSet& tags) const;

  const Graph& graph_;
  const Filter& filter_;
  std::uint8_t phases_;
  std::vector<NameId> names_;         // of each term
  std::vector<NameId> words_;         // of each term; none where it has no word
  std::vector<std::int8_t> by_tags_;  // −1 unknown yet; made once it pays
  std::size_t asked_ = 0;
};

}  // namespace skirl
