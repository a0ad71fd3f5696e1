#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <random>
#include <string>

#include "ir/change.h"
#include "ir/graph.h"
#include "runtime/tiles.h"

using namespace skirl;

namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// In [least, most].
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool one_in(std::int64_t n) { return number(1, n) == 1; }

 private:
  std::mt19937_64 engine_;
};

Mesh mesh_of(const std::vector<std::int64_t>& sizes) {
  Mesh mesh;
  std::int64_t devices = 1;
  for (const std::int64_t size : sizes) {
    mesh.axes.push_back({NameId(mesh.axes.size()), size});
    devices *= size;
  }
  for (std::int64_t d = 0; d < devices; ++d) mesh.devices.push_back(static_cast<DeviceId>(d));
  return mesh;
}

Mesh random_mesh(Random& random) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(random.number(1, 3)));
  for (std::int64_t& size : sizes) size = random.number(1, 4);
  return mesh_of(sizes);
}

/// Gives each element of the dimension to any of `owners`, so that owners have several intervals, or none.
IntervalTable random_table(Random& random, std::int64_t owners, std::int64_t size) {
  IntervalTable table(static_cast<std::size_t>(owners));
  for (std::int64_t i = 0; i < size; ++i) {
    std::vector<Interval>& own = table[static_cast<std::size_t>(random.number(0, owners - 1))];
    if (!own.empty() && own.back().end == i)
      own.back().end = i + 1;
    else
      own.push_back({i, i + 1});
  }
  return table;
}

CutStyle random_style(Random& random, std::int64_t size, std::int64_t parts) {
  switch (random.number(0, 3)) {
    case 0:
      return {random.number(1, 3), 0, {}};
    case 1: {
      const std::int64_t unit = random.number(1, 2);
      return {unit, unit * random.number(1, 3), {}};
    }
    case 2:
      return {1, 0, zigzag_pieces(size, parts)};
    default:
      return {};
  }
}

Layout random_layout(Random& random, const Mesh& mesh, const Shape& shape, Reduction reduction) {
  Layout layout;
  layout.mesh = MeshId(1u);
  layout.dims.resize(shape.size());
  std::vector<std::uint8_t> axes;
  for (std::uint8_t a = 0; a < mesh.axes.size(); ++a) axes.insert(axes.begin() + random.number(0, a), a);
  for (const std::uint8_t axis : axes) {
    const std::int64_t use = random.number(0, 4);
    if (use == 0) layout.partial.push_back({axis, reduction});
    if (use <= 1 || shape.empty()) continue;
    const std::size_t d = static_cast<std::size_t>(random.number(0, static_cast<std::int64_t>(shape.size()) - 1));
    const CutStyle style = random_style(random, shape[d], mesh.axes[axis].size);
    layout = random.one_in(3) ? with_outer_cut(layout, mesh, d, shape[d], axis, style) : with_cut(layout, mesh, d, shape[d], axis, style);
    if (random.one_in(4)) layout = turned(layout, mesh, d, shape[d], axis, random.number(1, 3));
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (layout.dims[d].empty() || !random.one_in(6)) continue;
    std::int64_t owners = 1;
    for (const std::uint8_t axis : layout.dims[d].axes) owners *= mesh.axes[axis].size;
    layout.dims[d].table = random_table(random, owners, shape[d]);
  }
  layout.canonicalise();
  return layout;
}

/// The definition of a cut, spelled out: global indices that the device holds of one dimension.
std::vector<std::int64_t> held(const Mesh& mesh, const Layout& layout, std::size_t dim, std::int64_t size, std::int64_t position) {
  std::vector<std::int64_t> indices;
  if (dim < layout.dims.size() && !layout.dims[dim].table.empty()) {
    std::int64_t owner = 0;
    for (const std::uint8_t axis : layout.dims[dim].axes) owner = owner * mesh.axes[axis].size + mesh.coordinate(position, axis);
    for (const Interval& own : layout.dims[dim].table[static_cast<std::size_t>(owner)])
      for (std::int64_t i = own.begin; i < own.end; ++i) indices.push_back(i);
    return indices;
  }
  for (std::int64_t i = 0; i < size; ++i) indices.push_back(i);
  if (dim >= layout.dims.size()) return indices;
  for (const std::uint8_t axis : layout.dims[dim].axes) {
    const std::int64_t parts = mesh.axes[axis].size;
    const std::int64_t left = static_cast<std::int64_t>(indices.size());
    std::vector<std::int64_t> own;
    std::int64_t next = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t count = left / parts + (part < left % parts ? 1 : 0);
      if (part == mesh.coordinate(position, axis)) own.assign(indices.begin() + next, indices.begin() + next + count);
      next += count;
    }
    indices = own;
  }
  return indices;
}

