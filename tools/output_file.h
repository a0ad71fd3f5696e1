#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace skirl {

/// A file that is written whole or not at all: text goes to a file beside it, which takes its name and its permissions at the end. A link
/// stays and leads to the new text; a device or a pipe is written straight into.
class OutputFile {
 public:
  /// Throws Error if nothing can be written there.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Where to write before `commit`.
  const std::string& temporary_path() const { return temporary_; }
  /// Puts `text` in the file. Throws Error if it cannot be written.
  void write(std::string_view text);
  /// Gives what stands at temporary_path() its name.
  void commit();

 private:
  std::string path_;
  std::filesystem::path target_;  // path_ without links; empty: written straight into
  std::string temporary_;
};

}  // namespace skirl
