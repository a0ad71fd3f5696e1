#pragma once

#include <string>

namespace skirl {

/// Reads a whole file. Throws Error saying what it was for ("the plan"): also for a pipe or a device, which may have no end.
std::string read_file(const std::string& path, const std::string& what);

}  // namespace skirl
