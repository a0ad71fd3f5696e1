#pragma once

#include <sys/wait.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

/// A folder of a test's own, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "skirl-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
    return *this / name;
  }

 private:
  std::string path_;
};

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// What a command line did.
struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

/// Runs a line of shell.
inline Outcome run_command(const std::string& line) {
  const TemporaryFolder folder;
  const int status = std::system(("{ " + line + "\n} >" + (folder / "out") + " 2>" + (folder / "err")).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, contents(folder / "out"), contents(folder / "err")};
}

/// Runs the command line program as a user does.
inline Outcome cli(const std::string& arguments) { return run_command(SKIRL_CLI " " + arguments); }
