#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "ir/builder.h"
#include "ir/graph.h"

namespace skirl {

inline constexpr std::int64_t kIgnoredLabel = -1;

/// A linear layer over the dimensions behind batch and sequence: their letters in the einsum, and their sizes.
struct LinearParams {
  std::string in;  // "h", "nd"
  Shape in_sizes;
  std::string out;
  Shape out_sizes;
  double deviation = 0.02;
  bool bias = false;
  std::int64_t rank = 0;  // above 0: the weight is the product of two, [in…, rank] and [rank, out…]
};

/// States a model in C++: the forward part of a step, on one device.
///
///     ModelBuilder m(DType::F32);
///     const ValueId x = m.input("x", {8, 4}, 0), y = m.input("y", {8, 4}, 0);
///     const auto layer = m.tag("LAYER", 0);
///     m.mse("mse", m.einsum("bi,ij->bj", x, m.param("w", {4, 4}, 0.5)), y);
///     Graph graph = m.take();
///
/// A node gets the tags of the scopes that are open; a parameter gets those that all its readers share. Names are unique among nodes, since
/// they key random numbers; a node without a name is given one by `differentiate`.
class ModelBuilder {
 public:
  explicit ModelBuilder(DType dtype = DType::F32) : dtype_(dtype), builder_(graph_) {}
  ModelBuilder(const ModelBuilder&) = delete;
  ModelBuilder& operator=(const ModelBuilder&) = delete;

  /// While it lives, nodes get the tag.
  class [[nodiscard]] Scope {
   public:
    Scope(Builder& builder, TagSetId tags) : builder_(builder), before_(builder.tags) { builder_.tags = tags; }
    ~Scope() { builder_.tags = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    TagSetId before_;
  };
  Scope tag(std::string_view name, std::int64_t value);
  Scope tag(std::string_view name, std::string_view word);

  /// `cut` is the batch dimension; none: the same for all microbatches and devices. `sequence` is the dimension of positions, if there is
  /// one.
  ValueId input(std::string_view name, const Shape& shape, std::optional<std::int64_t> cut,
                std::optional<std::int64_t> sequence = std::nullopt);
  /// Integers in [0, range).
  ValueId indices(std::string_view name, const Shape& shape, std::optional<std::int64_t> cut, std::int64_t range,
                  std::optional<std::int64_t> sequence = std::nullopt);
  /// Normal with this standard deviation.
  ValueId param(std::string_view name, const Shape& shape, double deviation);
  ValueId param(std::string_view name, const Shape& shape, const ParamAttrs& attrs);

  /// The first result of a new node.
  ValueId op(Op op, std::initializer_list<ValueId> operands, const Attrs& attrs = NoAttrs{}, std::string_view name = {});
  ValueId einsum(std::string_view spec, ValueId a, ValueId b, std::string_view name = {});
  ValueId add(ValueId a, ValueId b) { return op(Op::Add, {a, b}); }
  ValueId tanh(ValueId x) { return op(Op::Tanh, {x}); }
  ValueId gelu(ValueId x) { return op(Op::Gelu, {x}); }
  /// x[b, s, in…] → [b, s, out…], with the parameters `name`.w (of low rank: `name`.in.w and `name`.out.w) and, if it has one, the bias
  /// `name`.b.
  ValueId linear(ValueId x, const std::string& name, const LinearParams& params);
  /// With its two parameters, `name`.gamma and `name`.beta.
  ValueId layer_norm(ValueId x, std::string_view name, double eps = 1e-5);
  /// With its parameter `name`.gamma.
  ValueId rms_norm(ValueId x, std::string_view name, double eps);
  /// Itself where p is 0.
  ValueId dropout(ValueId x, double p, std::string_view name);

  /// weight · mean of the squares of x − y over all elements.
  void mse(std::string_view name, ValueId x, ValueId y, double weight = 1);
  /// weight · mean cross-entropy over the labels that are not `ignore`.
  void softmax_xent(std::string_view name, ValueId logits, ValueId labels, std::optional<std::int64_t> ignore = std::nullopt,
                    double weight = 1);

  DType dtype() const { return dtype_; }
  Graph& graph() { return graph_; }
  /// The finished model; the builder is empty afterwards.
  Graph take();

 private:
  DType dtype_;
  Graph graph_;
  Builder builder_;
};

}  // namespace skirl
