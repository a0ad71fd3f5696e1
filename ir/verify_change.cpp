#include <algorithm>
#include <optional>

#include "ir/change.h"
#include "ir/verifier.h"

namespace skirl {
namespace {

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
      return "a cut of one dimension to one of another, or its pieces";
    case Op::Permute:
      return "the owners of a cut";
    case Op::LocalSlice:
      return "Replicate to a cut";
    default:
      return "Replicate to Partial";
  }
}

void check_change(const Graph& g, NodeId node, std::size_t i, std::vector<Complaint>& complaints) {
  const Op op = g[node].op;
  const Layout& before = g.layout(g.operand(node, i));
  const Layout& after = g.layout(g.result(node, i));
  const Shape& shape = g.type(g.operand(node, i)).shape;
  std::optional<std::string> fault = "the operand is at home";
  if (before.mesh == after.mesh) fault = change_fault(g, op, before, after, shape);
  if (fault)
    complaints.push_back({7, std::string(info(op).name) + " changes " + change_text(op) + ", found " + to_string(g, before, shape.size()) +
                                 " to " + to_string(g, after, shape.size()) + ": " + *fault});
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
  if (whole.dim_cut_by(0) >= 0 || whole.partial_over(0))
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
  if (result.partial.empty() || !(result.partial.front() == Partial{0, Reduction::Sum}))
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
