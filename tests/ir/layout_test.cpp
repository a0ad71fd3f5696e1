#include "ir/layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "ir/graph.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

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

IntervalTable owners(const Mesh& mesh, const Layout& layout, std::int64_t size) { return pieces_of(layout.cut(0), mesh, size); }

/// Every element of the dimension is owned once.
bool covers(const IntervalTable& table, std::int64_t size) {
  std::vector<int> count(static_cast<std::size_t>(size), 0);
  for (const auto& own : table)
    for (const Interval& i : own)
      for (std::int64_t e = i.begin; e < i.end; ++e) ++count[static_cast<std::size_t>(e)];
  return std::all_of(count.begin(), count.end(), [](int n) { return n == 1; });
}

}  // namespace

TEST_CASE("plain cuts nest and have no table") {
  const Mesh mesh = mesh_of({2, 3});
  const Layout layout = with_cut(with_cut({}, mesh, 0, 7, 0), mesh, 0, 7, 1);
  CHECK(layout.dims == std::vector<Cut>{{{0, 1}, {}}});
  CHECK(owners(mesh, layout, 7) == IntervalTable{{{0, 2}}, {{2, 3}}, {{3, 4}}, {{4, 5}}, {{5, 6}}, {{6, 7}}});
  CHECK(with_outer_cut(with_cut({}, mesh, 0, 7, 1), mesh, 0, 7, 0) == layout);
}

TEST_CASE("a cut at multiples of a unit has a table only where even pieces are not at them") {
  const Mesh mesh = mesh_of({2});
  CHECK(with_cut({}, mesh, 0, 8, 0, {2, 0, {}}).dims == std::vector<Cut>{{{0}, {}}});
  CHECK(with_cut({}, mesh, 0, 6, 0, {2, 0, {}}).dims == std::vector<Cut>{{{0}, {{{0, 4}}, {{4, 6}}}}});
  CHECK(with_cut({}, mesh, 0, 4, 0, {4, 0, {}}).dims == std::vector<Cut>{{{0}, {{{0, 4}}, {}}}});
  CHECK(with_cut({}, mesh, 0, 7, 0, {2, 0, {}}).dims == std::vector<Cut>{{{0}, {}}});  // 4 and what is left of 7
}

TEST_CASE("a cut of each block takes the same part of every one") {
  const Mesh mesh = mesh_of({2, 3});
  const CutStyle heads{2, 6, {}};  // 2 groups of 3 heads of width 2
  const Layout inner = with_cut({}, mesh, 0, 12, 0, heads);
  CHECK(inner.dims == std::vector<Cut>{{{0}, {{{0, 4}, {6, 10}}, {{4, 6}, {10, 12}}}}});
  const Mesh grid = mesh_of({2, 2});
  const Layout groups = with_cut({}, grid, 0, 12, 0, {6, 0, {}});
  const Layout both = with_cut(groups, grid, 0, 12, 1, heads);
  CHECK(groups.dims == std::vector<Cut>{{{0}, {}}});
  CHECK(both.dims == std::vector<Cut>{{{0, 1}, {{{0, 4}}, {{4, 6}}, {{6, 10}}, {{10, 12}}}}});
  CHECK(with_outer_cut(with_cut({}, grid, 0, 12, 1, heads), grid, 0, 12, 0, {6, 0, {}}) == both);
}

TEST_CASE("an even cut within a table cuts what each owner holds, its intervals side by side") {
  const Mesh mesh = mesh_of({2, 2});
  const Layout zigzag = with_cut({}, mesh, 0, 10, 0, {1, 0, zigzag_pieces(10, 2)});
  CHECK(zigzag.dims == std::vector<Cut>{{{0}, {{{0, 3}, {8, 10}}, {{3, 8}}}}});
  CHECK(with_cut(zigzag, mesh, 0, 10, 1).dims == std::vector<Cut>{{{0, 1}, {{{0, 3}}, {{8, 10}}, {{3, 6}}, {{6, 8}}}}});
  CHECK(without_axis(with_cut(zigzag, mesh, 0, 10, 1), mesh, 1) == zigzag);
}

TEST_CASE("given pieces within a cut are what each owner has in common with them") {
  const Mesh mesh = mesh_of({2, 2});
  const Layout halves = with_cut({}, mesh, 0, 8, 0);
  const Layout both = with_cut(halves, mesh, 0, 8, 1, {1, 0, zigzag_pieces(8, 2)});
  CHECK(owners(mesh, both, 8) == IntervalTable{{{0, 2}}, {{2, 4}}, {{6, 8}}, {{4, 6}}});
  CHECK(without_axis(both, mesh, 1) == halves);
  CHECK(with_outer_cut(with_cut({}, mesh, 0, 8, 1, {1, 0, zigzag_pieces(8, 2)}), mesh, 0, 8, 0) == both);
}

TEST_CASE("an outer cut makes the nested cuts within anew, at multiples of their unit") {
  const Mesh mesh = mesh_of({2, 2});
  const Layout heads = with_cut({}, mesh, 0, 8, 1, {4, 0, {}});
  CHECK(owners(mesh, with_outer_cut(heads, mesh, 0, 8, 0, {4, 0, {}}), 8) == IntervalTable{{{0, 2}}, {{2, 4}}, {{4, 6}}, {{6, 8}}});
  CHECK(owners(mesh, with_outer_cut(heads, mesh, 0, 8, 0, {4, 0, {}}, 4), 8) == IntervalTable{{{0, 4}}, {}, {{4, 8}}, {}});
}

