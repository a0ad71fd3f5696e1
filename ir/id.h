#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace skirl {

/// An index into one table of a Graph. Ids of different tables do not mix; the default one names nothing.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::uint32_t index) : index_(index) {}
  constexpr explicit Id(std::size_t index) : index_(static_cast<std::uint32_t>(index)) {}
  constexpr explicit Id(int index) : index_(static_cast<std::uint32_t>(index)) {}

  constexpr bool valid() const { return index_ != kNone; }
  constexpr std::uint32_t index() const { return index_; }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  std::uint32_t index_ = kNone;
};

using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;
using UseId = Id<struct UseTag>;          // one operand slot of one node
using OrderEdgeId = Id<struct OrderEdgeTag>;  // one control edge
using NameId = Id<struct NameTag>;        // an interned string
using TypeId = Id<struct TypeTag>;
using LayoutId = Id<struct LayoutTag>;
using MeshId = Id<struct MeshTag>;
using TagSetId = Id<struct TagSetTag>;
using AttrsId = Id<struct AttrsTag>;
using OriginId = Id<struct OriginTag>;
using DeviceId = std::uint32_t;           // a logical device of the cluster, 0…n−1

}  // namespace skirl

template <class Tag>
struct std::hash<skirl::Id<Tag>> {
  std::size_t operator()(skirl::Id<Tag> id) const noexcept { return id.index(); }
};
