#include "tests/support/bytes.h"

#include "ir/error.h"

namespace skirl::test {
namespace {

bool stands_alike(const Layout& a, const Layout& b, std::uint8_t axis) {
  return a.dim_cut_by(axis) == b.dim_cut_by(axis) && a.partial_over(axis) == b.partial_over(axis);
}

std::int64_t bytes(const Graph& g, ValueId value, const Layout& layout) {
  const TensorType& type = g.type(value);
  return elems(local_shape(g[layout.mesh], layout, type.shape, 0)) * size_bytes(type.dtype);
}

std::int64_t even(std::int64_t bytes, std::int64_t parts) {
  if (bytes % parts != 0) throw Error(std::to_string(bytes) + " bytes do not divide by " + std::to_string(parts));
  return bytes / parts;
}

std::int64_t collective_bytes(const Graph& g, NodeId node, ValueId from, ValueId to) {
  const Layout& before = g.layout(from);
  const Layout& after = g.layout(to);
  const Mesh& mesh = g[g[node].mesh];
  Layout without = before;
  std::int64_t n = 1;  // devices of a group: along all axes that change
  for (std::uint8_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (stands_alike(before, after, axis)) continue;
    n *= mesh.axes[axis].size;
    without = without_axis(without, mesh, axis);
  }
  const std::int64_t whole = bytes(g, from, without);
  switch (g[node].op) {
    case Op::AllReduce:
      return even(2 * whole * (n - 1), n);
    case Op::AllGather:
    case Op::ReduceScatter:
      return even(whole * (n - 1), n);
    case Op::AllToAll:
      return even(whole * (n - 1), n * n);
    default:
      return whole;  // broadcast, and permute: what a device holds goes to another
  }
}

}  // namespace

std::vector<Traffic> traffic_of(const Graph& g) {
  std::vector<Traffic> traffic;
  g.for_each_node([&](NodeId node) {
    const Op op = g[node].op;
    const bool collective = is_collective(op) && !is_free_change(op);
    if (!collective && op != Op::Send) return;
    g.for_each_operand(node, [&](ValueId value, std::size_t i) {
      const std::int64_t sent = collective ? collective_bytes(g, node, value, g.result(node, i)) : bytes(g, value, g.layout(value));
      traffic.push_back({node, op, g[value].role, g[g[node].name], g.type(value).shape.empty(), sent});
    });
  });
  return traffic;
}

std::int64_t bytes_of(const std::vector<Traffic>& traffic, const std::function<bool(const Traffic&)>& counts) {
  std::int64_t total = 0;
  for (const Traffic& t : traffic) total += counts(t) ? t.bytes : 0;
  return total;
}

}  // namespace skirl::test
