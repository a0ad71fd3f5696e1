#include "tools/console.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace skirl {
namespace {

bool is_flat(const Json& value) {
  for (const Json& item : value)
    if (item.is_structured() && !item.empty()) return false;
  return true;
}

void append(const Json& value, std::size_t indent, std::string& text) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.17g", number);
    text += std::isfinite(number) ? digits : "null";
    return;
  }
  if (!value.is_structured() || value.empty()) {
    text += value.dump();
    return;
  }
  const bool flat = is_flat(value);  // a step, a filter: one line
  const std::string between = flat ? " " : "\n" + std::string(indent + 2, ' ');
  text += value.is_object() ? '{' : '[';
  bool first = true;
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (!first) text += ',';
    if (!first || !flat) text += between;
    first = false;
    if (value.is_object()) text += Json(it.key()).dump() + ": ";
    append(*it, indent + 2, text);
  }
  if (!flat) text += "\n" + std::string(indent, ' ');
  text += value.is_object() ? '}' : ']';
}

}  // namespace

std::string json_text(const Json& document) {
  std::string text;
  append(document, 0, text);
  return text + "\n";
}

Console::Console(const std::string& json) : json_to_standard_output_(json == "-"), terminal_(isatty(STDERR_FILENO) != 0) {
  if (!json.empty() && !json_to_standard_output_) json_file_ = std::make_unique<OutputFile>(json);
}

std::ostream& Console::text() {
  if (showing_progress_) std::cerr << "\r\x1b[K" << std::flush;
  showing_progress_ = false;
  return json_to_standard_output_ ? std::cerr : std::cout;
}

std::ostream& Console::notes() {
  text();
  return std::cerr;
}

void Console::progress(const std::string& line) {
  if (!terminal_) return;
  std::cerr << "\r\x1b[K" << line << std::flush;
  showing_progress_ = true;
}

void Console::write_json(const Json& document) {
  if (json_to_standard_output_) std::cout << json_text(document) << std::flush;
  if (json_file_) json_file_->write(json_text(document));
}

}  // namespace skirl
