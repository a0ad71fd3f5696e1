#include "runtime/tiles.h"

#include <algorithm>
#include <cstring>

#include "ir/error.h"

namespace skirl {
namespace {

/// An overlap, along one dimension, of what a source and the target hold. `source` is what the coordinates along the axes that cut the
/// dimension add to the position of the source.
struct Overlap {
  std::int64_t source = 0;
  std::int64_t source_start = 0;
  std::int64_t target_start = 0;
  std::int64_t extent = 0;
};

std::vector<std::int64_t> strides_of(const Mesh& mesh) {
  std::vector<std::int64_t> strides(mesh.axes.size(), 1);
  for (std::size_t a = strides.size(); a-- > 1;) strides[a - 1] = strides[a] * mesh.axes[a].size;
  return strides;
}

/// All positions that differ from position 0 along `axes` alone, in coordinate order.
std::vector<std::int64_t> positions_along(const Mesh& mesh, const std::vector<std::int64_t>& strides,
                                          const std::vector<std::uint8_t>& axes) {
  std::vector<std::int64_t> positions{0};
  for (const std::uint8_t axis : axes) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t p : positions)
      for (std::int64_t c = 0; c < mesh.axes[axis].size; ++c) longer.push_back(p + c * strides[axis]);
    positions = std::move(longer);
  }
  return positions;
}

std::vector<Overlap> overlaps(const Mesh& mesh, const Layout& from, std::size_t dim, std::int64_t size, const std::vector<Interval>& own) {
  std::vector<Overlap> found;
  for (const std::int64_t position : positions_along(mesh, strides_of(mesh), from.cut(dim).axes)) {
    std::int64_t held = 0;  // elements of the source before interval s
    for (const Interval& s : local_intervals(mesh, from, dim, size, position)) {
      std::int64_t filled = 0;
      for (const Interval& t : own) {
        const std::int64_t begin = std::max(s.begin, t.begin);
        const std::int64_t end = std::min(s.end, t.end);
        if (begin < end) found.push_back({position, held + begin - s.begin, filled + begin - t.begin, end - begin});
        filled += t.size();
      }
      held += s.size();
    }
  }
  return found;
}

const Partial* partial_along(const Layout& layout, std::uint8_t axis) {
  for (const Partial& p : layout.partial)
    if (p.axis == axis) return &p;
  return nullptr;
}

/// Where the sources of the moves start (their coordinates along axes that cut no dimension), and which of them are reduced.
struct Sources {
  bool none = false;  // the piece is zeros
  Reduction reduction = Reduction::Sum;
  std::vector<std::int64_t> positions;
};

Sources sources_for(const Mesh& from_mesh, const Layout& from, const Mesh& to_mesh, const Layout& to, bool same_mesh,
                    std::int64_t to_position) {
  Sources sources;
  for (const Partial& p : to.partial) {
    const Partial* before = same_mesh ? partial_along(from, p.axis) : nullptr;
    const bool kept = before && before->reduction == p.reduction;
    if (!kept && p.reduction == Reduction::Sum && to_mesh.coordinate(to_position, p.axis) != 0) sources.none = true;
  }
  const std::vector<std::int64_t> strides = strides_of(from_mesh);
  std::int64_t first = 0;
  std::vector<std::uint8_t> reduced;
  std::vector<std::uint8_t> replicas;
  for (std::uint8_t axis = 0; axis < from_mesh.axes.size(); ++axis) {
    if (const Partial* p = partial_along(from, axis)) {
      const Partial* after = same_mesh ? partial_along(to, axis) : nullptr;
      if (after && after->reduction == p->reduction) {
        first += from_mesh.coordinate(to_position, axis) * strides[axis];
      } else {
        SKIRL_CHECK(reduced.empty() || sources.reduction == p->reduction, "one change of layout reduces by sum and by max");
        sources.reduction = p->reduction;
        reduced.push_back(axis);
      }
    } else if (from.dim_cut_by(axis) < 0) {
      if (same_mesh)
        first += from_mesh.coordinate(to_position, axis) * strides[axis];
      else
        replicas.push_back(axis);
    }
  }
  if (!replicas.empty()) {
    const std::vector<std::int64_t> copies = positions_along(from_mesh, strides, replicas);
    first += copies[static_cast<std::size_t>(to_position) % copies.size()];
  }
  for (const std::int64_t p : positions_along(from_mesh, strides, reduced)) sources.positions.push_back(first + p);
  return sources;
}

/// Calls row(from element, to element, elements) for each run of elements of a box that lie side by side in both tensors.
template <class F>
void for_each_row(const Shape& from, const Shape& from_start, const Shape& to, const Shape& to_start, const Shape& extent, F&& row) {
  if (elems(extent) == 0) return;
  std::size_t rank = extent.size();
  std::int64_t width = 1;  // of a run, in elements
  std::int64_t from_inner = 1;
  std::int64_t to_inner = 1;
  // Whole rows side by side are one longer run.
  while (rank > 0 && width == from_inner && width == to_inner) {
    --rank;
    width *= extent[rank];
    from_inner *= from[rank];
    to_inner *= to[rank];
  }
  std::int64_t source = 0;
  std::int64_t target = 0;
  for (std::size_t d = 0; d < extent.size(); ++d) {
    source = source * from[d] + from_start[d];
    target = target * to[d] + to_start[d];
  }
  if (rank == 0) return row(source, target, width);
  Shape at(rank, 0);
  while (true) {
    row(source, target, width);
    std::int64_t from_stride = from_inner;
    std::int64_t to_stride = to_inner;
    std::size_t d = rank;
    while (d-- > 0) {
      source += from_stride;
      target += to_stride;
      if (++at[d] < extent[d]) break;
      source -= from_stride * extent[d];
      target -= to_stride * extent[d];
      at[d] = 0;
      from_stride *= from[d];
      to_stride *= to[d];
    }
    if (d >= rank) return;  // every dimension has wrapped round
  }
}

