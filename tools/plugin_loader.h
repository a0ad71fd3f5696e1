#pragma once

#include <memory>
#include <string>

#include "strategies/registry.h"

namespace skirl {

/// Loads the shared library at `path` and lets it add its entries to `registry`; they carry the path as their origin. What is given back
/// keeps the library loaded and must outlive the registry and all that came from it.
///
/// Errors    throws Error naming file and reason: no such file, not a loadable library, no symbol `skirl_plugin`, another API number,
///           another ABI, a name that is taken, or whatever the plugin throws while adding.
std::shared_ptr<void> load_plugin(const std::string& path, Registry& registry);

}  // namespace skirl
