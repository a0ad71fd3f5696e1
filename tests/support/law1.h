#pragma once

#include <optional>
#include <string>

#include "passes/differentiate.h"
#include "strategies/registry.h"

namespace skirl::test {

/// A model as text and what is done to it: one case of law 1.
struct Case {
  std::string model;     // text form
  std::string strategy;  // short form
  OptimizerParams optimizer;
  int steps = 3;
  bool verify = true;  // after each pass; without it only the values tell
};

/// Runs law 1: the one-device step against the graph after every pass, and against the lowered plan on the cpu backend. The worst deviation
/// goes to `worst`. Empty if all is well, else what went wrong, in words.
std::string broken(const Case& c, const Registry& registry, double& worst);

}  // namespace skirl::test