/// Calls f(local element, global element) for all that the device holds.
template <class F>
void for_each_held(const Mesh& mesh, const Layout& layout, const Shape& shape, std::int64_t position, F&& f) {
  std::vector<std::int64_t> elements{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t element : elements)
      for (const std::int64_t i : held(mesh, layout, d, shape[d], position)) longer.push_back(element * shape[d] + i);
    elements = std::move(longer);
  }
  for (std::size_t local = 0; local < elements.size(); ++local) f(static_cast<std::int64_t>(local), elements[local]);
}

/// The coordinates along the axes over which the layout is Partial, as one number.
std::int64_t term_of(const Mesh& mesh, const Layout& layout, std::int64_t position) {
  std::int64_t term = 0;
  for (const Partial& p : layout.partial) term = term * mesh.axes[p.axis].size + mesh.coordinate(position, p.axis);
  return term;
}

std::int64_t term_count(const Mesh& mesh, const Layout& layout) {
  std::int64_t count = 1;
  for (const Partial& p : layout.partial) count *= mesh.axes[p.axis].size;
  return count;
}

std::vector<std::int64_t> random_elements(Random& random, const Shape& shape) {
  std::vector<std::int64_t> global(static_cast<std::size_t>(elems(shape)));
  for (std::int64_t& element : global) element = random.number(-50, 50);
  return global;
}

/// Whole numbers that the devices may hold of `global`: replicas equal, terms that add up to it (of which it is the largest).
std::vector<Tensor> random_locals(Random& random, const Mesh& mesh, const Layout& layout, const Shape& shape, DType dtype,
                                  const std::vector<std::int64_t>& global) {
  const std::int64_t terms = term_count(mesh, layout);
  std::vector<std::vector<std::int64_t>> term(static_cast<std::size_t>(terms), global);
  for (std::size_t e = 0; e < global.size(); ++e) {
    const std::size_t odd_one = static_cast<std::size_t>(random.number(0, terms - 1));
    for (std::size_t t = 0; t < term.size(); ++t) {
      if (t == odd_one) continue;
      if (layout.partial.front().reduction == Reduction::Sum) {
        term[t][e] = random.number(-9, 9);
        term[odd_one][e] -= term[t][e];
      } else {
        term[t][e] = global[e] - random.number(0, 9);
      }
    }
  }
  std::vector<Tensor> locals;
  for (std::int64_t p = 0; p < mesh.size(); ++p) {
    locals.emplace_back(dtype, local_shape(mesh, layout, shape, p));
    for_each_held(mesh, layout, shape, p, [&](std::int64_t local, std::int64_t element) {
      locals.back().set(local,
                        static_cast<double>(term[static_cast<std::size_t>(term_of(mesh, layout, p))][static_cast<std::size_t>(element)]));
    });
  }
  return locals;
}

/// Whether these local tensors are `global` in this layout: every group of terms reduces to it, whichever replicas it is made of.
bool stand_for(const std::vector<Tensor>& locals, const Mesh& mesh, const Layout& layout, const Shape& shape,
               const std::vector<std::int64_t>& global) {
  std::vector<bool> partial(mesh.axes.size(), false);
  for (const Partial& p : layout.partial) partial[p.axis] = true;
  bool equal = true;
  for (std::int64_t p = 0; p < mesh.size(); ++p) {
    if (term_of(mesh, layout, p) != 0) continue;
    for_each_held(mesh, layout, shape, p, [&](std::int64_t local, std::int64_t element) {
      double value = layout.is_partial() && layout.partial.front().reduction == Reduction::Max ? -1e9 : 0;
      for (std::int64_t q = 0; q < mesh.size(); ++q) {
        bool same_group = true;
        for (std::size_t a = 0; a < mesh.axes.size(); ++a)
          same_group = same_group && (partial[a] || mesh.coordinate(p, static_cast<int>(a)) == mesh.coordinate(q, static_cast<int>(a)));
        if (!same_group) continue;
        const double term = locals[static_cast<std::size_t>(q)].get(local);
        value = layout.is_partial() && layout.partial.front().reduction == Reduction::Max ? std::max(value, term) : value + term;
      }
      equal = equal && value == static_cast<double>(global[static_cast<std::size_t>(element)]);
    });
  }
  return equal;
}

