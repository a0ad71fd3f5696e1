#include <catch2/catch.hpp>

#include "ir/graph.h"

using namespace skirl;

namespace {

/// A node without operands, or a sum of some.
ValueId add(Graph& g, std::vector<ValueId> operands) {
  const ResultInit result{g.intern(TensorType{DType::F64, {2}}), g.replicate(kHome), Role::Activation};
  return g.result(g.add({operands.empty() ? Op::Input : Op::Sum, operands, {&result, 1}}));
}

}  // namespace

TEST_CASE("uses follow set_operand, set_operands, replace_uses and erase") {
  Graph g;
  const ValueId a = add(g, {});
  const ValueId b = add(g, {});
  const ValueId s = add(g, {a, a, b});
  CHECK(g.use_count(a) == 2);
  g.replace_uses(a, b);
  CHECK(g.use_count(a) == 0);
  CHECK(g.use_count(b) == 3);
  const NodeId sum = g[s].producer;
  g.set_operands(sum, std::vector<ValueId>{a, b, a, b, a});
  CHECK(g.use_count(a) == 3);
  CHECK(g.use_count(b) == 2);
  CHECK(g.operand_list(sum) == std::vector<ValueId>{a, b, a, b, a});
  g.erase(sum);
  CHECK(!g.has_uses(a));
  CHECK(g.node_count() == 2);
}

TEST_CASE("topological order takes the smallest ready id, and respects control edges") {
  Graph g;
  const ValueId a = add(g, {});
  const ValueId b = add(g, {});
  const ValueId s = add(g, {a, b});
  const ValueId t = add(g, {a});
  g.add_order(g[t].producer, g[b].producer);
  CHECK(topological_order(g) == std::vector<NodeId>{g[a].producer, g[t].producer, g[b].producer, g[s].producer});
  g.add_order(g[s].producer, g[t].producer);
  CHECK(topological_order(g).size() == 1);  // the rest is on a cycle
}

TEST_CASE("nested cuts give the first pieces one element more, and shards may be empty") {
  Graph g;
  const MeshId m = g.add_mesh({4, 5, 6, 7, 8, 9}, {{g.intern("dp"), 2}, {g.intern("tp"), 3}});
  const Layout cut{m, {Cut{{0, 1}, {}}}, {}};
  std::vector<std::int64_t> sizes;
  for (int p = 0; p < 6; ++p) sizes.push_back(local_shape(g[m], cut, {5}, p)[0]);
  CHECK(sizes == std::vector<std::int64_t>{1, 1, 1, 1, 1, 0});
  CHECK(local_offset(g[m], cut, {5}, 3)[0] == 3);
}
