#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/id.h"
#include "ir/interner.h"

namespace skirl {

struct Axis {
  NameId name;
  std::int64_t size = 1;
  bool operator==(const Axis&) const = default;
};

/// Devices with named axes, in row-major order (the first axis is outermost). Mesh 0 of every graph is the home `@`: one
/// logical device of no cluster, with no axes and no devices.
///
/// A union stacks like meshes (equal axes, no device in two of them) along a new first axis `copy`; `members` lists them.
struct Mesh {
  std::vector<Axis> axes;
  std::vector<DeviceId> devices;
  std::vector<MeshId> members;  // of a union only

  bool operator==(const Mesh&) const = default;
  bool is_home() const { return devices.empty(); }
  bool is_union() const { return !members.empty(); }
  std::int64_t size() const { return is_home() ? 1 : static_cast<std::int64_t>(devices.size()); }

  /// Index of an axis, or −1.
  int axis_index(NameId name) const;
  /// Position of `device` in `devices`, or −1.
  int position(DeviceId device) const;
  /// Coordinate of the device at `position` along axis `axis`.
  std::int64_t coordinate(std::int64_t position, int axis) const;
  /// Positions of the devices that share all coordinates with `position` except along `axis`, in coordinate order.
  std::vector<int> group(std::int64_t position, int axis) const;
};

inline constexpr MeshId kHome{0u};

}  // namespace skirl

template <>
struct std::hash<skirl::Mesh> {
  std::size_t operator()(const skirl::Mesh& mesh) const noexcept {
    std::size_t h = mesh.devices.size();
    for (const skirl::Axis& a : mesh.axes) h = skirl::hash_mix(skirl::hash_mix(h, a.name.index()), static_cast<std::size_t>(a.size));
    for (const skirl::DeviceId d : mesh.devices) h = skirl::hash_mix(h, d);
    for (const skirl::MeshId m : mesh.members) h = skirl::hash_mix(h, m.index());
    return h;
  }
};
