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
  if (command == "show") return options.schedule.name.empty() ? cmd_show(options, console) : cmd_show_schedule(options, console);
  return cmd_list(options, console);
}

int run_program(int argc, char** argv) {
  const std::optional<Options> options = parse_command_line(argc, argv);
  const int status = options ? run_command(*options) : 0;
  if (!std::cout.flush()) throw Error("cannot write standard output");
  return status;
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
    return skirl::run_program(argc, argv);
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
