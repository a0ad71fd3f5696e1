#include "ir/mesh.h"

#include <algorithm>

namespace skirl {
namespace {

std::int64_t stride(const Mesh& mesh, int axis) {
  std::int64_t s = 1;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < mesh.axes.size(); ++i) s *= mesh.axes[i].size;
  return s;
}

}  // namespace

int Mesh::axis_index(NameId name) const {
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name) return static_cast<int>(i);
  return -1;
}

int Mesh::position(DeviceId device) const {
  const auto it = std::find(devices.begin(), devices.end(), device);
  return it == devices.end() ? -1 : static_cast<int>(it - devices.begin());
}

std::int64_t Mesh::coordinate(std::int64_t position, int axis) const {
  return position / stride(*this, axis) % axes[static_cast<std::size_t>(axis)].size;
}

std::vector<int> Mesh::group(std::int64_t position, int axis) const {
  const std::int64_t step = stride(*this, axis);
  const std::int64_t first = position - coordinate(position, axis) * step;
  std::vector<int> members;
  for (std::int64_t i = 0; i < axes[static_cast<std::size_t>(axis)].size; ++i)
    members.push_back(static_cast<int>(first + i * step));
  return members;
}

}  // namespace skirl
