#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/layout.h"
#include "ir/mesh.h"
#include "runtime/tensor.h"

/// What a change of layout or a transfer moves, derived from the two layouts: the one description that all backends follow.
namespace skirl {

/// One box of elements that one device gets. Starts are in local coordinates of the pieces. All sources hold it at the same place; if there are
/// several, their elements are reduced in the order of `sources`.
struct Move {
  std::vector<int> sources;  // positions on the mesh it comes from, in coordinate order
  Reduction reduction = Reduction::Sum;
  Shape source_start;
  Shape target_start;
  Shape extent;
};

/// What the device at `to_position` of `to_mesh` gets so that it holds its piece of a value of global shape `shape` in layout `to`, of what lies on
/// `from_mesh` in layout `from`. The boxes cover the piece once, in a fixed order; no boxes and a piece with elements: the piece is all zeros.
///
///   an axis Partial in both layouts of one mesh stays as it is; one that `to` has not is summed (maxed);
///   one that only `to` has: coordinate 0 gets the value and the others zeros (of Partial(max): all get it);
///   of several replicas the own one is read within one mesh; across meshes the one of number `to_position` modulo their count, so they take turns.
std::vector<Move> moves_to(const Mesh& from_mesh, const Layout& from, const Mesh& to_mesh, const Layout& to, bool same_mesh, const Shape& shape,
                           std::int64_t to_position);

/// Carries out one move; `sources` are the whole local tensors at `move.sources`. Floats narrower than f64 are reduced in f32 and rounded once.
void apply(const Move& move, std::span<const TensorView> sources, const TensorView& target);

/// Copies (adds to what is there) a box of any dtype; the starts are in the coordinates of the two tensors.
void copy_tile(const TensorView& from, const Shape& from_start, const TensorView& to, const Shape& to_start, const Shape& extent);
void add_tile(const TensorView& from, const Shape& from_start, const TensorView& to, const Shape& to_start, const Shape& extent);

/// The piece of a global tensor that the device at `position` holds; the layout is not Partial.
Tensor piece_of(const TensorView& global, const Mesh& mesh, const Layout& layout, std::int64_t position);
/// The global tensor of local ones, one a position.
Tensor assemble(std::span<const TensorView> locals, const Mesh& mesh, const Layout& layout, const TensorType& type);

}  // namespace skirl
