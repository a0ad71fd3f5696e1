#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace skirl {

/// What a user can cause: bad text, an unknown name, a strategy that cannot be applied. Tools print it and exit with 2.
///
/// `what()` is the whole message: the complaint (with got and expected values), then, where given, the lines
/// "  at   PLACE" and "  help NEXT".
class Error : public std::runtime_error {
 public:
  explicit Error(std::string complaint, std::string at = {}, std::string help = {});

  const std::string& complaint() const { return complaint_; }
  const std::string& at() const { return at_; }
  const std::string& help() const { return help_; }

  /// The same error with a place put in front of the one it has ("strategy.json /directives/2").
  Error located(std::string_view place) const;

 private:
  std::string complaint_;
  std::string at_;
  std::string help_;
};

/// What went wrong while a plan was running (a deadlock, a kernel, a lost rank). Tools print it and exit with 3.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// `known` with the closest spelling to `got` first, as "a, b, c"; at most `most` of them.
std::string nearest_first(std::string_view got, std::vector<std::string> known, std::size_t most = 12);

[[noreturn]] void check_failed(const char* condition, std::string_view why, const char* file, int line);

}  // namespace skirl

/// For our own faults only; nothing that a user types may reach one.
#define SKIRL_CHECK(condition, why) \
  ((condition) ? static_cast<void>(0) : ::skirl::check_failed(#condition, (why), __FILE__, __LINE__))
