#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/graph.h"

/// What printing and parsing the text form share.
namespace skirl {

/// Appends a number in the fewest digits that read back as the same number.
template <class Number>
void append_number(std::string& text, Number number) {
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, number);
  text.append(digits, end.ptr);
}

/// Appends `raw` between quotes, with escapes for the quote, `\`, `{` and control characters.
void append_quoted(std::string& text, std::string_view raw, char quote = '"');

/// A letter or _, then letters, digits and _.
bool is_word(std::string_view text);
/// Words that mean something where tags stand; a tag of such a name is quoted.
bool is_reserved(std::string_view word);

/// Role and phase that the text leaves out.
Role default_role(Op op, Phase phase, const Shape& shape, std::size_t result);
Phase default_phase(Op op);

}  // namespace skirl