/// For elements that are computed in the type they are stored in; in the same order as reduce_rows.
template <class T>
void reduce_stored(const Move& move, std::span<const TensorView> sources, const TensorView& target) {
  for_each_row(sources.front().shape, move.source_start, target.shape, move.target_start, move.extent,
               [&](std::int64_t from, std::int64_t to, std::int64_t width) {
                 T* out = target.as<T>() + to;
                 std::copy_n(sources.front().as<T>() + from, width, out);
                 for (const TensorView& source : sources.subspan(1)) {
                   const T* in = source.as<T>() + from;
                   if (move.reduction == Reduction::Sum)
                     for (std::int64_t i = 0; i < width; ++i) out[i] += in[i];
                   else
                     for (std::int64_t i = 0; i < width; ++i) out[i] = std::max(out[i], in[i]);
                 }
               });
}

template <class T>
void reduce_rows(const Move& move, std::span<const TensorView> sources, const TensorView& target) {
  for_each_row(sources.front().shape, move.source_start, target.shape, move.target_start, move.extent,
               [&](std::int64_t from, std::int64_t to, std::int64_t width) {
                 for (std::int64_t i = 0; i < width; ++i) {
                   T value = static_cast<T>(load_element(target.dtype, sources.front().data, from + i));
                   for (const TensorView& source : sources.subspan(1)) {
                     const T next = static_cast<T>(load_element(target.dtype, source.data, from + i));
                     value = move.reduction == Reduction::Sum ? value + next : std::max(value, next);
                   }
                   store_element(target.dtype, target.data, to + i, static_cast<double>(value));
                 }
               });
}

}  // namespace

std::vector<Move> moves_to(const Mesh& from_mesh, const Layout& from, const Mesh& to_mesh, const Layout& to, bool same_mesh,
                           const Shape& shape, std::int64_t to_position) {
  std::vector<Move> moves;
  const Sources sources = sources_for(from_mesh, from, to_mesh, to, same_mesh, to_position);
  if (sources.none) return moves;
  std::vector<std::vector<Overlap>> dims;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    dims.push_back(overlaps(from_mesh, from, d, shape[d], local_intervals(to_mesh, to, d, shape[d], to_position)));
    if (dims.back().empty()) return moves;
  }
  std::vector<std::size_t> chosen(shape.size(), 0);
  while (true) {
    Move move;
    move.reduction = sources.reduction;
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Overlap& o = dims[d][chosen[d]];
      offset += o.source;
      move.source_start.push_back(o.source_start);
      move.target_start.push_back(o.target_start);
      move.extent.push_back(o.extent);
    }
    for (const std::int64_t p : sources.positions) move.sources.push_back(static_cast<int>(p + offset));
    moves.push_back(std::move(move));
    std::size_t d = shape.size();
    while (d-- > 0) {
      if (++chosen[d] < dims[d].size()) break;
      chosen[d] = 0;
    }
    if (d >= shape.size()) return moves;
  }
}

void apply(const Move& move, std::span<const TensorView> sources, const TensorView& target) {
  if (sources.size() == 1) return copy_tile(sources.front(), move.source_start, target, move.target_start, move.extent);
  switch (target.dtype) {
    case DType::F64:
      return reduce_stored<double>(move, sources, target);
    case DType::F32:
      return reduce_stored<float>(move, sources, target);
    case DType::I64:
      return reduce_stored<std::int64_t>(move, sources, target);
    case DType::I32:
    case DType::Bool:
      return reduce_rows<std::int64_t>(move, sources, target);
    default:
      return reduce_rows<float>(move, sources, target);
  }
}

void copy_tile(const TensorView& from, const Shape& from_start, const TensorView& to, const Shape& to_start, const Shape& extent) {
  const std::size_t size = static_cast<std::size_t>(size_bytes(from.dtype));
  for_each_row(from.shape, from_start, to.shape, to_start, extent, [&](std::int64_t source, std::int64_t target, std::int64_t width) {
    std::memcpy(to.as<std::byte>() + static_cast<std::size_t>(target) * size,
                from.as<std::byte>() + static_cast<std::size_t>(source) * size, static_cast<std::size_t>(width) * size);
  });
}

void add_tile(const TensorView& from, const Shape& from_start, const TensorView& to, const Shape& to_start, const Shape& extent) {
  for_each_row(from.shape, from_start, to.shape, to_start, extent, [&](std::int64_t source, std::int64_t target, std::int64_t width) {
    for (std::int64_t i = 0; i < width; ++i)
      store_element(to.dtype, to.data, target + i,
                    load_element(to.dtype, to.data, target + i) + load_element(from.dtype, from.data, source + i));
  });
}

Tensor piece_of(const TensorView& global, const Mesh& mesh, const Layout& layout, std::int64_t position) {
  Tensor local(global.dtype, local_shape(mesh, layout, global.shape, position));
  for (const Move& move : moves_to(Mesh{}, Layout{}, mesh, layout, false, global.shape, position)) apply(move, {&global, 1}, local.view());
  return local;
}

Tensor assemble(std::span<const TensorView> locals, const Mesh& mesh, const Layout& layout, const TensorType& type) {
  Tensor global(type.dtype, type.shape);
  std::vector<TensorView> sources;
  for (const Move& move : moves_to(mesh, layout, Mesh{}, Layout{}, false, type.shape, 0)) {
    sources.clear();
    for (const int p : move.sources) sources.push_back(locals[static_cast<std::size_t>(p)]);
    apply(move, sources, global.view());
  }
  return global;
}

}  // namespace skirl