TEST_CASE("zigzag gives each coordinate one piece from the front and one from the back") {
  CHECK(zigzag_pieces(12, 3) == IntervalTable{{{0, 2}, {10, 12}}, {{2, 4}, {8, 10}}, {{4, 8}}});
  CHECK(zigzag_pieces(3, 2) == IntervalTable{{{0, 1}}, {{1, 3}}});
  CHECK(zigzag_pieces(5, 1) == IntervalTable{{{0, 5}}});
  CHECK(zigzag_pieces(0, 2) == IntervalTable{{}, {}});
}

TEST_CASE("a cut is turned round its ring and back") {
  const Mesh mesh = mesh_of({3, 2});
  const Layout cut = with_cut(with_cut({}, mesh, 0, 7, 0), mesh, 0, 7, 1);
  const Layout inner = turned(cut, mesh, 0, 7, 1, 1);
  CHECK(inner.dims == std::vector<Cut>{{{0, 1}, {{{2, 3}}, {{0, 2}}, {{4, 5}}, {{3, 4}}, {{6, 7}}, {{5, 6}}}}});
  CHECK(turned(inner, mesh, 0, 7, 1, -1) == cut);
  CHECK(turned(inner, mesh, 0, 7, 1, 3) == cut);
  const Layout outer = turned(cut, mesh, 0, 7, 0, 2);
  CHECK(owners(mesh, outer, 7) == IntervalTable{{{5, 6}}, {{6, 7}}, {{0, 2}}, {{2, 3}}, {{3, 4}}, {{4, 5}}});
  CHECK(turned(turned(outer, mesh, 0, 7, 0, 2), mesh, 0, 7, 0, 2) == cut);
}

TEST_CASE("an axis of one device cuts nothing, whatever its style") {
  const Mesh mesh = mesh_of({1, 3});
  const Layout zigzag = with_cut({}, mesh, 0, 7, 1, {1, 0, zigzag_pieces(7, 3)});
  for (const CutStyle& style : {CutStyle{}, CutStyle{2, 0, {}}, CutStyle{1, 3, {}}, CutStyle{1, 0, zigzag_pieces(7, 1)}}) {
    CHECK(with_cut({}, mesh, 0, 7, 0, style).dims == std::vector<Cut>{{{0}, {}}});
    CHECK(owners(mesh, with_cut(zigzag, mesh, 0, 7, 0, style), 7) == owners(mesh, zigzag, 7));
    CHECK(owners(mesh, with_outer_cut(zigzag, mesh, 0, 7, 0, style), 7) == owners(mesh, zigzag, 7));
  }
  CHECK(turned(with_cut({}, mesh, 0, 7, 0), mesh, 0, 7, 0, 1).dims == std::vector<Cut>{{{0}, {}}});
}

TEST_CASE("what devices hold together is the same whichever of their axes is taken first") {
  const Mesh mesh = mesh_of({2, 3, 2});
  const Layout layout = with_cut(with_cut(with_cut({}, mesh, 0, 13, 0), mesh, 0, 13, 1), mesh, 0, 13, 2);
  const Cut& cut = layout.dims[0];
  CHECK(held_together(cut, mesh, 13, std::vector<std::uint8_t>{2}) == Cut{{0, 1}, {}});
  CHECK(held_together(cut, mesh, 13, std::vector<std::uint8_t>{1, 2}) == Cut{{0}, {}});
  CHECK(held_together(cut, mesh, 13, std::vector<std::uint8_t>{0, 1, 2}) == Cut{});
  CHECK(held_together(cut, mesh, 13, std::vector<std::uint8_t>{0}) ==
        Cut{{1, 2}, {{{0, 2}, {7, 8}}, {{2, 3}, {8, 9}}, {{3, 4}, {9, 10}}, {{4, 5}, {10, 11}}, {{5, 6}, {11, 12}}, {{6, 7}, {12, 13}}}});
  CHECK(held_together(cut, mesh, 13, std::vector<std::uint8_t>{0, 2}) ==
        Cut{{1}, {{{0, 3}, {7, 9}}, {{3, 5}, {9, 11}}, {{5, 7}, {11, 13}}}});
}

TEST_CASE("random cuts cover each element once, come off again, and are canonical") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 engine(seed);
    const auto number = [&](std::int64_t least, std::int64_t most) {
      return least + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(most - least + 1));
    };
    const Mesh mesh = mesh_of({number(1, 4), number(1, 4), number(1, 3)});
    const std::int64_t unit = number(1, 3);
    const std::int64_t block = unit * number(1, 3);
    const std::int64_t size = block * number(0, 4);
    Layout layout;
    for (std::uint8_t axis = 0; axis < 3; ++axis) {
      CutStyle style;
      if (const std::int64_t kind = number(0, 3); kind == 1)
        style.unit = unit;
      else if (kind == 2)
        style = {unit, block, {}};
      else if (kind == 3)
        style.pieces = zigzag_pieces(size, mesh.axes[axis].size);
      const bool had_table = layout.dims.size() == 1 && !layout.dims[0].table.empty();
      const bool outer = number(0, 1) == 0;
      const Layout next = outer ? with_outer_cut(layout, mesh, 0, size, axis, style) : with_cut(layout, mesh, 0, size, axis, style);
      CHECK(covers(owners(mesh, next, size), size));
      CHECK(canonical(next.dims[0], mesh, size) == next.dims[0]);
      if (!outer || layout.dims.empty()) CHECK(without_axis(next, mesh, axis) == layout);
      const Cut left = held_together(next.dims[0], mesh, size, std::vector<std::uint8_t>{axis});
      CHECK(left.axes == layout.cut(0).axes);
      if (!outer || had_table) CHECK(left == layout.cut(0));
      const Layout round = turned(next, mesh, 0, size, axis, 1);
      CHECK(covers(owners(mesh, round, size), size));
      CHECK(turned(round, mesh, 0, size, axis, -1) == next);
      layout = next;
    }
  }
}