/// What the device gets; `covered` says whether its boxes cover each element of the piece once, or there are none at all.
Tensor moved(const std::vector<Move>& moves, std::vector<Tensor>& sources, DType dtype, const Shape& local, bool& covered) {
  Tensor target(dtype, local);
  Tensor one(DType::F64, local);
  Tensor count(DType::F64, local);
  for (std::int64_t i = 0; i < one.elems(); ++i) one.set(i, 1);
  std::vector<TensorView> views;
  for (const Move& move : moves) {
    views.clear();
    for (const int s : move.sources) views.push_back(sources[static_cast<std::size_t>(s)].view());
    apply(move, views, target.view());
    add_tile(one.view(), move.target_start, count.view(), move.target_start, move.extent);
  }
  for (std::int64_t i = 0; i < count.elems(); ++i) covered = covered && count.get(i) == (moves.empty() ? 0 : 1);
  return target;
}

void check_change(Random& random, bool same_mesh) {
  const Mesh from_mesh = random_mesh(random);
  const Mesh to_mesh = same_mesh ? from_mesh : random_mesh(random);
  Shape shape(static_cast<std::size_t>(random.number(0, 3)));
  for (std::int64_t& size : shape) size = random.one_in(12) ? 0 : random.number(1, 7);
  const auto reduction = [&] { return random.one_in(3) ? Reduction::Max : Reduction::Sum; };
  const Layout from = random_layout(random, from_mesh, shape, reduction());
  const Layout to = random_layout(random, to_mesh, shape, reduction());
  const DType dtype = std::vector{DType::F64, DType::F32, DType::BF16, DType::I64}[static_cast<std::size_t>(random.number(0, 3))];
  const std::vector<std::int64_t> global = random_elements(random, shape);
  std::vector<Tensor> sources = random_locals(random, from_mesh, from, shape, dtype, global);
  REQUIRE(stand_for(sources, from_mesh, from, shape, global));
  std::vector<Tensor> results;
  bool covered = true;
  for (std::int64_t p = 0; p < to_mesh.size(); ++p)
    results.push_back(
        moved(moves_to(from_mesh, from, to_mesh, to, same_mesh, shape, p), sources, dtype, local_shape(to_mesh, to, shape, p), covered));
  CHECK(covered);
  CHECK(stand_for(results, to_mesh, to, shape, global));
}

Tensor filled(DType dtype, const Shape& shape, const std::vector<double>& elements) {
  Tensor tensor(dtype, shape);
  for (std::size_t i = 0; i < elements.size(); ++i) tensor.set(static_cast<std::int64_t>(i), elements[i]);
  return tensor;
}

std::vector<double> elements_of(const Tensor& tensor) {
  std::vector<double> elements;
  for (std::int64_t i = 0; i < tensor.elems(); ++i) elements.push_back(tensor.get(i));
  return elements;
}

}  // namespace

TEST_CASE("a change of layout on one mesh keeps the value, whatever the two layouts are") {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    check_change(random, true);
  }
}

TEST_CASE("a transfer between meshes keeps the value, whatever the two layouts are") {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    check_change(random, false);
  }
}

TEST_CASE("a device gets from others what it lacks, each element once, and nothing in a free change") {
  std::size_t free_changes = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Mesh axes = random_mesh(random);
    Graph g;
    std::vector<Axis> named = axes.axes;
    for (Axis& axis : named) axis.name = g.intern("axis" + std::to_string(axis.name.index()));
    const MeshId id = g.add_mesh(axes.devices, named);
    const Mesh& mesh = g[id];
    const Shape shape{random.number(0, 7), random.number(1, 7)};
    Layout from = random_layout(random, mesh, shape, Reduction::Sum);
    Layout to = random_layout(random, mesh, shape, Reduction::Sum);
    from.partial.clear();
    if (random.one_in(2)) {  // a free change: cut further, or become terms over the axes that are left
      from = to;
      for (std::uint8_t axis = 0; axis < mesh.axes.size(); ++axis)
        if (to.partial_over(axis) || (!to.is_partial() && random.one_in(2))) from = without_axis(from, mesh, axis);
    } else {
      to.partial.clear();
    }
    from.mesh = to.mesh = id;
    const std::optional<Op> op = change_between(g, from, to, shape);
    const bool is_free = op && is_free_change(*op);
    free_changes += is_free ? 1 : 0;
    for (std::int64_t p = 0; p < mesh.size(); ++p) {
      std::vector<bool> had(static_cast<std::size_t>(elems(shape)), false);
      for_each_held(mesh, from, shape, p, [&](std::int64_t, std::int64_t element) { had[static_cast<std::size_t>(element)] = true; });
      std::int64_t lacks = 0;
      for_each_held(mesh, to, shape, p,
                    [&](std::int64_t, std::int64_t element) { lacks += had[static_cast<std::size_t>(element)] ? 0 : 1; });
      std::int64_t received = 0;
      for (const Move& move : moves_to(mesh, from, mesh, to, true, shape, p)) {
        REQUIRE(move.sources.size() == 1);
        if (move.sources.front() != p) received += elems(move.extent);
      }
      CHECK(received == (is_free ? 0 : lacks));
    }
  }
  CHECK(free_changes > 200);
}

