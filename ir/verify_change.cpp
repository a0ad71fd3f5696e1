#include <algorithm>

#include "ir/verifier.h"

namespace skirl {
namespace {

/// How a value stands along one axis.
struct Standing {
  enum class Kind : std::uint8_t { Replicate, Cut, Sum, Max } kind = Kind::Replicate;
  int dim = -1;
  bool operator==(const Standing&) const = default;
};

Standing standing(const Layout& layout, std::uint8_t axis) {
  if (const int dim = layout.dim_cut_by(axis); dim >= 0) return {Standing::Kind::Cut, dim};
  for (const Partial& partial : layout.partial)
    if (partial.axis == axis) return {partial.reduction == Reduction::Max ? Standing::Kind::Max : Standing::Kind::Sum, -1};
  return {};
}

bool is_term(Standing s) { return s.kind == Standing::Kind::Sum || s.kind == Standing::Kind::Max; }

bool makes(Op op, Standing before, Standing after) {
  using Kind = Standing::Kind;
  switch (op) {
    case Op::AllReduce:
      return is_term(before) && after.kind == Kind::Replicate;
    case Op::AllGather:
    case Op::Broadcast:
      return before.kind == Kind::Cut && after.kind == Kind::Replicate;
    case Op::ReduceScatter:
      return is_term(before) && after.kind == Kind::Cut;
    case Op::AllToAll:
      return before.kind == Kind::Cut && after.kind == Kind::Cut;
    case Op::LocalSlice:
      return before.kind == Kind::Replicate && after.kind == Kind::Cut;
    case Op::ZeroRest:
      return before.kind == Kind::Replicate && after.kind == Kind::Sum;
    default:
      return false;
  }
}

const char* change_text(Op op) {
  switch (op) {
    case Op::AllReduce:
      return "Partial to Replicate";
    case Op::AllGather:
    case Op::Broadcast:
      return "a cut to Replicate";
    case Op::ReduceScatter:
      return "Partial to a cut";
    case Op::AllToAll:
      return "a cut of one dimension to one of another";
    case Op::Permute:
      return "the owners of a cut";
    case Op::LocalSlice:
      return "Replicate to a cut";
    default:
      return "Replicate to Partial";
  }
}

/// Axes that a change takes from or gives to a dimension are its innermost, so what a group holds together is one piece.
bool nested_change(const Cut& before, const Cut& after) {
  const std::size_t common = std::min(before.axes.size(), after.axes.size());
  return std::equal(before.axes.begin(), before.axes.begin() + static_cast<std::ptrdiff_t>(common), after.axes.begin());
}

void check_change(const Graph& g, NodeId node, std::size_t i, std::vector<Complaint>& complaints) {
  const Op op = g[node].op;
  const Layout& before = g.layout(g.operand(node, i));
  const Layout& after = g.layout(g.result(node, i));
  const Mesh& mesh = g[g[node].mesh];
  const std::size_t rank = g.type(g.operand(node, i)).shape.size();
  const auto wrong = [&](const std::string& why) {
    complaints.push_back({7, std::string(info(op).name) + " changes " + change_text(op) + ", found " + to_string(g, before, rank) + " to " +
                                 to_string(g, after, rank) + (why.empty() ? "" : ": " + why)});
  };
  if (before.mesh != after.mesh) return wrong("the operand is at home");
  bool changed = false;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const Standing was = standing(before, static_cast<std::uint8_t>(a));
    const Standing is = standing(after, static_cast<std::uint8_t>(a));
    if (was == is) continue;
    changed = true;
    if (!makes(op, was, is)) return wrong("axis '" + g[mesh.axes[a].name] + "'");
  }
  bool moved = false;
  for (std::size_t d = 0; d < rank; ++d) {
    const Cut& was = before.cut(d);
    const Cut& is = after.cut(d);
    if (was == is) continue;
    moved = true;
    if (!nested_change(was, is)) return wrong("in dimension " + std::to_string(d) + " not the innermost axes");
    if (was.axes == is.axes && op != Op::Permute && op != Op::AllToAll)
      return wrong("dimension " + std::to_string(d) + " gets other owners");
  }
  if (op == Op::Permute ? !moved || changed : !changed && !(op == Op::AllToAll && moved)) wrong("nothing of this kind changes");
}

/// The layout on the member, of a value of the union: without the axis `copy`.
Layout on_member(const Layout& layout, MeshId member) {
  Layout result = layout;
  result.mesh = member;
  for (Cut& cut : result.dims)
    for (std::uint8_t& axis : cut.axes) --axis;
  for (Partial& partial : result.partial) --partial.axis;
  return result;
}

void check_view(const Graph& g, NodeId node, std::vector<Complaint>& complaints) {
  const Layout& whole = g.layout(g.operand(node, 0));
  const Layout& found = g.layout(g.result(node));
  const Mesh& united = g[whole.mesh];
  const Mesh& part = g[g[node].mesh];
  const std::size_t rank = g.type(g.operand(node, 0)).shape.size();
  const auto is_member = [&](MeshId m) { return std::find(united.members.begin(), united.members.end(), m) != united.members.end(); };
  const auto wrong = [&](const std::string& text) { complaints.push_back({6, text}); };
  const bool fits = part.is_union() ? std::all_of(part.members.begin(), part.members.end(), is_member) : is_member(g[node].mesh);
  if (!united.is_union() || !fits)
    return wrong("the operand is on @" + g.mesh_name(whole.mesh) + ", expected a union that has @" + g.mesh_name(g[node].mesh) +
                 " as a member");
  if (standing(whole, 0).kind != Standing::Kind::Replicate)
    return wrong("the operand is " + to_string(g, whole, rank) + ", expected whole over 'copy'");
  Layout expected = part.is_union() ? whole : on_member(whole, g[node].mesh);
  expected.mesh = g[node].mesh;
  if (!(found == expected)) wrong("the result is " + to_string(g, found, rank) + ", expected " + to_string(g, expected, rank));
}

void check_join(const Graph& g, NodeId node, std::vector<Complaint>& complaints) {
  const Node& n = g[node];
  const Mesh& united = g[n.mesh];
  const std::size_t rank = g.type(g.result(node)).shape.size();
  const auto wrong = [&](const std::string& text) { complaints.push_back({6, text}); };
  if (!united.is_union()) return wrong("it is on @" + g.mesh_name(n.mesh) + ", expected a union");
  if (n.operand_count != united.members.size())
    return wrong("got " + std::to_string(n.operand_count) + " operands, expected one for each of the " +
                 std::to_string(united.members.size()) + " members");
  const Layout& result = g.layout(g.result(node));
  if (standing(result, 0).kind != Standing::Kind::Sum)
    return wrong("the result is " + to_string(g, result, rank) + ", expected Partial over 'copy'");
  for (std::size_t i = 0; i < n.operand_count; ++i) {
    const Layout& found = g.layout(g.operand(node, i));
    if (found.mesh == kHome) continue;
    const Layout expected = on_member(without_axis(result, united, 0), united.members[i]);
    if (!(found == expected))
      wrong("operand " + std::to_string(i) + " is " + to_string(g, found, rank) + ", expected " + to_string(g, expected, rank));
  }
}

}  // namespace

std::vector<Complaint> change_complaints(const Graph& graph, NodeId node) {
  std::vector<Complaint> complaints;
  if (graph[node].op == Op::View)
    check_view(graph, node, complaints);
  else if (graph[node].op == Op::Join)
    check_join(graph, node, complaints);
  else
    for (std::size_t i = 0; i < graph[node].operand_count; ++i) check_change(graph, node, i, complaints);
  return complaints;
}

}  // namespace skirl
