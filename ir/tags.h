#pragma once

#include <cstdint>
#include <vector>

#include "ir/id.h"
#include "ir/interner.h"

namespace skirl {

/// The value of a tag: an integer (LAYER=3), an interned word (BLOCK=attn), or none (RE).
struct TagValue {
  enum class Kind : std::uint8_t { None, Integer, Word } kind = Kind::None;
  std::int64_t number = 0;  // the integer, or the NameId of the word
  bool operator==(const TagValue&) const = default;

  static TagValue integer(std::int64_t value) { return {Kind::Integer, value}; }
  static TagValue word(NameId name) { return {Kind::Word, name.index()}; }
};

struct Tag {
  NameId name;
  TagValue value;
  bool operator==(const Tag&) const = default;
};

/// Tags of a node, sorted by the id of their name; each name once. Set 0 of every graph is the empty one.
struct TagSet {
  std::vector<Tag> tags;
  bool operator==(const TagSet&) const = default;
  const TagValue* find(NameId name) const;
};

/// `set` with `tag` added or its value replaced.
TagSet with_tag(TagSet set, Tag tag);
/// `set` without the tag of that name.
TagSet without_tag(TagSet set, NameId name);
/// The tags that both sets hold with equal values.
TagSet common_tags(const TagSet& a, const TagSet& b);

}  // namespace skirl

template <>
struct std::hash<skirl::TagSet> {
  std::size_t operator()(const skirl::TagSet& set) const noexcept {
    std::size_t h = set.tags.size();
    for (const skirl::Tag& t : set.tags)
      h = skirl::hash_mix(skirl::hash_mix(h, t.name.index()), static_cast<std::size_t>(t.value.number) * 3 + static_cast<std::size_t>(t.value.kind));
    return h;
  }
};
