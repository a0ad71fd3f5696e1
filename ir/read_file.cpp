#include "ir/read_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ir/error.h"

namespace skirl {

std::string read_file(const std::string& path, const std::string& what) {
  const auto fail = [&](const std::string& reason) { throw Error("cannot read " + what + " " + path + ": " + reason); };
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (std::filesystem::is_directory(status)) fail(std::strerror(EISDIR));
  // Asked before it is opened: a pipe would wait for a writer.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) fail("it is not a regular file");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open()) fail(std::strerror(errno));
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) fail(std::strerror(errno));
  return text;
}

}  // namespace skirl
