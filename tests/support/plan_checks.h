#pragma once

#include <string>

#include "ir/plan.h"

namespace skirl {

/// Checks a device's program by what is known to happen before what (streams and waits, not positions): whatever shares bytes with a buffer
/// is done with them before the buffer is written, and every read comes after the write. Empty if all is well, else the first fault.
std::string memory_fault(const Plan& plan, const DeviceProgram& program);
/// The same for all devices.
std::string memory_fault(const Plan& plan);

}  // namespace skirl
