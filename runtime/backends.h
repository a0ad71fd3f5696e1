#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/plan.h"
#include "runtime/step.h"

namespace skirl {

/// An entry of the table of backends, which `skirl list backends` prints and `--backend` chooses from.
struct BackendInfo {
  std::string name;
  std::string help;
  std::string unusable;  // why it cannot be used on this machine; empty: it can
  /// A runner of the plan, which must outlive it.
  std::function<std::unique_ptr<StepRunner>(const Plan& plan, std::uint64_t seed)> make;
};

const std::vector<BackendInfo>& backend_table();
/// Throws Error for an unknown name, with the known ones, and for one that cannot be used here, with the reason.
const BackendInfo& backend_named(std::string_view name);

}  // namespace skirl
