#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "ir/interner.h"
#include "ir/layout.h"
#include "ir/type.h"

/// Typed attributes, one struct a kind of operator. Each lists its fields once, in `fields`; hashing, the text form and the plan file
/// read that list. A field is a bool, an integer, a double, a string, a dtype, a list of integers, an optional
/// number, or a table of intervals.
namespace skirl {

struct NoAttrs {
  bool operator==(const NoAttrs&) const = default;
  template <class F>
  static void fields(F&&) {}
};

struct InputAttrs {
  std::optional<std::int64_t> cut;                      // the batch dimension; none: the same for all microbatches and devices
  std::optional<std::int64_t> range;                    // integers lie in [0, range): vocabulary, classes
  std::optional<std::int64_t> sequence = std::nullopt;  // the dimension of positions; none: it has no positions
  bool operator==(const InputAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("cut", &InputAttrs::cut);
    f("sequence", &InputAttrs::sequence);
    f("range", &InputAttrs::range);
  }
};

/// Initial value of a parameter, keyed by (name, seed, global index): "normal" with standard deviation `scale`, "uniform" in
/// [−scale, scale], or "constant" of value `scale`.
struct ParamAttrs {
  std::string init = "normal";
  double scale = 0.02;
  bool trainable = true;
  bool operator==(const ParamAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("init", &ParamAttrs::init);
    f("scale", &ParamAttrs::scale);
    f("trainable", &ParamAttrs::trainable);
  }
};

/// Optimizer state of the parameter `of`, zero at the start.
struct StateAttrs {
  std::string of;
  bool operator==(const StateAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("of", &StateAttrs::of);
  }
};

/// What leaves the step: kind is "loss", "metric", "gradient", "param" or "state"; the node's name says which one.
struct OutputAttrs {
  std::string kind = "loss";
  bool operator==(const OutputAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("kind", &OutputAttrs::kind);
  }
};

/// One letter a dimension: "bsh,hf->bsf".
struct EinsumAttrs {
  std::string spec;
  bool operator==(const EinsumAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("spec", &EinsumAttrs::spec);
  }
};

struct ScaleAttrs {
  double factor = 1;
  bool operator==(const ScaleAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("factor", &ScaleAttrs::factor);
  }
};

/// Result shape where the operands do not tell it (sum_to, embedding_bw, iota).
struct ShapeAttrs {
  std::vector<std::int64_t> shape;
  bool operator==(const ShapeAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("shape", &ShapeAttrs::shape);
  }
};

struct FillAttrs {
  std::vector<std::int64_t> shape;
  DType dtype = DType::F32;
  double value = 0;
  bool operator==(const FillAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("shape", &FillAttrs::shape);
    f("dtype", &FillAttrs::dtype);
    f("value", &FillAttrs::value);
  }
};

struct NormAttrs {
  double eps = 1e-5;
  bool operator==(const NormAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("eps", &NormAttrs::eps);
  }
};

/// Rotary positions over dimension 1 (sequence), pairs (i, i + d/2) of the last; `inverse` turns back (the derivative). `factor` and the
/// three after it stand together: they slow down the pairs that turn slowly, as Llama 3.1 does for contexts longer than the `original` one.
struct RopeAttrs {
  double base = 10000;
  bool inverse = false;
  std::optional<double> factor = std::nullopt;  // pairs that turn less than `low` times in the original context turn slower by this
  std::optional<double> low = std::nullopt;
  std::optional<double> high = std::nullopt;            // those that turn more often than this keep their speed; between: a mixture
  std::optional<std::int64_t> original = std::nullopt;  // context of the first training, in tokens
  bool operator==(const RopeAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("base", &RopeAttrs::base);
    f("inverse", &RopeAttrs::inverse);
    f("factor", &RopeAttrs::factor);
    f("low", &RopeAttrs::low);
    f("high", &RopeAttrs::high);
    f("original", &RopeAttrs::original);
  }
};

/// Radians by which pair i of d/2 turns from one position to the next.
double rope_speed(const RopeAttrs& attrs, std::int64_t pair, std::int64_t pairs);

struct AttentionAttrs {
  bool causal = true;
  double scale = 1;  // of q·k
  bool operator==(const AttentionAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("causal", &AttentionAttrs::causal);
    f("scale", &AttentionAttrs::scale);
  }
};

/// One of the n pieces that attention over a sequence opens into (ir/opening.h): a query in piece c sees the keys of piece (c + turn) mod n
/// only, of those that `causal` lets it see. Piece i is row i of the table, n its length.
struct AttentionPieceAttrs {
  bool causal = true;
  double scale = 1;  // of q·k
  IntervalTable pieces;
  std::int64_t turn = 0;
  bool operator==(const AttentionPieceAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("causal", &AttentionPieceAttrs::causal);
    f("scale", &AttentionPieceAttrs::scale);
    f("pieces", &AttentionPieceAttrs::pieces);
    f("turn", &AttentionPieceAttrs::turn);
  }
};

/// Labels equal to `ignore` do not count; none: all count.
struct LabelAttrs {
  std::optional<std::int64_t> ignore;
  bool operator==(const LabelAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("ignore", &LabelAttrs::ignore);
  }
};

/// A loss is weight · sum / count. `count` is the static count of the whole batch; none: the node's second operand says it.
struct LossAttrs {
  double weight = 1;
  std::optional<std::int64_t> count;
  bool operator==(const LossAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("weight", &LossAttrs::weight);
    f("count", &LossAttrs::count);
  }
};

/// Probability of zeroing an element, 0 ≤ p < 1; the rest is scaled by 1/(1−p).
struct DropoutAttrs {
  double p = 0.1;
  bool operator==(const DropoutAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("p", &DropoutAttrs::p);
  }
};

/// Operands are added in their order, in this type, and rounded once at the end.
struct SumAttrs {
  DType accumulate = DType::F64;
  bool operator==(const SumAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("accumulate", &SumAttrs::accumulate);
  }
};

/// Elements [start, start + size) of dimension `dim`.
struct SliceAttrs {
  std::int64_t dim = 0;
  std::int64_t start = 0;
  std::int64_t size = 0;
  bool operator==(const SliceAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("dim", &SliceAttrs::dim);
    f("start", &SliceAttrs::start);
    f("size", &SliceAttrs::size);
  }
};

/// The operand at `start` of a dimension of `size`, zeros around it (the derivative of slice).
struct PadAttrs {
  std::int64_t dim = 0;
  std::int64_t start = 0;
  std::int64_t size = 0;
  bool operator==(const PadAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("dim", &PadAttrs::dim);
    f("start", &PadAttrs::start);
    f("size", &PadAttrs::size);
  }
};

struct ConcatAttrs {
  std::int64_t dim = 0;
  bool operator==(const ConcatAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("dim", &ConcatAttrs::dim);
  }
};

struct CastAttrs {
  DType dtype = DType::F32;
  bool operator==(const CastAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("dtype", &CastAttrs::dtype);
  }
};

/// Global-norm clipping: coefficient min(1, max_norm / (norm + eps)).
struct ClipAttrs {
  double max_norm = 1;
  double eps = 1e-6;
  bool operator==(const ClipAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("max_norm", &ClipAttrs::max_norm);
    f("eps", &ClipAttrs::eps);
  }
};

/// v ← momentum·v + g + weight_decay·p;  p ← p − lr·v. With momentum 0 there is no state.
struct SgdAttrs {
  double lr = 0.1;
  double momentum = 0;
  double weight_decay = 0;
  bool operator==(const SgdAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("lr", &SgdAttrs::lr);
    f("momentum", &SgdAttrs::momentum);
    f("weight_decay", &SgdAttrs::weight_decay);
  }
};

/// Loshchilov and Hutter, arXiv:1711.05101. The step number (1, 2, …) is given by who runs the step.
struct AdamWAttrs {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool operator==(const AdamWAttrs&) const = default;
  template <class F>
  static void fields(F&& f) {
    f("lr", &AdamWAttrs::lr);
    f("beta1", &AdamWAttrs::beta1);
    f("beta2", &AdamWAttrs::beta2);
    f("eps", &AdamWAttrs::eps);
    f("weight_decay", &AdamWAttrs::weight_decay);
  }
};

using Attrs = std::variant<NoAttrs, InputAttrs, ParamAttrs, StateAttrs, OutputAttrs, EinsumAttrs, ScaleAttrs, ShapeAttrs, FillAttrs,
                           NormAttrs, RopeAttrs, AttentionAttrs, AttentionPieceAttrs, LabelAttrs, LossAttrs, DropoutAttrs, SumAttrs,
                           SliceAttrs, PadAttrs, ConcatAttrs, CastAttrs, ClipAttrs, SgdAttrs, AdamWAttrs>;

/// Calls f(name, value) for each field of whichever struct `attrs` holds.
template <class F>
void for_each_field(const Attrs& attrs, F&& f) {
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields([&](const char* name, auto member) { f(name, a.*member); }); }, attrs);
}
template <class F>
void for_each_field(Attrs& attrs, F&& f) {
  std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields([&](const char* name, auto member) { f(name, a.*member); }); }, attrs);
}

std::size_t hash_attrs(const Attrs& attrs);

struct AttrsHash {
  std::size_t operator()(const Attrs& attrs) const { return hash_attrs(attrs); }
};

}  // namespace skirl
