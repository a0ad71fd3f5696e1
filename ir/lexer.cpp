#include "ir/lexer.h"

namespace skirl {
namespace {

constexpr std::size_t kMostExpandedBytes = std::size_t{1} << 30;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_char(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; }
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// A piece of the user's text, short and printable.
std::string printable(std::string_view raw) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < raw.size() && i < 40; ++i) {
    const unsigned char c = static_cast<unsigned char>(raw[i]);
    if (c < 0x20 || c >= 0x7F) {
      text += "\\x";
      text += kHex[c >> 4];
      text += kHex[c & 15];
    } else {
      text += raw[i];
    }
  }
  return raw.size() > 40 ? text + "…" : text;
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string_view file, std::uint32_t first_line) : text_(text), file_(file), line_(first_line) {
  token_.line = first_line;
}

bool Lexer::accept(std::string_view punct) {
  if (!peek().is(punct)) return false;
  ready_ = false;
  return true;
}

bool Lexer::accept_word(std::string_view word) {
  if (!peek().word(word)) return false;
  ready_ = false;
  return true;
}

void Lexer::expect(std::string_view punct, std::string_view why) {
  if (!accept(punct)) fail_expected("'" + std::string(punct) + "' " + std::string(why));
}

Lexer::Mark Lexer::mark() const { return {ready_ ? token_at_ : at_, ready_ ? token_.line : line_}; }

void Lexer::seek(Mark mark) {
  if (mark.at < at_) expanded_bytes_ += at_ - mark.at;
  if (expanded_bytes_ > kMostExpandedBytes) fail("the repeats expand to more than 1 GiB of text");
  at_ = mark.at;
  line_ = mark.line;
  ready_ = false;
}

std::string Lexer::shown(const Token& token) {
  switch (token.kind) {
    case Kind::End:
      return "the end of the text";
    case Kind::Newline:
      return "the end of the line";
    case Kind::String:
      return "\"" + printable(token.text) + "\"";
    case Kind::Value:
      return "'%" + printable(token.text) + "'";
    case Kind::Mesh:
      return "'@" + printable(token.text) + "'";
    case Kind::Label:
      return "'^" + printable(token.text) + "'";
    default:
      return "'" + printable(token.text) + "'";
  }
}

void Lexer::fail(std::string complaint, std::string help) const { throw Error(std::move(complaint), where(), std::move(help)); }

void Lexer::fail_expected(std::string_view expected) { fail("found " + shown(peek()) + ", expected " + std::string(expected)); }

void Lexer::fail_at(std::size_t at, std::string complaint) {
  token_.line = line_;
  at_ = at;
  fail(std::move(complaint));
}

char Lexer::unescaped(std::string_view raw, std::size_t& at, std::uint32_t line) const {
  const char c = at + 1 < raw.size() ? raw[at + 1] : '\0';
  if (c == 'x' && at + 3 < raw.size()) {
    const int high = hex_value(raw[at + 2]);
    const int low = hex_value(raw[at + 3]);
    if (high >= 0 && low >= 0) {
      at += 4;
      return static_cast<char>(high * 16 + low);
    }
  }
  at += 2;
  switch (c) {
    case '"':
    case '\'':
    case '\\':
    case '{':
    case '}':
      return c;
    case 'n':
      return '\n';
    case 't':
      return '\t';
    default:
      break;
  }
  throw Error("unknown escape '\\" + printable(std::string_view(&c, 1)) + "', expected one of \\\" \\' \\\\ \\{ \\} \\n \\t \\xHH",
              where(line));
}

void Lexer::take_quoted(char quote) {
  const std::size_t begin = ++at_;
  while (at_ < text_.size() && text_[at_] != quote) {
    if (static_cast<unsigned char>(text_[at_]) < 0x20)
      fail_at(at_, "a string does not end on its line; it starts with " + printable(text_.substr(begin - 1, at_ - begin + 1)));
    const bool escape = text_[at_] == '\\' && at_ + 1 < text_.size() && static_cast<unsigned char>(text_[at_ + 1]) >= 0x20;
    at_ += escape ? 2 : 1;
  }
  if (at_ >= text_.size()) fail_at(text_.size(), "a string has no end; it starts with " + printable(text_.substr(begin - 1)));
  token_.kind = quote == '"' ? Kind::String : Kind::Quoted;
  token_.text = text_.substr(begin, at_ - begin);
  ++at_;
}

void Lexer::take_number() {
  const std::size_t begin = at_;
  const auto digits = [&] {
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  };
  digits();
  token_.kind = Kind::Int;
  if (at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])) {
    token_.kind = Kind::Float;
    ++at_;
    digits();
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    std::size_t after = at_ + 1;
    if (after < text_.size() && (text_[after] == '+' || text_[after] == '-')) ++after;
    if (after < text_.size() && is_digit(text_[after])) {
      token_.kind = Kind::Float;
      at_ = after;
      digits();
    }
  }
  if (at_ < text_.size() && is_word_char(text_[at_])) {
    while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
    fail_at(at_, "found '" + printable(text_.substr(begin, at_ - begin)) + "', expected a number or a word");
  }
  token_.text = text_.substr(begin, at_ - begin);
}

void Lexer::advance() {
  ready_ = true;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      const std::size_t end = text_.find('\n', at_);
      at_ = end == std::string_view::npos ? text_.size() : end;
    } else if (c == '\n' && open > 0) {
      ++at_;
      ++line_;
    } else {
      break;
    }
  }
  token_.line = line_;
  token_at_ = at_;
  if (at_ >= text_.size()) {
    token_.kind = Kind::End;
    token_.text = {};
    return;
  }
  const char c = text_[at_];
  const std::size_t begin = at_;
  const auto word_from = [&](std::size_t start) {
    at_ = start;
    while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  };
  if (c == '\n') {
    token_.kind = Kind::Newline;
    token_.text = {};
    ++at_;
    ++line_;
  } else if (is_digit(c)) {
    take_number();
  } else if (is_word_char(c)) {
    token_.kind = Kind::Word;
    token_.text = word_from(begin);
  } else if (c == '%' || c == '@' || c == '^') {
    token_.kind = c == '%' ? Kind::Value : c == '@' ? Kind::Mesh : Kind::Label;
    token_.text = word_from(begin + 1);
    if (token_.text.empty() && c != '@') fail_at(at_, std::string("found '") + c + "' alone, expected a name after it");
  } else if (c == '"' || c == '\'') {
    take_quoted(c);
  } else if (c == '.' && at_ + 1 < text_.size() && text_[at_ + 1] == '.') {
    token_.kind = Kind::Punct;
    token_.text = text_.substr(at_, 2);
    at_ += 2;
  } else if (std::string_view("=:,;()[]{}+-*/").find(c) != std::string_view::npos) {
    token_.kind = Kind::Punct;
    token_.text = text_.substr(at_, 1);
    ++at_;
  } else {
    fail_at(at_, "unexpected character '" + printable(text_.substr(at_, 1)) + "'");
  }
}

}  // namespace skirl
