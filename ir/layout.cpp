#include "ir/layout.h"

#include <algorithm>
#include <numeric>

#include "ir/error.h"

namespace skirl {
namespace {

using Owned = std::vector<Interval>;  // sorted

std::int64_t elements(const Owned& own) {
  return std::accumulate(own.begin(), own.end(), std::int64_t{0}, [](std::int64_t n, const Interval& i) { return n + i.size(); });
}

/// Adds an interval behind the others, to the last one if it touches that.
void append(Owned& own, Interval interval) {
  if (interval.size() == 0) return;
  if (!own.empty() && own.back().end == interval.begin)
    own.back().end = interval.end;
  else
    own.push_back(interval);
}

void merge_touching(Owned& own) {
  std::sort(own.begin(), own.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Owned merged;
  for (const Interval& interval : own) append(merged, interval);
  own = std::move(merged);
}

Owned whole_of(std::int64_t size) {
  Owned own;
  append(own, {0, size});
  return own;
}

/// Elements `part` of those that are owned, counted through all intervals.
Owned counted(const Owned& own, Interval part) {
  Owned found;
  std::int64_t before = 0;
  for (const Interval& i : own) {
    const std::int64_t shift = i.begin - before;
    const Interval both{std::max(part.begin, before) + shift, std::min(part.end, before + i.size()) + shift};
    if (both.begin < both.end) append(found, both);
    before += i.size();
  }
  return found;
}

Owned common(const Owned& a, const Owned& b) {
  Owned both;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Interval overlap{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (overlap.begin < overlap.end) append(both, overlap);
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return both;
}

/// Piece `index` of `parts` of what is owned, in whole units.
Owned even_piece(const Owned& own, std::int64_t parts, std::int64_t index, std::int64_t unit) {
  const std::int64_t size = elements(own);
  const Interval units = piece({0, (size + unit - 1) / unit}, parts, index);
  return counted(own, {units.begin * unit, std::min(size, units.end * unit)});
}

bool is_nested(const CutStyle& style) { return style.unit == 1 && style.block == 0 && style.pieces.empty(); }

/// Each owner's elements cut in `parts`: the table of one axis more, innermost.
IntervalTable cut_in(const IntervalTable& table, std::int64_t size, std::int64_t parts, const CutStyle& style) {
  SKIRL_CHECK(style.pieces.empty() || static_cast<std::int64_t>(style.pieces.size()) == parts, "as many pieces as the axis has devices");
  IntervalTable cut;
  for (const Owned& own : table)
    for (std::int64_t p = 0; p < parts; ++p) {
      if (!style.pieces.empty()) {
        cut.push_back(common(own, style.pieces[static_cast<std::size_t>(p)]));
      } else if (style.block == 0) {
        cut.push_back(even_piece(own, parts, p, style.unit));
      } else {
        cut.emplace_back();
        for (std::int64_t begin = 0; begin < size; begin += style.block)
          for (const Interval& i : even_piece(common(own, {{begin, std::min(size, begin + style.block)}}), parts, p, style.unit))
            append(cut.back(), i);
      }
    }
  return cut;
}

/// How far apart in the cut's table owners are that are neighbours along `axis`.
std::int64_t stride_of(const Cut& cut, const Mesh& mesh, std::uint8_t axis) {
  std::int64_t stride = 1;
  for (auto it = cut.axes.rbegin(); *it != axis; ++it) stride *= mesh.axes[*it].size;
  return stride;
}

/// Takes an axis out of a cut with a table: owners that differ along it alone become one.
void take_out(Cut& cut, const Mesh& mesh, std::uint8_t axis) {
  const std::int64_t stride = stride_of(cut, mesh, axis);
  const std::int64_t parts = mesh.axes[axis].size;
  IntervalTable merged(cut.table.size() / static_cast<std::size_t>(parts));
  for (std::int64_t owner = 0; owner < static_cast<std::int64_t>(cut.table.size()); ++owner) {
    const Owned& own = cut.table[static_cast<std::size_t>(owner)];
    Owned& into = merged[static_cast<std::size_t>(owner / (stride * parts) * stride + owner % stride)];
    into.insert(into.end(), own.begin(), own.end());
  }
  for (Owned& own : merged) merge_touching(own);
  cut.table = std::move(merged);
  std::erase(cut.axes, axis);
}

}  // namespace

const Cut& Layout::cut(std::size_t dim) const {
  static const Cut kUncut;
  return dim < dims.size() ? dims[dim] : kUncut;
}

int Layout::dim_cut_by(std::uint8_t axis) const {
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (std::find(dims[d].axes.begin(), dims[d].axes.end(), axis) != dims[d].axes.end()) return static_cast<int>(d);
  return -1;
}

bool Layout::partial_over(std::uint8_t axis) const {
  return std::any_of(partial.begin(), partial.end(), [&](const Partial& p) { return p.axis == axis; });
}

void Layout::canonicalise() {
  while (!dims.empty() && dims.back().empty()) dims.pop_back();
  std::sort(partial.begin(), partial.end(), [](const Partial& a, const Partial& b) { return a.axis < b.axis; });
}

IntervalTable pieces_of(const Cut& cut, const Mesh& mesh, std::int64_t size) {
  if (!cut.table.empty()) return cut.table;
  IntervalTable table{whole_of(size)};
  for (const std::uint8_t axis : cut.axes) table = cut_in(table, size, mesh.axes[axis].size, {});
  return table;
}

Cut canonical(Cut cut, const Mesh& mesh, std::int64_t size) {
  for (std::vector<Interval>& own : cut.table) merge_touching(own);
  if (cut.table.empty() || cut.table == pieces_of({cut.axes, {}}, mesh, size)) cut.table.clear();
  return cut;
}

Layout with_cut(Layout layout, const Mesh& mesh, std::size_t dim, std::int64_t size, std::uint8_t axis, const CutStyle& style) {
  if (layout.dims.size() <= dim) layout.dims.resize(dim + 1);
  Cut& cut = layout.dims[dim];
  if (!is_nested(style) || !cut.table.empty()) {
    cut.table = cut_in(pieces_of(cut, mesh, size), size, mesh.axes[axis].size, style);
    cut.axes.push_back(axis);
    cut = canonical(std::move(cut), mesh, size);
  } else {
    cut.axes.push_back(axis);
  }
  return layout;
}

Layout with_outer_cut(Layout layout, const Mesh& mesh, std::size_t dim, std::int64_t size, std::uint8_t axis, const CutStyle& style,
                      std::int64_t inner_unit) {
  if (layout.dims.size() <= dim) layout.dims.resize(dim + 1);
  Cut& cut = layout.dims[dim];
  if (!is_nested(style) || !cut.table.empty() || inner_unit > 1) {
    IntervalTable table = cut_in({whole_of(size)}, size, mesh.axes[axis].size, style);
    if (cut.table.empty()) {
      for (const std::uint8_t inner : cut.axes) table = cut_in(table, size, mesh.axes[inner].size, {inner_unit, 0, {}});
    } else {
      IntervalTable both;
      for (const std::vector<Interval>& outer : table)
        for (const std::vector<Interval>& own : cut.table) both.push_back(common(outer, own));
      table = std::move(both);
    }
    cut.table = std::move(table);
    cut.axes.insert(cut.axes.begin(), axis);
    cut = canonical(std::move(cut), mesh, size);
  } else {
    cut.axes.insert(cut.axes.begin(), axis);
  }
  return layout;
}

Layout turned(Layout layout, const Mesh& mesh, std::size_t dim, std::int64_t size, std::uint8_t axis, std::int64_t by) {
  SKIRL_CHECK(layout.dim_cut_by(axis) == static_cast<int>(dim), "a cut is turned along an axis that does not cut the dimension");
  Cut& cut = layout.dims[dim];
  const std::int64_t parts = mesh.axes[axis].size;
  const std::int64_t stride = stride_of(cut, mesh, axis);
  const IntervalTable before = pieces_of(cut, mesh, size);
  cut.table = before;
  for (std::int64_t owner = 0; owner < static_cast<std::int64_t>(before.size()); ++owner) {
    const std::int64_t coordinate = owner / stride % parts;
    const std::int64_t source = ((coordinate + by) % parts + parts) % parts;
    cut.table[static_cast<std::size_t>(owner)] = before[static_cast<std::size_t>(owner + (source - coordinate) * stride)];
  }
  cut = canonical(std::move(cut), mesh, size);
  return layout;
}

Cut held_together(const Cut& cut, const Mesh& mesh, std::int64_t size, std::span<const std::uint8_t> axes) {
  const auto goes = [&](std::uint8_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  Cut left = cut;
  std::erase_if(left.axes, goes);
  if (left.axes.size() == cut.axes.size()) return cut;
  if (cut.table.empty() && std::equal(left.axes.begin(), left.axes.end(), cut.axes.begin())) return left;  // what is left stays nested
  left = {cut.axes, pieces_of(cut, mesh, size)};
  for (const std::uint8_t axis : cut.axes)
    if (goes(axis)) take_out(left, mesh, axis);
  return canonical(std::move(left), mesh, size);
}

Layout without_axis(Layout layout, const Mesh& mesh, std::uint8_t axis) {
  for (Cut& cut : layout.dims) {
    if (std::find(cut.axes.begin(), cut.axes.end(), axis) == cut.axes.end()) continue;
    if (cut.table.empty()) {
      std::erase(cut.axes, axis);
    } else {
      std::int64_t size = 0;
      for (const std::vector<Interval>& own : cut.table)
        if (!own.empty()) size = std::max(size, own.back().end);
      take_out(cut, mesh, axis);
      cut = canonical(std::move(cut), mesh, size);
    }
  }
  std::erase_if(layout.partial, [&](const Partial& p) { return p.axis == axis; });
  layout.canonicalise();
  return layout;
}

IntervalTable zigzag_pieces(std::int64_t size, std::int64_t parts) {
  IntervalTable table(static_cast<std::size_t>(parts));
  for (std::int64_t half = 0; half < 2 * parts; ++half)
    append(table[static_cast<std::size_t>(std::min(half, 2 * parts - 1 - half))], piece({0, size}, 2 * parts, half));
  return table;
}

Layout with_partial(Layout layout, std::uint8_t axis, Reduction reduction) {
  layout.partial.push_back({axis, reduction});
  layout.canonicalise();
  return layout;
}

Interval piece(Interval whole, std::int64_t parts, std::int64_t index) {
  const std::int64_t each = whole.size() / parts;
  const std::int64_t longer = whole.size() % parts;
  const std::int64_t begin = whole.begin + index * each + std::min(index, longer);
  return {begin, begin + each + (index < longer ? 1 : 0)};
}

std::vector<Interval> local_intervals(const Mesh& mesh, const Layout& layout, std::size_t dim, std::int64_t size, std::int64_t position) {
  const Cut& cut = layout.cut(dim);
  if (!cut.table.empty()) {
    std::int64_t coordinate = 0;
    for (const std::uint8_t axis : cut.axes) coordinate = coordinate * mesh.axes[axis].size + mesh.coordinate(position, axis);
    return cut.table[static_cast<std::size_t>(coordinate)];
  }
  Interval own{0, size};
  for (const std::uint8_t axis : cut.axes) own = piece(own, mesh.axes[axis].size, mesh.coordinate(position, axis));
  if (own.size() == 0) return {};
  return {own};
}

Shape local_shape(const Mesh& mesh, const Layout& layout, const Shape& global, std::int64_t position) {
  Shape local = global;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    if (layout.dims[d].empty()) continue;
    local[d] = 0;
    for (const Interval& i : local_intervals(mesh, layout, d, global[d], position)) local[d] += i.size();
  }
  return local;
}

Shape local_offset(const Mesh& mesh, const Layout& layout, const Shape& global, std::int64_t position) {
  Shape offset(global.size(), 0);
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    if (layout.dims[d].empty()) continue;
    const std::vector<Interval> own = local_intervals(mesh, layout, d, global[d], position);
    if (!own.empty()) offset[d] = own.front().begin;
  }
  return offset;
}

}  // namespace skirl
