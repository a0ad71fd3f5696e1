#pragma once

#include <cstdint>
#include <vector>

#include "ir/id.h"
#include "ir/interner.h"
#include "ir/mesh.h"
#include "ir/type.h"

namespace skirl {

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // exclusive
  bool operator==(const Interval&) const = default;
  std::int64_t size() const { return end - begin; }
};

/// A cut that is not nested halving: for each coordinate of the axes that cut the dimension (row-major), the sorted
/// intervals that it owns; several or none. All intervals of all coordinates together cover the dimension once.
using IntervalTable = std::vector<std::vector<Interval>>;

/// How one dimension is cut: the mesh axes that cut it, outermost first. Without a table cuts nest: each axis cuts what the one before left,
/// and the first `n mod k` pieces get one element more.
struct Cut {
  std::vector<std::uint8_t> axes;
  IntervalTable table;
  bool operator==(const Cut&) const = default;
  bool empty() const { return axes.empty(); }
};

enum class Reduction : std::uint8_t { Sum, Max };

/// The devices along `axis` hold terms whose sum (maximum) is the value.
struct Partial {
  std::uint8_t axis = 0;
  Reduction reduction = Reduction::Sum;
  bool operator==(const Partial&) const = default;
};

/// How a value lies on its mesh: an axis that neither cuts a dimension nor is Partial holds replicas. Canonical form: no
/// trailing empty cuts, partials sorted by axis. So "Replicate" is `dims` and `partial` empty whatever the rank.
struct Layout {
  MeshId mesh = kHome;
  std::vector<Cut> dims;
  std::vector<Partial> partial;

  bool operator==(const Layout&) const = default;
  bool is_partial() const { return !partial.empty(); }
  bool is_replicate() const { return dims.empty() && partial.empty(); }
  const Cut& cut(std::size_t dim) const;
  /// The dimension that `axis` cuts, or −1.
  int dim_cut_by(std::uint8_t axis) const;
  bool partial_over(std::uint8_t axis) const;
  void canonicalise();
};

/// The layout with `axis` taken out everywhere.
Layout without_axis(Layout layout, std::uint8_t axis);
/// The layout with `axis` as the innermost cut of `dim`.
Layout with_cut(Layout layout, std::size_t dim, std::uint8_t axis);
/// The layout Partial over `axis`.
Layout with_partial(Layout layout, std::uint8_t axis, Reduction reduction = Reduction::Sum);

/// What the device at `position` of the mesh holds of one dimension of `size` elements: sorted intervals (none if it holds no element).
std::vector<Interval> local_intervals(const Mesh& mesh, const Layout& layout, std::size_t dim, std::int64_t size,
                                      std::int64_t position);

/// The shape that the device at `position` holds of a value of this global shape.
Shape local_shape(const Mesh& mesh, const Layout& layout, const Shape& global, std::int64_t position);

/// The first element of the device's piece for each dimension (0 where it holds none); only for layouts without tables of
/// several intervals.
Shape local_offset(const Mesh& mesh, const Layout& layout, const Shape& global, std::int64_t position);

/// Piece `index` of `parts` of [begin, end): the first `n mod parts` pieces get one element more.
Interval piece(Interval whole, std::int64_t parts, std::int64_t index);

}  // namespace skirl

template <>
struct std::hash<skirl::Layout> {
  std::size_t operator()(const skirl::Layout& layout) const noexcept {
    std::size_t h = layout.mesh.index();
    for (const skirl::Cut& cut : layout.dims) {
      h = skirl::hash_mix(h, cut.axes.size() * 7 + cut.table.size());
      for (const std::uint8_t a : cut.axes) h = skirl::hash_mix(h, a);
      for (const auto& owned : cut.table)
        for (const skirl::Interval& i : owned) h = skirl::hash_mix(h, static_cast<std::size_t>(i.begin * 31 + i.end));
    }
    for (const skirl::Partial& p : layout.partial) h = skirl::hash_mix(h, 64u + p.axis);
    return h;
  }
};
