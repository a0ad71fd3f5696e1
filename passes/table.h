#pragma once

#include <vector>

#include "passes/pass.h"

namespace skirl {

/// All passes that a directive can name, in the legal order.
std::vector<PassInfo> pass_table();

}  // namespace skirl
