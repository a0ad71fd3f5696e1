#include "ir/text_parts.h"

#include <algorithm>
#include <array>

namespace skirl {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

}  // namespace

void append_quoted(std::string& text, std::string_view raw, char quote) {
  constexpr std::string_view kHex = "0123456789abcdef";
  text += quote;
  for (const char c : raw) {
    if (c == quote || c == '\\' || c == '{') {
      text += '\\';
      text += c;
    } else if (is_control(c)) {
      text += "\\x";
      text += kHex[static_cast<unsigned char>(c) >> 4];
      text += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      text += c;
    }
  }
  text += quote;
}

bool is_word(std::string_view text) {
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

bool is_reserved(std::string_view word) {
  constexpr std::array<std::string_view, 11> kReserved{"F",    "BI",     "BW",    "U",       "mesh",  "stream",
                                                       "role", "origin", "after", "partial", "ignore"};
  return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
}

Role default_role(Op op, Phase phase, const Shape& shape, std::size_t result) {
  switch (op) {
    case Op::Input:
      return Role::Input;
    case Op::Param:
      return Role::Param;
    case Op::State:
      return Role::State;
    case Op::Sgd:
    case Op::AdamW:
      return result == 0 ? Role::Param : Role::State;
    default:
      break;
  }
  if (phase == Phase::BI) return Role::ActGradient;
  if (phase == Phase::BW) return Role::Gradient;
  return shape.empty() ? Role::Scalar : Role::Activation;
}

Phase default_phase(Op op) {
  const bool updates = op == Op::Output || op == Op::SumSq || op == Op::ClipCoef || op == Op::Sgd || op == Op::AdamW;
  return updates ? Phase::U : Phase::F;
}

}  // namespace skirl
