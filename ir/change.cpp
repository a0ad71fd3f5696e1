#include "ir/change.h"

#include <algorithm>
#include <vector>

namespace skirl {
namespace {

/// How a value stands along one axis.
struct Standing {
  enum class Kind : std::uint8_t { Replicate, Cut, Sum, Max } kind = Kind::Replicate;
  int dim = -1;
  bool operator==(const Standing&) const = default;
  bool is_term() const { return kind == Kind::Sum || kind == Kind::Max; }
};

Standing standing(const Layout& layout, std::uint8_t axis) {
  if (const int dim = layout.dim_cut_by(axis); dim >= 0) return {Standing::Kind::Cut, dim};
  for (const Partial& partial : layout.partial)
    if (partial.axis == axis) return {partial.reduction == Reduction::Max ? Standing::Kind::Max : Standing::Kind::Sum, -1};
  return {};
}

std::optional<Op> change_of(Standing before, Standing after) {
  using Kind = Standing::Kind;
  if (before.is_term() && after.kind == Kind::Replicate) return Op::AllReduce;
  if (before.is_term() && after.kind == Kind::Cut) return Op::ReduceScatter;
  if (before.kind == Kind::Cut && after.kind == Kind::Replicate) return Op::AllGather;
  if (before.kind == Kind::Cut && after.kind == Kind::Cut) return Op::AllToAll;
  if (before.kind == Kind::Replicate && after.kind == Kind::Cut) return Op::LocalSlice;
  if (before.kind == Kind::Replicate && after.kind == Kind::Sum) return Op::ZeroRest;
  return std::nullopt;
}

/// The pieces of a cut, owners in the order of the coordinates of `axes`: the same axes as those of the cut.
IntervalTable pieces_along(const Cut& cut, const std::vector<std::uint8_t>& axes, const Mesh& mesh, std::int64_t size) {
  const IntervalTable table = pieces_of(cut, mesh, size);
  if (cut.axes == axes) return table;
  IntervalTable ordered;
  for (std::int64_t owner = 0; owner < static_cast<std::int64_t>(table.size()); ++owner) {
    std::vector<std::int64_t> coordinate(mesh.axes.size(), 0);
    std::int64_t left = owner;
    for (auto it = axes.rbegin(); it != axes.rend(); ++it) {
      coordinate[*it] = left % mesh.axes[*it].size;
      left /= mesh.axes[*it].size;
    }
    std::int64_t place = 0;
    for (const std::uint8_t axis : cut.axes) place = place * mesh.axes[axis].size + coordinate[axis];
    ordered.push_back(table[static_cast<std::size_t>(place)]);
  }
  return ordered;
}

/// Whether the two cuts over the same axes have the same pieces, whoever owns them.
bool same_pieces(const Cut& before, const Cut& after, const Mesh& mesh, std::int64_t size) {
  const auto sorted = [&](const Cut& cut) {
    IntervalTable table = pieces_along(cut, before.axes, mesh, size);
    const auto less = [](const Interval& a, const Interval& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; };
    std::sort(table.begin(), table.end(), [&](const std::vector<Interval>& a, const std::vector<Interval>& b) {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), less);
    });
    return table;
  };
  return sorted(before) == sorted(after);
}

/// The two layouts compared axis by axis and dimension by dimension.
struct Comparison {
  std::vector<std::uint8_t> changed;  // axes that stand otherwise
  std::vector<std::size_t> moved;     // dimensions of which the changed axes together hold something else
};

Comparison compare(const Mesh& mesh, const Layout& from, const Layout& to, const Shape& shape) {
  Comparison found;
  for (std::uint8_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (!(standing(from, axis) == standing(to, axis))) found.changed.push_back(axis);
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (!(held_together(from.cut(d), mesh, shape[d], found.changed) == held_together(to.cut(d), mesh, shape[d], found.changed)))
      found.moved.push_back(d);
  return found;
}

/// The collective of this kind of change, without regard to whether it is one.
std::optional<Op> candidate(const Mesh& mesh, const Layout& from, const Layout& to, const Shape& shape, const Comparison& found) {
  if (!found.changed.empty()) return change_of(standing(from, found.changed.front()), standing(to, found.changed.front()));
  if (found.moved.empty()) return std::nullopt;
  for (const std::size_t d : found.moved)
    if (!same_pieces(from.cut(d), to.cut(d), mesh, shape[d])) return Op::AllToAll;
  return Op::Permute;
}

std::string cut_text(const Graph& graph, MeshId mesh, const Cut& cut) {
  Layout layout{mesh, {cut}, {}};
  layout.canonicalise();
  const std::string text = to_string(graph, layout, 1);
  const std::size_t bracket = text.find('[');
  return bracket == std::string::npos ? "[-]" : text.substr(bracket);
}

}  // namespace

std::optional<std::string> change_fault(const Graph& graph, Op op, const Layout& from, const Layout& to, const Shape& shape) {
  const Mesh& mesh = graph[from.mesh];
  const Comparison found = compare(mesh, from, to, shape);
  const Op change = op == Op::Broadcast ? Op::AllGather : op;
  Standing::Kind reduced = Standing::Kind::Replicate;
  for (const std::uint8_t axis : found.changed) {
    const Standing before = standing(from, axis);
    const std::string name = "axis '" + graph[mesh.axes[axis].name] + "'";
    if (change_of(before, standing(to, axis)) != change) return name;
    if (!before.is_term()) continue;
    if (reduced != Standing::Kind::Replicate && reduced != before.kind)
      return name + " is reduced by " + (before.kind == Standing::Kind::Max ? "max" : "sum") + ", the axis before it by " +
             (before.kind == Standing::Kind::Max ? "sum" : "max");
    reduced = before.kind;
  }
  if (found.changed.empty()) {
    const std::optional<Op> makes = candidate(mesh, from, to, shape, found);
    if (makes == change) return std::nullopt;
    if (!makes) return "nothing changes";
    return "dimension " + std::to_string(found.moved.front()) + " gets other owners, which is " + info(*makes).name;
  }
  if (found.moved.empty()) return std::nullopt;
  const std::size_t d = found.moved.front();
  return "in dimension " + std::to_string(d) + " the devices of a group together hold " +
         cut_text(graph, from.mesh, held_together(from.cut(d), mesh, shape[d], found.changed)) + " before and " +
         cut_text(graph, to.mesh, held_together(to.cut(d), mesh, shape[d], found.changed)) + " after, expected the same";
}

std::optional<Op> change_between(const Graph& graph, const Layout& from, const Layout& to, const Shape& shape) {
  if (from.mesh != to.mesh || from == to) return std::nullopt;
  const Mesh& mesh = graph[from.mesh];
  const std::optional<Op> op = candidate(mesh, from, to, shape, compare(mesh, from, to, shape));
  if (!op || change_fault(graph, *op, from, to, shape)) return std::nullopt;
  return op;
}

}  // namespace skirl
