#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/layout.h"

/// A dimension that is a product of factors, `(g r d)`, may be cut along any of them: along the outermost in runs at multiples of those
/// within, along an inner one block by block. These functions tell the one form from the other.
namespace skirl {

/// One reading of a cut: which factor each axis cuts, and how.
struct FactorCuts {
  std::vector<std::size_t> factor;  // of each axis of the cut: its place in the dimension
  std::vector<Cut> cuts;            // of each factor, in its own elements; an axis that cuts it nested has no table
};

/// Every reading of the cut of a dimension whose factors have these sizes, outermost first. None: some piece is no product of pieces of
/// the factors. Several: an axis of one device, or a cut that gives everything to one owner.
std::vector<FactorCuts> factor_cuts(const Cut& cut, const Mesh& mesh, std::span<const std::int64_t> sizes);

/// The cut of the dimension whose factors are cut like this: its axes are those of the factors, outermost factor first.
Cut product_cut(std::span<const Cut> cuts, const Mesh& mesh, std::span<const std::int64_t> sizes);

}  // namespace skirl
