#include <csignal>
#include <exception>
#include <iostream>
#include <new>

#include "ir/error.h"
#include "tools/commands.h"

namespace skirl {
namespace {

int run_command(const Options& options) {
  Console console(options.json);
  const std::string& command = options.command;
  if (command == "run") return cmd_run(options, console);
  if (command == "check") return cmd_check(options, console);
  if (command == "dot") return cmd_dot(options, console);
  if (command == "plan") return cmd_plan(options, console);
  if (command == "show") return cmd_show(options, console);
  return cmd_list(options, console);
}

int fail(int status, const std::string& message) {
  std::cout << std::flush;
  std::cerr << "skirl: " << message << "\n";
  return status;
}

}  // namespace
}  // namespace skirl

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);
  try {
    const std::optional<skirl::Options> options = skirl::parse_command_line(argc, argv);
    return options ? skirl::run_command(*options) : 0;
  } catch (const skirl::Error& error) {
    return skirl::fail(2, error.what());
  } catch (const skirl::RunError& error) {
    return skirl::fail(3, error.what());
  } catch (const std::bad_alloc&) {
    return skirl::fail(3, "out of memory");
  } catch (const std::exception& error) {
    return skirl::fail(3, error.what());
  }
}
