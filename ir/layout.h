#pragma once

#include <cstdint>
#include <span>
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

/// How one dimension is cut: the mesh axes that cut it, outermost first. Without a table cuts nest: each axis cuts what the one before
/// left, and the first `n mod k` pieces get one element more. Canonical: no table that says the same, no two intervals of an owner that
/// touch.
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

/// How one axis cuts a dimension. A nested cut of even pieces is the default.
struct CutStyle {
  std::int64_t unit = 1;   // pieces begin at multiples of it (heads of a dimension of heads × width)
  std::int64_t block = 0;  // not 0: the dimension is a row of blocks of so many elements and each block is cut (a factor that stands
                           // within another: query heads of each group of keys)
  IntervalTable pieces;    // not empty: what each coordinate owns, the same on all meshes of that degree (zigzag halves)
  bool operator==(const CutStyle&) const = default;
};

/// The layout with `axis` as the innermost cut of `dim`, a dimension of `size` elements of the whole value: what each owner held (its
/// intervals side by side) is cut in even pieces, at multiples of the style's unit, block by block, or meets the style's pieces.
/// Canonical: where the pieces are those of nested cuts there is no table. Pieces may be empty.
Layout with_cut(Layout layout, const Mesh& mesh, std::size_t dim, std::int64_t size, std::uint8_t axis, const CutStyle& style = {});
/// The layout with `axis` as the outermost cut of `dim`. Nested cuts within are made anew in each of its pieces, at multiples of
/// `inner_unit`; a table within stays, and each owner holds what it has in common with the outer piece.
Layout with_outer_cut(Layout layout, const Mesh& mesh, std::size_t dim, std::int64_t size, std::uint8_t axis, const CutStyle& style = {},
                      std::int64_t inner_unit = 1);
/// The layout in which, along `axis`, which cuts `dim`, coordinate c holds what coordinate (c + by) mod n held.
Layout turned(Layout layout, const Mesh& mesh, std::size_t dim, std::int64_t size, std::uint8_t axis, std::int64_t by);
/// The layout with `axis` taken out everywhere. Nested cuts that are left stay nested; of a table, owners along `axis` are merged.
/// Undoes with_cut and with_partial, and with_outer_cut of nested cuts that gave nested cuts; what else is left, held_together says.
Layout without_axis(Layout layout, const Mesh& mesh, std::uint8_t axis);
/// `cut` of a dimension of `size` elements without `axes`: what the devices along them hold together, whatever their place among the
/// others. This is what no change of layout over `axes` alters.
Cut held_together(const Cut& cut, const Mesh& mesh, std::int64_t size, std::span<const std::uint8_t> axes);
/// The cut with its table dropped if it is that of nested cuts, and with intervals of an owner that touch as one.
Cut canonical(Cut cut, const Mesh& mesh, std::int64_t size);
/// What each coordinate of the axes that cut a dimension of `size` elements (row-major) owns.
IntervalTable pieces_of(const Cut& cut, const Mesh& mesh, std::int64_t size);
/// Zigzag, which balances causal work: of 2n pieces coordinate c owns the c-th and the c-th from the end.
IntervalTable zigzag_pieces(std::int64_t size, std::int64_t parts);

/// The layout Partial over `axis`.
Layout with_partial(Layout layout, std::uint8_t axis, Reduction reduction = Reduction::Sum);

/// What the device at `position` of the mesh holds of one dimension of `size` elements: sorted intervals (none if it holds no element).
std::vector<Interval> local_intervals(const Mesh& mesh, const Layout& layout, std::size_t dim, std::int64_t size, std::int64_t position);

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
