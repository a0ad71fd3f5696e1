#include <algorithm>

#include "ir/verifier.h"

namespace skirl {
namespace {

std::string axis_text(const Graph& g, const Mesh& mesh, std::uint8_t axis) { return "'" + g[mesh.axes[axis].name] + "'"; }

/// Why an interval table does not cover a dimension of `size` once; empty if it does.
std::string table_fault(const Mesh& mesh, const Cut& cut, std::int64_t size) {
  std::int64_t owners = 1;
  for (const std::uint8_t axis : cut.axes) owners *= mesh.axes[axis].size;
  if (static_cast<std::int64_t>(cut.table.size()) != owners)
    return "a table of " + std::to_string(cut.table.size()) + " owners, expected " + std::to_string(owners);
  std::vector<Interval> all;
  for (const std::vector<Interval>& own : cut.table) {
    for (std::size_t i = 1; i < own.size(); ++i) {
      if (own[i].begin < own[i - 1].end) return "a table whose intervals are not sorted";
      if (own[i].begin == own[i - 1].end)
        return "a table with two intervals that touch at " + std::to_string(own[i].begin) + ", expected one";
    }
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::int64_t covered = 0;
  for (const Interval& interval : all) {
    if (interval.begin != covered || interval.end <= interval.begin)
      return "a table that does not cover element " + std::to_string(std::min(covered, interval.begin)) + " once";
    covered = interval.end;
  }
  return covered == size ? "" : "a table that covers " + std::to_string(covered) + " of " + std::to_string(size) + " elements";
}

}  // namespace

std::vector<Complaint> layout_complaints(const Graph& g, const Layout& layout, const Shape& shape) {
  std::vector<Complaint> complaints;
  const auto wrong = [&](std::string text) { complaints.push_back({4, std::move(text)}); };
  const Mesh& mesh = g[layout.mesh];
  std::vector<int> used(mesh.axes.size(), 0);
  const auto use = [&](std::uint8_t axis) {
    if (axis >= mesh.axes.size())
      wrong("has axis number " + std::to_string(axis) + " on a mesh of " + std::to_string(mesh.axes.size()) + " axes");
    else if (++used[axis] == 2)
      wrong("has axis " + axis_text(g, mesh, axis) + " twice");
  };
  if (layout.dims.size() > shape.size())
    wrong("has a layout of " + std::to_string(layout.dims.size()) + " dimensions for a tensor of " + std::to_string(shape.size()));
  for (const Cut& cut : layout.dims)
    for (const std::uint8_t axis : cut.axes) use(axis);
  for (const Partial& partial : layout.partial) use(partial.axis);
  if (!complaints.empty()) return complaints;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    const Cut& cut = layout.dims[d];
    if (cut.table.empty()) continue;
    if (const std::string fault = table_fault(mesh, cut, shape[d]); !fault.empty())
      wrong("is cut in dimension " + std::to_string(d) + " by " + fault);
    else if (canonical(cut, mesh, shape[d]).table.empty())
      wrong("is cut in dimension " + std::to_string(d) + " by a table that is the nested cut, expected none");
  }
  Layout canonical = layout;
  canonical.canonicalise();
  if (!(canonical == layout)) wrong("has a layout that is not in canonical form");
  return complaints;
}

}  // namespace skirl
