#include "runtime/replicas.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace skirl {

TensorView read_only(const Tensor& tensor) { return {tensor.type().dtype, tensor.type().shape, const_cast<std::byte*>(tensor.data())}; }

bool has_replicas(const Mesh& mesh, const Layout& layout) {
  for (std::uint8_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (mesh.axes[axis].size > 1 && layout.dim_cut_by(axis) < 0 && !layout.partial_over(axis)) return true;
  return false;
}

double replica_difference(std::span<const TensorView> locals, const Mesh& mesh, const Layout& layout, const Tensor& global) {
  double largest = 0;
  for (std::size_t p = 0; p < locals.size(); ++p) {
    const TensorView& local = locals[p];
    if (global.elems() == 0 || (layout.dims.empty() && std::memcmp(global.data(), local.data, global.size_bytes()) == 0)) continue;
    const Tensor expected = piece_of(read_only(global), mesh, layout, static_cast<std::int64_t>(p));
    if (expected.size_bytes() == 0 || std::memcmp(expected.data(), local.data, expected.size_bytes()) == 0) continue;
    for (std::int64_t i = 0; i < expected.elems(); ++i) {
      const double difference = std::abs(expected.get(i) - load_element(local.dtype, local.data, i));
      largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(largest, difference);
    }
  }
  return largest;
}

double relative_deviation(const std::map<std::string, double>& differences, const TensorMap& outputs) {
  double deviation = 0;
  for (const auto& [role, difference] : differences) {
    if (difference == 0) continue;
    double magnitude = 0;
    for (const auto& [key, tensor] : outputs)
      for (std::int64_t i = 0; output_role(key) == role && i < tensor.elems(); ++i)
        magnitude = std::max(magnitude, std::abs(tensor.get(i)));
    deviation = std::max(deviation, difference / magnitude);
  }
  return deviation;
}

}  // namespace skirl
