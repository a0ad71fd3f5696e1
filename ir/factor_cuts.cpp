#include "ir/factor_cuts.h"

#include <algorithm>

namespace skirl {
namespace {

using Owned = std::vector<Interval>;

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t all = 1;
  for (const std::int64_t size : sizes) all *= size;
  return all;
}

std::int64_t elements(const Owned& own) {
  std::int64_t count = 0;
  for (const Interval& i : own) count += i.size();
  return count;
}

/// Marks which elements of the factor of this size, with `inner` elements within each, what is owned touches.
void project(const Owned& own, std::int64_t size, std::int64_t inner, std::vector<char>& touched) {
  for (const Interval& i : own) {
    const std::int64_t first = i.begin / inner;
    const std::int64_t last = std::min((i.end - 1) / inner, first + size - 1);
    for (std::int64_t e = first; e <= last; ++e) touched[static_cast<std::size_t>(e % size)] = 1;
  }
}

Owned runs(const std::vector<char>& touched) {
  Owned own;
  for (std::int64_t e = 0; e < static_cast<std::int64_t>(touched.size()); ++e) {
    if (touched[static_cast<std::size_t>(e)] == 0) continue;
    if (!own.empty() && own.back().end == e)
      ++own.back().end;
    else
      own.push_back({e, e + 1});
  }
  return own;
}

/// Elements of an outer factor with, in each, what is owned of what is within (`size` elements).
Owned times(const Owned& outer, const Owned& inner, std::int64_t size) {
  if (inner == Owned{{0, size}}) {
    Owned own;
    for (const Interval& i : outer) own.push_back({i.begin * size, i.end * size});
    return own;
  }
  Owned own;
  for (const Interval& i : outer)
    for (std::int64_t e = i.begin; e < i.end; ++e)
      for (const Interval& within : inner) {
        const Interval next{e * size + within.begin, e * size + within.end};
        if (!own.empty() && own.back().end == next.begin)
          own.back().end = next.end;
        else
          own.push_back(next);
      }
  return own;
}

/// Where owner number `owner` of the row-major coordinates of `all` stands among the owners of `some` of these axes.
std::size_t owner_among(std::size_t owner, const std::vector<std::uint8_t>& all, const std::vector<std::uint8_t>& some, const Mesh& mesh) {
  std::vector<std::int64_t> coordinate(mesh.axes.size(), 0);
  std::int64_t left = static_cast<std::int64_t>(owner);
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    coordinate[*it] = left % mesh.axes[*it].size;
    left /= mesh.axes[*it].size;
  }
  std::int64_t index = 0;
  for (const std::uint8_t axis : some) index = index * mesh.axes[axis].size + coordinate[axis];
  return static_cast<std::size_t>(index);
}

std::size_t owner_count(const std::vector<std::uint8_t>& axes, const Mesh& mesh) {
  std::size_t owners = 1;
  for (const std::uint8_t axis : axes) owners *= static_cast<std::size_t>(mesh.axes[axis].size);
  return owners;
}

/// The cuts of the factors if axis a of the cut goes to factor `factor[a]`; none if the pieces are no products then.
std::vector<Cut> cuts_with(const std::vector<std::size_t>& factor, const std::vector<std::uint8_t>& axes, const IntervalTable& table,
                           const Mesh& mesh, std::span<const std::int64_t> sizes) {
  std::vector<Cut> cuts(sizes.size());
  for (std::size_t a = 0; a < axes.size(); ++a) cuts[factor[a]].axes.push_back(axes[a]);
  std::vector<std::vector<std::size_t>> among(sizes.size());  // of each factor: the place of each owner of the dimension
  for (std::size_t f = 0; f < sizes.size(); ++f) {
    const std::int64_t inner = product(sizes.subspan(f + 1));
    std::vector<std::vector<char>> touched(owner_count(cuts[f].axes, mesh), std::vector<char>(static_cast<std::size_t>(sizes[f]), 0));
    for (std::size_t owner = 0; owner < table.size(); ++owner) {
      among[f].push_back(owner_among(owner, axes, cuts[f].axes, mesh));
      project(table[owner], sizes[f], inner, touched[among[f].back()]);
    }
    for (const std::vector<char>& of_owner : touched) cuts[f].table.push_back(runs(of_owner));
  }
  for (std::size_t owner = 0; owner < table.size(); ++owner) {
    std::int64_t size = 1;  // what is owned lies within the product, so it is the product if it has as many elements
    for (std::size_t f = 0; f < sizes.size(); ++f) size *= elements(cuts[f].table[among[f][owner]]);
    if (size != elements(table[owner])) return {};
  }
  for (std::size_t f = 0; f < sizes.size(); ++f) cuts[f] = canonical(std::move(cuts[f]), mesh, sizes[f]);
  return cuts;
}

}  // namespace

std::vector<FactorCuts> factor_cuts(const Cut& cut, const Mesh& mesh, std::span<const std::int64_t> sizes) {
  const std::int64_t size = product(sizes);
  if (sizes.size() == 1 || size == 0) {
    FactorCuts whole{std::vector<std::size_t>(cut.axes.size(), 0), std::vector<Cut>(sizes.size())};
    whole.cuts.front() = cut;
    return {whole};
  }
  std::vector<FactorCuts> found;
  const IntervalTable table = pieces_of(cut, mesh, size);
  std::vector<std::size_t> factor(cut.axes.size(), 0);
  while (true) {
    if (std::vector<Cut> cuts = cuts_with(factor, cut.axes, table, mesh, sizes); !cuts.empty()) found.push_back({factor, std::move(cuts)});
    std::size_t a = factor.size();
    while (a-- > 0) {
      if (++factor[a] < sizes.size()) break;
      factor[a] = 0;
    }
    if (a >= factor.size()) return found;
  }
}

Cut product_cut(std::span<const Cut> cuts, const Mesh& mesh, std::span<const std::int64_t> sizes) {
  Cut all;
  for (const Cut& cut : cuts) all.axes.insert(all.axes.end(), cut.axes.begin(), cut.axes.end());
  const std::size_t owners = owner_count(all.axes, mesh);
  std::vector<IntervalTable> tables;
  for (std::size_t f = 0; f < cuts.size(); ++f) tables.push_back(pieces_of(cuts[f], mesh, sizes[f]));
  for (std::size_t owner = 0; owner < owners; ++owner) {
    Owned own{{0, 1}};
    for (std::size_t f = 0; f < cuts.size(); ++f) own = times(own, tables[f][owner_among(owner, all.axes, cuts[f].axes, mesh)], sizes[f]);
    all.table.push_back(std::move(own));
  }
  return canonical(std::move(all), mesh, product(sizes));
}

}  // namespace skirl
