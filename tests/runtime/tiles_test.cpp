#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <vector>

#include "ir/graph.h"
#include "runtime/tiles.h"

using namespace skirl;

namespace {

Tensor counted(const Shape& shape, double first = 1) {
  Tensor tensor(DType::F64, shape);
  for (std::int64_t i = 0; i < tensor.elems(); ++i) tensor.set(i, first + static_cast<double>(i));
  return tensor;
}

bool equal(const Tensor& a, const Tensor& b) { return a.type() == b.type() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0; }

std::vector<TensorView> views(std::vector<Tensor>& tensors) {
  std::vector<TensorView> made;
  for (Tensor& tensor : tensors) made.push_back(tensor.view());
  return made;
}

/// What the device at `position` has after the change of layout.
Tensor moved(std::vector<Tensor>& locals, const Mesh& from_mesh, const Layout& from, const Mesh& to_mesh, const Layout& to, bool same_mesh,
             const Shape& shape, std::int64_t position) {
  Tensor target(locals.front().type().dtype, local_shape(to_mesh, to, shape, position));
  const std::vector<TensorView> all = views(locals);
  for (const Move& move : moves_to(from_mesh, from, to_mesh, to, same_mesh, shape, position)) {
    std::vector<TensorView> sources;
    for (const int s : move.sources) sources.push_back(all[static_cast<std::size_t>(s)]);
    apply(move, sources, target.view());
  }
  return target;
}

/// A mesh {a:2, b:3} of which each axis cuts a dimension, or none, at random.
struct Case {
  Graph graph;
  MeshId mesh;
  std::mt19937_64 random;
  Shape shape;

  Case(std::uint64_t seed, DeviceId first) : random(seed) {
    std::vector<DeviceId> devices;
    for (DeviceId d = 0; d < 6; ++d) devices.push_back(first + d);
    mesh = graph.add_mesh(devices, {{graph.intern("a"), 2}, {graph.intern("b"), 3}});
    for (int d = 0; d < 3; ++d) shape.push_back(static_cast<std::int64_t>(random() % 6));
  }
  const Mesh& own() const { return graph[mesh]; }
  Layout layout() {
    Layout made{mesh, {}, {}};
    for (std::uint8_t axis = 0; axis < 2; ++axis)
      if (const std::size_t dim = random() % 4; dim < 3) made = with_cut(made, dim, axis);
    return made;
  }
};

}  // namespace

TEST_CASE("pieces put together are the tensor, and any change of layout gives the pieces of the new one") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Case c(seed, 0);
    const Layout from = c.layout();
    const Layout to = c.layout();
    Tensor global = counted(c.shape);
    std::vector<Tensor> locals;
    for (std::int64_t p = 0; p < 6; ++p) locals.push_back(piece_of(global.view(), c.own(), from, p));
    CHECK(equal(assemble(views(locals), c.own(), from, global.type()), global));
    for (std::int64_t p = 0; p < 6; ++p)
      for (const bool same_mesh : {true, false})
        CHECK(equal(moved(locals, c.own(), from, c.own(), to, same_mesh, c.shape, p), piece_of(global.view(), c.own(), to, p)));
  }
}

TEST_CASE("a sum adds the devices' terms in coordinate order") {
  Graph g;
  const MeshId mesh = g.add_mesh({0, 1, 2}, {{g.intern("dp"), 3}});
  const Layout partial = with_partial(Layout{mesh, {}, {}}, 0);
  std::vector<Tensor> locals;
  for (const double x : {1e16, 1.0, -1e16}) {
    locals.emplace_back(DType::F64, Shape{});
    locals.back().set(0, x);
  }
  // (1e16 + 1) − 1e16 is 0; in another order it would be 1.
  for (std::int64_t p = 0; p < 3; ++p) CHECK(moved(locals, g[mesh], partial, g[mesh], Layout{mesh, {}, {}}, true, {}, p).get(0) == 0);
}

TEST_CASE("reduced and cut at once: each device gets the sum of its rows alone") {
  Graph g;
  const MeshId mesh = g.add_mesh({0, 1, 2}, {{g.intern("dp"), 3}});
  const Layout partial = with_partial(Layout{mesh, {}, {}}, 0);
  const Layout cut = with_cut(Layout{mesh, {}, {}}, 0, 0);
  std::vector<Tensor> locals{counted({4, 2}), counted({4, 2}, 100), counted({4, 2}, 1000)};
  const Tensor first = moved(locals, g[mesh], partial, g[mesh], cut, true, {4, 2}, 0);
  CHECK(first.type().shape == Shape{2, 2});
  CHECK(first.get(3) == 4 + 103 + 1003);
  CHECK(moved(locals, g[mesh], partial, g[mesh], cut, true, {4, 2}, 2).get(1) == 8 + 107 + 1007);
}

TEST_CASE("a value made Partial stays with coordinate 0, the others hold zeros") {
  Graph g;
  const MeshId mesh = g.add_mesh({0, 1}, {{g.intern("dp"), 2}});
  const Layout whole{mesh, {}, {}};
  std::vector<Tensor> locals{counted({3}), counted({3})};
  CHECK(equal(moved(locals, g[mesh], whole, g[mesh], with_partial(whole, 0), true, {3}, 0), counted({3})));
  CHECK(moves_to(g[mesh], whole, g[mesh], with_partial(whole, 0), true, {3}, 1).empty());
}

TEST_CASE("replicas take turns as sources of a transfer") {
  Graph g;
  const MeshId from = g.add_mesh({0, 1}, {{g.intern("dp"), 2}});
  const MeshId to = g.add_mesh({2, 3, 4, 5}, {{g.intern("dp"), 4}});
  std::vector<int> sources;
  for (std::int64_t p = 0; p < 4; ++p)
    sources.push_back(moves_to(g[from], Layout{from, {}, {}}, g[to], Layout{to, {}, {}}, false, {3}, p).at(0).sources.at(0));
  CHECK(sources == std::vector<int>{0, 1, 0, 1});
}

TEST_CASE("narrow floats are reduced in f32 and rounded once") {
  Graph g;
  const MeshId mesh = g.add_mesh({0, 1, 2}, {{g.intern("dp"), 3}});
  const Layout whole{mesh, {}, {}};
  std::vector<Tensor> locals;
  for (const double x : {256.0, 1.0, 1.0}) {  // bf16 has 8 bits: 256 + 1 alone would be 256
    locals.emplace_back(DType::BF16, Shape{1});
    locals.back().set(0, x);
  }
  CHECK(moved(locals, g[mesh], with_partial(whole, 0), g[mesh], whole, true, {1}, 1).get(0) == 258);
}
