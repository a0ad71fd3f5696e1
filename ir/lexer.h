#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/error.h"

namespace skirl {

/// Cuts the text form into tokens, one ahead. Lines end statements, except while `open` brackets are counted.
class Lexer {
 public:
  enum class Kind : std::uint8_t {
    End,
    Newline,
    Word,    // LAYER, f32
    Int,     // 12
    Float,   // 1e-5
    String,  // "…", `text` is what stands between the quotes, escapes and all
    Quoted,  // '…', likewise
    Value,   // %x, without the %
    Mesh,    // @s0, without the @
    Label,   // ^0, without the ^
    Punct,   // one of = : , ; ( ) [ ] { } + - * / and ..
  };
  struct Token {
    Kind kind = Kind::End;
    std::string_view text;
    std::uint32_t line = 1;
    bool is(std::string_view punct) const { return kind == Kind::Punct && text == punct; }
    bool word(std::string_view w) const { return kind == Kind::Word && text == w; }
  };

  Lexer(std::string_view text, std::string_view file, std::uint32_t first_line);

  const Token& peek() {
    if (!ready_) advance();
    return token_;
  }
  Token take() {
    const Token token = peek();
    ready_ = false;
    return token;
  }
  bool accept(std::string_view punct);
  bool accept_word(std::string_view word);
  void expect(std::string_view punct, std::string_view why);

  /// While positive, newlines are spaces. To be set before the next token is looked at.
  int open = 0;

  /// A place in the text, to read it again from there (after the token taken last).
  struct Mark {
    std::size_t at = 0;
    std::uint32_t line = 1;
  };
  Mark mark() const;
  /// Throws Error when what was read again goes beyond the limit of expansion.
  void seek(Mark mark);

  /// "found '…'" text for messages.
  static std::string shown(const Token& token);
  std::string where() const { return where(token_.line); }
  std::string where(std::uint32_t line) const { return file_ + ":" + std::to_string(line); }
  [[noreturn]] void fail(std::string complaint, std::string help = {}) const;
  [[noreturn]] void fail_expected(std::string_view expected);

  /// The bytes that the text between quotes stands for; `substitute(expression)` is asked for what stands in braces.
  template <class Substitute>
  std::string unquoted(const Token& token, Substitute&& substitute) const;

 private:
  void advance();
  void take_quoted(char quote);
  void take_number();
  [[noreturn]] void fail_at(std::size_t at, std::string complaint);
  char unescaped(std::string_view raw, std::size_t& at, std::uint32_t line) const;

  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0;
  std::uint32_t line_;
  std::size_t expanded_bytes_ = 0;
  Token token_;
  std::size_t token_at_ = 0;  // where the token ahead starts
  bool ready_ = false;
};

template <class Substitute>
std::string Lexer::unquoted(const Token& token, Substitute&& substitute) const {
  std::string bytes;
  const std::string_view raw = token.text;
  for (std::size_t i = 0; i < raw.size();) {
    if (raw[i] == '\\') {
      bytes += unescaped(raw, i, token.line);
    } else if (raw[i] == '{') {
      const std::size_t end = raw.find('}', i);
      if (end == std::string_view::npos)
        throw Error("'{' without '}' in " + shown(token), where(token.line), "write \\{ for a brace that stands for itself");
      bytes += substitute(raw.substr(i + 1, end - i - 1));
      i = end + 1;
    } else {
      bytes += raw[i++];
    }
  }
  return bytes;
}

}  // namespace skirl