TEST_CASE("pieces put together are the whole again") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const Mesh mesh = random_mesh(random);
    const Shape shape{random.number(0, 7), random.number(1, 7)};
    Layout layout = random_layout(random, mesh, shape, Reduction::Sum);
    layout.partial.clear();
    const std::vector<std::int64_t> global = random_elements(random, shape);
    Tensor whole(DType::I32, shape);
    for (std::int64_t i = 0; i < whole.elems(); ++i) whole.set(i, static_cast<double>(global[static_cast<std::size_t>(i)]));
    std::vector<Tensor> pieces;
    for (std::int64_t p = 0; p < mesh.size(); ++p) pieces.push_back(piece_of(whole.view(), mesh, layout, p));
    CHECK(stand_for(pieces, mesh, layout, shape, global));
    std::vector<TensorView> views;
    for (Tensor& piece : pieces) views.push_back(piece.view());
    CHECK(elements_of(assemble(views, mesh, layout, whole.type())) == elements_of(whole));
  }
}

TEST_CASE("readers on another mesh take turns at the replicas; on the own mesh each reads its own") {
  const Mesh three = mesh_of({3});
  const Mesh five = mesh_of({5});
  for (std::int64_t p = 0; p < 5; ++p)
    CHECK(moves_to(three, Layout{}, five, Layout{}, false, {4}, p).front().sources == std::vector<int>{static_cast<int>(p % 3)});
  for (std::int64_t p = 0; p < 3; ++p)
    CHECK(moves_to(three, Layout{}, three, Layout{}, true, {4}, p).front().sources == std::vector<int>{static_cast<int>(p)});
}

TEST_CASE("what becomes Partial(sum) is kept by coordinate 0, of Partial(max) by all") {
  const Mesh mesh = mesh_of({3});
  const Layout sum{MeshId(1u), {}, {{0, Reduction::Sum}}};
  const Layout max{MeshId(1u), {}, {{0, Reduction::Max}}};
  for (std::int64_t p = 0; p < 3; ++p) {
    CHECK(moves_to(mesh, Layout{}, mesh, sum, true, {4}, p).size() == (p == 0 ? 1 : 0));
    CHECK(moves_to(mesh, Layout{}, mesh, max, true, {4}, p).size() == 1);
    CHECK(moves_to(mesh, sum, mesh, sum, true, {4}, p).front().sources == std::vector<int>{static_cast<int>(p)});
  }
  CHECK(moves_to(mesh, sum, mesh, Layout{}, true, {4}, 1).front().sources == std::vector<int>{0, 1, 2});
}

TEST_CASE("narrow floats are reduced in f32 and rounded once, integers exactly") {
  const Move move{{0, 1, 2}, Reduction::Sum, {0}, {0}, {1}};
  const auto reduced = [&](DType dtype, const std::vector<double>& terms) {
    std::vector<Tensor> tensors;
    for (const double term : terms) tensors.push_back(filled(dtype, {1}, {term}));
    std::vector<TensorView> views;
    for (Tensor& tensor : tensors) views.push_back(tensor.view());
    Tensor target(dtype, {1});
    apply(move, views, target.view());
    return target.get(0);
  };
  CHECK(reduced(DType::BF16, {256, 1, 1}) == 258);  // 256 + 1 is no bf16
  CHECK(reduced(DType::F16, {2048, 1, 1}) == 2050);
  CHECK(reduced(DType::F32, {0x1p24, 1, 1}) == 0x1p24);  // 2^24 + 1 is no f32
  CHECK(reduced(DType::F64, {0x1p24, 1, 1}) == 0x1p24 + 2);
  CHECK(reduced(DType::I32, {0x1p24, 1, 1}) == 0x1p24 + 2);
}

TEST_CASE("boxes are copied and added in place, and nothing around them is touched") {
  Tensor from = filled(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor to = filled(DType::F32, {3, 3}, {9, 9, 9, 9, 9, 9, 9, 9, 9});
  copy_tile(from.view(), {0, 1}, to.view(), {1, 0}, {2, 2});
  CHECK(elements_of(to) == std::vector<double>{9, 9, 9, 2, 3, 9, 5, 6, 9});
  add_tile(from.view(), {1, 0}, to.view(), {0, 1}, {1, 2});
  CHECK(elements_of(to) == std::vector<double>{9, 13, 14, 2, 3, 9, 5, 6, 9});
  copy_tile(from.view(), {0, 0}, to.view(), {0, 0}, {0, 3});
  CHECK(elements_of(to) == std::vector<double>{9, 13, 14, 2, 3, 9, 5, 6, 9});
}
