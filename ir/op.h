#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "ir/id.h"
#include "ir/layout.h"
#include "ir/type.h"

/// What an operator is (shape, factor rule, derivative, cost) stands once, in the operator table.
namespace skirl {

enum class Op : std::uint8_t {
  // signature
  Input, Param, State, Output,
  // compute
  Einsum, Add, Mul, Scale, Tanh, TanhGrad, Gelu, GeluGrad, Silu, SiluGrad, Swiglu, SwigluGrad, SumTo,
  LayerNorm, LayerNormBI, LayerNormBW, RmsNorm, RmsNormBI, RmsNormBW,
  RowSum, RowSumSq, NormApply, NormDots, NormBIApply,
  Rope, Attention, AttentionBI, AttentionPiece, AttentionPieceBI, AttentionMerge, Embedding, EmbeddingBW,
  SoftmaxXent, SoftmaxXentBI, CountValid, RowMax, SumExp, Pick, XentMerge,
  SqError, SqErrorBI, Loss, LossScale,
  Dropout, Sum, Slice, Pad, Concat, Cast, Fill, Iota,
  // update
  SumSq, ClipCoef, Sgd, AdamW,
  // changes of layout; Shard is Replicate→Shard and ZeroRest is Replicate→Partial, both free
  AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Permute, LocalSlice, ZeroRest,
  // between meshes
  Send, Recv, View, Join,
  // order only
  Fence,
};
inline constexpr int kOpCount = static_cast<int>(Op::Fence) + 1;

enum class OpClass : std::uint8_t { Signature, Compute, Update, Collective, Transfer, Order };

/// What a factor of an operator's rule allows (DESIGN: factor rule).
enum class FactorKind : std::uint8_t {
  Free,    // a result that has it is cut with it; one that lacks it is the same on all devices
  Sum,     // a result that lacks it becomes Partial(sum) when it is cut; one that has it is cut
  Max,     // a result that lacks it becomes Partial(max) when it is cut
  Whole,   // never cut
  Picked,  // an index selects along it; cut, each device answers for its own part and the result is Partial(sum)
  Prefix,  // row i reads 0…i
};

struct Factor {
  std::string name;  // one word, for messages: "b", "s", "h"
  std::int64_t size = 1;
  FactorKind kind = FactorKind::Free;
};

/// The factors whose product a dimension is, outermost first, as indices into `factors`. Empty: the dimension has size 1 (broadcast) and is
/// not cut.
using DimFactors = std::vector<std::uint16_t>;

enum class Linear : std::uint8_t {
  None,
  Each,      // in each of `linear_operands` alone, the others fixed (matmul)
  Together,  // in all of them at once (sum)
};

/// Einsum-like rule of one operator at given types: which dimensions go together, and where the operator is linear.
struct FactorRule {
  std::vector<Factor> factors;
  std::vector<std::vector<DimFactors>> operands;  // [operand][dim]
  std::vector<std::vector<DimFactors>> results;   // [result][dim]
  Linear linear = Linear::None;
  std::vector<std::uint8_t> linear_operands;  // [operand] 1 if it may be Partial; then the result is
  double flops_per_point = 0;                 // FLOPs = this × the product of all factor sizes
  /// A factor that is cut into given pieces only, and turned: in operand (result) i, coordinate c of its one axis holds piece
  /// (c + turn) mod n.
  struct Ring {
    int factor = -1;  // −1: none
    IntervalTable pieces;
    std::vector<std::int32_t> operand_turn, result_turn;  // by operand (result)
  } ring;

  /// Factor that is outermost in dimension `dim` of operand (result) i, or −1.
  int operand_factor(std::size_t i, std::size_t dim) const;
  int result_factor(std::size_t i, std::size_t dim) const;
  /// Dimension of operand (result) i whose outermost factor is `factor`, or −1.
  int operand_dim(std::size_t i, int factor) const;
  int result_dim(std::size_t i, int factor) const;
};

/// One application of an operator, as the table sees it. `results` are the result types: given to `rule`, and to the `infer` of what has no
/// operands to tell them (input, param, state).
struct OpCall {
  Op op;
  const Attrs& attrs;
  std::span<const TensorType> operands;
  std::span<const TensorType> results = {};
};

class Derivation;  // ir/derivation.h

struct OpInfo {
  Op op;
  const char* name;  // as in the text form
  const char* help;  // one line
  OpClass op_class;
  int min_operands;
  int max_operands;          // −1: any number
  std::size_t attrs_index;   // which alternative of Attrs
  /// Result types. Throws Error naming the operand, what was found and what was expected.
  std::vector<TensorType> (*infer)(const OpCall&);
  FactorRule (*rule)(const OpCall&);
  /// Emits the nodes of the derivative, BI and BW apart; null where there is none.
  void (*derive)(Derivation&);
};

const OpInfo& info(Op op);
std::optional<Op> op_named(std::string_view name);
std::vector<std::string> op_names();

/// Operators that only change how a value lies on its mesh.
inline bool is_collective(Op op) { return op >= Op::AllReduce && op <= Op::ZeroRest; }
/// Changes of layout that need no communication.
inline bool is_free_change(Op op) { return op == Op::LocalSlice || op == Op::ZeroRest; }
inline bool is_signature(Op op) { return op <= Op::Output; }
inline bool is_transfer(Op op) { return op == Op::Send || op == Op::Recv; }
/// Collectives and transfers, the free ones included, and view and join: what stands between compute nodes.
inline bool is_communication(Op op) { return op >= Op::AllReduce && op <= Op::Join; }
/// Nodes that compute: neither signature, communication nor order.
inline bool is_compute(Op op) { return op > Op::Output && op < Op::AllReduce; }

/// Operators whose result depends on where in the whole an element stands: their nodes carry an origin.
inline bool depends_on_position(Op op) {
  return op == Op::Input || op == Op::Rope || op == Op::Attention || op == Op::AttentionBI || op == Op::Embedding || op == Op::EmbeddingBW ||
         op == Op::Pick || op == Op::SoftmaxXentBI || op == Op::Dropout || op == Op::AttentionPiece || op == Op::AttentionPieceBI ||
         op == Op::Iota;
}

/// FLOPs of one call from its factor rule.
double flops(const FactorRule& rule);

/// The attributes with which `infer` gives these result types from these operand types: sizes that attributes state (sum_to, embedding_bw,
/// fill) follow the results, all else stays. For whoever clones a node at other sizes.
Attrs localized(const OpCall& call);

}  // namespace skirl
