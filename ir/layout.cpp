#include "ir/layout.h"

#include <algorithm>

namespace skirl {

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

Layout without_axis(Layout layout, std::uint8_t axis) {
  for (Cut& cut : layout.dims) std::erase(cut.axes, axis);
  std::erase_if(layout.partial, [&](const Partial& p) { return p.axis == axis; });
  layout.canonicalise();
  return layout;
}

Layout with_cut(Layout layout, std::size_t dim, std::uint8_t axis) {
  if (layout.dims.size() <= dim) layout.dims.resize(dim + 1);
  layout.dims[dim].axes.push_back(axis);
  layout.canonicalise();
  return layout;
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

std::vector<Interval> local_intervals(const Mesh& mesh, const Layout& layout, std::size_t dim, std::int64_t size,
                                      std::int64_t position) {
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
