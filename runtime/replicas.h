#pragma once

#include <map>
#include <span>
#include <string>

#include "runtime/step.h"
#include "runtime/tiles.h"

namespace skirl {

/// Views have no constness; nobody writes through this one.
TensorView read_only(const Tensor& tensor);

/// Whether the layout keeps some element on several devices.
bool has_replicas(const Mesh& mesh, const Layout& layout);

/// Largest difference of any local tensor (one a position) from the piece of the global one that it should be; infinite where one is not a
/// number.
double replica_difference(std::span<const TensorView> locals, const Mesh& mesh, const Layout& layout, const Tensor& global);

/// The largest of these differences (by role), each relative to the largest magnitude of its role among the outputs.
double relative_deviation(const std::map<std::string, double>& differences, const TensorMap& outputs);

}  // namespace skirl
