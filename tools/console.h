#pragma once

#include <memory>
#include <ostream>
#include <string>

#include "ir/json.h"
#include "tools/output_file.h"

namespace skirl {

/// Where a command prints: text, progress on a terminal, and the same as JSON where it is asked for.
class Console {
 public:
  /// `json`: a file, "-" for standard output (text then goes to standard error), or empty. Throws Error if the file cannot be written.
  explicit Console(const std::string& json);

  std::ostream& text();
  /// Where remarks go while the result itself goes to standard output: standard error.
  std::ostream& notes();
  /// A line that the next output takes the place of; only where a person watches.
  void progress(const std::string& line);
  bool text_goes_to_standard_error() const { return json_to_standard_output_; }
  bool wants_json() const { return json_to_standard_output_ || json_file_ != nullptr; }
  /// Writes the document, once, where --json said.
  void write_json(const Json& document);

 private:
  bool json_to_standard_output_ = false;
  bool terminal_ = false;
  bool showing_progress_ = false;
  std::unique_ptr<OutputFile> json_file_;
};

/// JSON text with numbers of 17 digits (what is not finite becomes null); what holds no further structure stands on one line.
std::string json_text(const Json& document);

}  // namespace skirl
