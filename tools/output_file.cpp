#include "tools/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ir/error.h"

namespace skirl {
namespace {

[[noreturn]] void cannot_write(const std::string& path, const std::string& reason) { throw Error("cannot write " + path + ": " + reason); }

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".part" + std::to_string(getpid())) {
  std::error_code failed;
  if (path_.empty()) throw Error("cannot write a file without a name");
  if (std::filesystem::is_directory(path_, failed)) cannot_write(path_, "it is a folder");
  errno = 0;
  if (!std::ofstream(temporary_).is_open()) cannot_write(path_, std::strerror(errno));
}

OutputFile::~OutputFile() {
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
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
  std::error_code failed;
  std::filesystem::rename(temporary_, path_, failed);
  if (failed) cannot_write(path_, failed.message());
}

}  // namespace skirl
