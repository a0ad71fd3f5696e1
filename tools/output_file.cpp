#include "tools/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "ir/error.h"

namespace skirl {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const std::string& path, const std::string& reason) { throw Error("cannot write " + path + ": " + reason); }

/// Where the links at `path` lead, whether something stands there or not.
fs::path followed(const std::string& path) {
  std::error_code failed;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, failed)); ++links) {
    if (links == 40) cannot_write(path, "too many links");
    target = target.parent_path() / fs::read_symlink(target, failed);
    if (failed) cannot_write(path, failed.message());
  }
  return target;
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  std::error_code failed;
  if (path_.empty()) throw Error("cannot write a file without a name");
  const fs::file_status status = fs::status(path_, failed);
  if (fs::is_directory(status)) cannot_write(path_, "it is a folder");
  if (fs::exists(status) && access(path_.c_str(), W_OK) != 0) cannot_write(path_, std::strerror(errno));
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    temporary_ = path_;  // a device or a pipe takes the text as it comes; a file must not take its place
    return;
  }
  target_ = followed(path_);
  temporary_ = target_.string() + ".part" + std::to_string(getpid());
  errno = 0;
  if (!std::ofstream(temporary_).is_open()) cannot_write(path_, std::strerror(errno));
  if (fs::exists(status)) fs::permissions(temporary_, status.permissions(), failed);
}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (!target_.empty()) fs::remove(temporary_, ignored);
}

void OutputFile::write(std::string_view text) {
  errno = 0;
  std::ofstream out(temporary_, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) cannot_write(path_, std::strerror(errno));
  commit();
}

void OutputFile::commit() {
  if (target_.empty()) return;
  std::error_code failed;
  fs::rename(temporary_, target_, failed);
  if (failed) cannot_write(path_, failed.message());
}

}  // namespace skirl
