#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"

/// The short form of a strategy: "pp(4, 1f1b, mb=16) + zero(1, dp=2)".
///
///     strategy = item {"+" item}
///     item     = name ["(" arg {"," arg} ")"]
///     arg      = [key "="] (integer | size | word | item)        positional ones first
///
/// A word is letters, digits, '_', '.' and '-' and is no integer or size ("1f1b"); a size is an integer with B, KB, MB, GB (powers of 1000)
/// or KiB, MiB, GiB. An item without parentheses is a word where an argument stands.
namespace skirl {

struct StrategyItem;

struct StrategyArg {
  enum class Kind : std::uint8_t { Integer, Size, Word, Item } kind = Kind::Word;
  std::string key;                 // empty: positional
  std::int64_t number = 0;         // Integer; Size in bytes
  std::string word;                // as written
  std::vector<StrategyItem> item;  // one, for Item
  std::size_t at = 0;              // where it starts in the text
};

struct StrategyItem {
  std::string name;
  std::vector<StrategyArg> args;
  std::size_t at = 0;
};

/// Throws Error whose place repeats the text with a caret under what is wrong.
std::vector<StrategyItem> parse_strategy(std::string_view text);

/// An error about the text at offset `at`: the place is the text with a caret under it.
Error strategy_error(std::string_view text, std::size_t at, const std::string& complaint, const std::string& help = {});

}  // namespace skirl
