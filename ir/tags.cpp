#include "ir/tags.h"

#include <algorithm>

namespace skirl {

const TagValue* TagSet::find(NameId name) const {
  for (const Tag& tag : tags)
    if (tag.name == name) return &tag.value;
  return nullptr;
}

TagSet with_tag(TagSet set, Tag tag) {
  const auto at = std::lower_bound(set.tags.begin(), set.tags.end(), tag,
                                   [](const Tag& a, const Tag& b) { return a.name < b.name; });
  if (at != set.tags.end() && at->name == tag.name)
    at->value = tag.value;
  else
    set.tags.insert(at, tag);
  return set;
}

TagSet without_tag(TagSet set, NameId name) {
  std::erase_if(set.tags, [&](const Tag& tag) { return tag.name == name; });
  return set;
}

TagSet common_tags(const TagSet& a, const TagSet& b) {
  TagSet both;
  for (const Tag& tag : a.tags)
    if (const TagValue* other = b.find(tag.name); other != nullptr && *other == tag.value) both.tags.push_back(tag);
  return both;
}

}  // namespace skirl
