#include <algorithm>
#include <cmath>

#include "ir/derivation.h"
#include "ir/error.h"
#include "ir/ops/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

std::vector<TensorType> infer_rope(const OpCall& call) {
  const RopeAttrs& attrs = attrs_of<RopeAttrs>(call);
  const auto positive = [&](const char* field, double value) {
    if (!std::isfinite(value) || value <= 0) refuse_attr(call, field, to_text(value), "a finite number above zero");
  };
  positive("base", attrs.base);
  if (attrs.factor.has_value() != attrs.low.has_value() || attrs.factor.has_value() != attrs.high.has_value() ||
      attrs.factor.has_value() != attrs.original.has_value())
    throw Error("rope: only some of factor, low, high and original are given, expected all or none");
  if (attrs.factor) {
    positive("factor", *attrs.factor);
    positive("low", *attrs.low);
    positive("high", *attrs.high);
    if (*attrs.high <= *attrs.low) refuse_attr(call, "high", to_text(*attrs.high), "a number above low, " + to_text(*attrs.low));
    if (*attrs.original <= 0) refuse_attr(call, "original", std::to_string(*attrs.original), "a number above zero");
  }
  expect_float(call, 0);
  expect_rank(call, 0, 4);
  if (call.operands[0].shape[3] % 2 != 0) refuse_operand(call, 0, "an even last dimension, for it is turned in pairs");
  return infer_same(call);
}

FactorRule rope_rule(const OpCall& call) {
  return costing(linear_in(rule_from(call, "b s n d -> b s n d", {{"d", FactorKind::Whole}}), {0}), 3);
}

void derive_rope(Derivation& d) {
  RopeAttrs attrs = std::get<RopeAttrs>(d.attrs());
  attrs.inverse = !attrs.inverse;
  d.set_operand_grad(0, d.emit(d.phase(0), Op::Rope, {d.result_grad()}, attrs, true));
}

/// Checks q[b s n d], k[b t m d], v[b t m e]; gives the types of o[b s n e] and of lse[b s n].
std::vector<TensorType> infer_any_attention(const OpCall& call, bool causal, double scale) {
  expect_finite(call, "scale", scale);
  for (std::size_t i = 0; i < 3; ++i) {
    expect_float(call, i);
    expect_rank(call, i, 4);
    if (call.operands[i].dtype != call.operands[0].dtype)
      refuse_operand(call, i, "the element type of operand 0, " + std::string(name(call.operands[0].dtype)));
  }
  const Shape& q = call.operands[0].shape;
  const Shape& k = call.operands[1].shape;
  const Shape& v = call.operands[2].shape;
  if (k[0] != q[0]) refuse_operand(call, 1, "a batch of " + std::to_string(q[0]) + ", " + dim_text(0, 0, q[0]));
  if (k[3] != q[3]) refuse_operand(call, 1, "heads of width " + std::to_string(q[3]) + ", " + dim_text(0, 3, q[3]));
  if (k[2] == 0 ? q[2] != 0 : q[2] % k[2] != 0)
    refuse_operand(call, 1, "a number of heads that divides the " + std::to_string(q[2]) + " of the queries, " + dim_text(0, 2, q[2]));
  if (causal && k[1] < q[1]) refuse_operand(call, 1, "at least as many keys as queries for causal attention, " + dim_text(0, 1, q[1]));
  if (v[0] != k[0] || v[1] != k[1] || v[2] != k[2])
    refuse_operand(call, 2, "the first three dimensions of the keys, " + to_string(call.operands[1]));
  return {legal(call, {call.operands[0].dtype, {q[0], q[1], q[2], v[3]}}), {wide(call.operands[0].dtype), {q[0], q[1], q[2]}}};
}

std::vector<TensorType> infer_attention(const OpCall& call) {
  const AttentionAttrs& attrs = attrs_of<AttentionAttrs>(call);
  return infer_any_attention(call, attrs.causal, attrs.scale);
}

/// FLOPs of `qk` products over d and `pv` products over e for each pair of query and key, as a cost a point of all factors; `seen` is how
/// many pairs count for each of those points.
double attention_cost(const OpCall& call, double seen, double qk, double pv) {
  const double d = static_cast<double>(call.operands[0].shape[3]);
  const double e = static_cast<double>(call.operands[2].shape[3]);
  return d > 0 && e > 0 ? seen * 2 * (qk * d + pv * e) / (d * e) : 0;
}
double seen_part(const OpCall& call) { return attrs_of<AttentionAttrs>(call).causal ? 0.5 : 1; }

FactorRule attention_rule(const OpCall& call) {
  const FactorKind rows = attrs_of<AttentionAttrs>(call).causal ? FactorKind::Prefix : FactorKind::Free;
  return costing(rule_from(call, "b s (g r) d, b t g d, b t g e -> b s (g r) e, b s (g r)",
                           {{"s", rows}, {"t", FactorKind::Whole}, {"d", FactorKind::Whole}}),
                 attention_cost(call, seen_part(call), 1, 1));
}

void derive_attention(Derivation& d) {
  if (d.result_grad(1).valid())
    throw Error("differentiate: a loss depends on result 1 of " + describe(d.graph(), d.forward()) + ", expected on result 0 only");
  const AttentionAttrs attrs = std::get<AttentionAttrs>(d.attrs());
  const NodeId all = d.emit_node(Phase::BI, Op::AttentionBI,
                                 {d.operand(0), d.operand(1), d.operand(2), d.result(0), d.result(1), d.result_grad()}, attrs, true);
  for (std::size_t i = 0; i < 3; ++i)
    if (d.needs(i)) d.set_operand_grad(i, d.graph().result(all, i));
}

std::vector<TensorType> infer_attention_bi(const OpCall& call) {
  const std::vector<TensorType> forward = infer_attention(call);
  expect_type(call, 3, forward[0].dtype, forward[0].shape);
  expect_type(call, 4, forward[1].dtype, forward[1].shape);
  expect_type(call, 5, forward[0].dtype, forward[0].shape);
  return {call.operands[0], call.operands[1], call.operands[2]};
}

/// Queries and their repeats add up in dk and dv; the value width adds up in dq and dk.
FactorRule attention_bi_rule(const OpCall& call) {
  return costing(
      linear_in(
          rule_from(
              call, "b s (g r) d, b t g d, b t g e, b s (g r) e, b s (g r), b s (g r) e -> b s (g r) d, b t g d, b t g e",
              {{"s", FactorKind::Sum}, {"r", FactorKind::Sum}, {"e", FactorKind::Sum}, {"t", FactorKind::Whole}, {"d", FactorKind::Whole}}),
          {5}),
      attention_cost(call, seen_part(call), 3, 2));
}

// ---- attention in pieces of the sequence

/// What is wrong with a table of pieces of a sequence of this length; empty if every position is in one piece.
std::string pieces_fault(const IntervalTable& pieces, std::int64_t length) {
  std::vector<Interval> all;
  for (const std::vector<Interval>& own : pieces) {
    for (std::size_t i = 1; i < own.size(); ++i)
      if (own[i].begin < own[i - 1].end) return "intervals of a piece that are not sorted";
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::int64_t covered = 0;
  for (const Interval& interval : all) {
    if (interval.begin != covered || interval.end <= interval.begin)
      return "pieces that do not have position " + std::to_string(std::min(covered, interval.begin)) + " once";
    covered = interval.end;
  }
  return covered == length ? "" : "pieces of " + std::to_string(covered) + " positions";
}

std::vector<TensorType> infer_attention_piece(const OpCall& call) {
  const AttentionPieceAttrs& attrs = attrs_of<AttentionPieceAttrs>(call);
  std::vector<TensorType> types = infer_any_attention(call, attrs.causal, attrs.scale);
  const std::int64_t length = call.operands[0].shape[1];
  if (call.operands[1].shape[1] != length) refuse_operand(call, 1, "as many keys as queries, " + dim_text(0, 1, length));
  const auto count = static_cast<std::int64_t>(attrs.pieces.size());
  if (count == 0) refuse_attr(call, "pieces", "{}", "at least one piece");
  if (const std::string fault = pieces_fault(attrs.pieces, length); !fault.empty())
    refuse_attr(call, "pieces", "a table with " + fault, "each of the " + std::to_string(length) + " positions in one piece");
  if (attrs.turn < 0 || attrs.turn >= count)
    refuse_attr(call, "turn", std::to_string(attrs.turn),
                "0 to " + std::to_string(count - 1) + " for " + std::to_string(count) + " pieces");
  return types;
}

/// How many pairs of a query of `queries` and a key of `keys` there are (where `causal`: with the key not after the query).
double visible_pairs(const Interval& queries, const Interval& keys, bool causal) {
  const double all = static_cast<double>(queries.size()) * static_cast<double>(keys.size());
  if (!causal || queries.begin >= keys.end - 1) return all;
  const auto size = [](std::int64_t begin, std::int64_t end) { return static_cast<double>(std::max<std::int64_t>(0, end - begin)); };
  const double after = size(std::max(queries.begin, keys.end), queries.end);  // queries that see all of the keys
  const std::int64_t first = std::max(queries.begin, keys.begin), last = std::min(queries.end, keys.end);
  // a query at position p within the keys sees p - keys.begin + 1 of them
  const double within = size(first, last) * (static_cast<double>(first + last - 1) / 2 - static_cast<double>(keys.begin) + 1);
  return after * static_cast<double>(keys.size()) + within;
}

/// The keys that a query sees of its piece, on the average of all queries.
double seen_in_piece(const AttentionPieceAttrs& attrs, std::int64_t length) {
  double pairs = 0;
  for (std::size_t c = 0; c < attrs.pieces.size(); ++c)
    for (const Interval& queries : attrs.pieces[c])
      for (const Interval& keys : attrs.pieces[(c + static_cast<std::size_t>(attrs.turn)) % attrs.pieces.size()])
        pairs += visible_pairs(queries, keys, attrs.causal);
  return length > 0 ? pairs / static_cast<double>(length) : 0;
}

FactorRule in_ring(FactorRule rule, const AttentionPieceAttrs& attrs, std::vector<std::int32_t> operand_turn,
                   std::vector<std::int32_t> result_turn) {
  rule.ring = {rule.operand_factor(0, 1), attrs.pieces, std::move(operand_turn), std::move(result_turn)};
  return rule;
}

FactorRule attention_piece_rule(const OpCall& call) {
  const AttentionPieceAttrs& attrs = attrs_of<AttentionPieceAttrs>(call);
  const auto turn = static_cast<std::int32_t>(attrs.turn);
  return in_ring(costing(rule_from(call, "b s (g r) d, b s g d, b s g e -> b s (g r) e, b s (g r)", {{"d", FactorKind::Whole}}),
                         attention_cost(call, seen_in_piece(attrs, call.operands[0].shape[1]), 1, 1)),
                 attrs, {0, turn, turn}, {0, 0});
}

std::vector<TensorType> infer_attention_piece_bi(const OpCall& call) {
  const std::vector<TensorType> forward = infer_attention_piece(call);
  expect_type(call, 3, forward[0].dtype, forward[0].shape);
  expect_type(call, 4, forward[1].dtype, forward[1].shape);
  expect_type(call, 5, forward[0].dtype, forward[0].shape);
  return {call.operands[0], call.operands[1], call.operands[2]};
}

FactorRule attention_piece_bi_rule(const OpCall& call) {
  const AttentionPieceAttrs& attrs = attrs_of<AttentionPieceAttrs>(call);
  const auto turn = static_cast<std::int32_t>(attrs.turn);
  FactorRule rule = rule_from(call, "b s (g r) d, b s g d, b s g e, b s (g r) e, b s (g r), b s (g r) e -> b s (g r) d, b s g d, b s g e",
                              {{"r", FactorKind::Sum}, {"e", FactorKind::Sum}, {"d", FactorKind::Whole}});
  return in_ring(costing(linear_in(std::move(rule), {5}), attention_cost(call, seen_in_piece(attrs, call.operands[0].shape[1]), 3, 2)),
                 attrs, {0, turn, turn, 0, 0, 0}, {0, turn, turn});
}

/// (o, lse) of each piece → o, lse
std::vector<TensorType> infer_attention_merge(const OpCall& call) {
  expect_float(call, 0);
  expect_rank_at_least(call, 0, 1);
  const TensorType& o = call.operands[0];
  const TensorType lse{wide(o.dtype), leading(o.shape)};
  for (std::size_t i = 1; i < call.operands.size(); ++i) {
    const TensorType& type = i % 2 == 0 ? o : lse;
    expect_type(call, i, type.dtype, type.shape);
  }
  if (call.operands.size() % 2 != 0)
    throw Error("attention_merge: got " + std::to_string(call.operands.size()) + " operands, expected a log-sum-exp after each o");
  return {o, lse};
}

FactorRule attention_merge_rule(const OpCall& call) {
  std::string line = "* e, *";
  for (std::size_t i = 2; i < call.operands.size(); i += 2) line += ", * e, *";
  return costing(rule_from(call, line + " -> * e, *"), 2 * static_cast<double>(call.operands.size() / 2));
}

constexpr auto kAttention = attrs_index<AttentionAttrs>();
constexpr auto kPiece = attrs_index<AttentionPieceAttrs>();
const OpInfo kOps[] = {
    {Op::Rope, "rope", "rotary positions: turns the pairs (i, i+d/2) of x[b,s,n,d] by the position along s", OpClass::Compute, 1, 1,
     attrs_index<RopeAttrs>(), infer_rope, rope_rule, derive_rope},
    {Op::Attention, "attention", "softmax(scale q k') v for q[b,s,n,d], k[b,t,m,d], v[b,t,m,e], heads of q grouped; also the log-sum-exp",
     OpClass::Compute, 3, 3, kAttention, infer_attention, attention_rule, derive_attention},
    {Op::AttentionBI, "attention_bi", "gradients of attention for q, k and v, from q, k, v, its two results and do", OpClass::Compute, 6, 6,
     kAttention, infer_attention_bi, attention_bi_rule, nullptr},
    {Op::AttentionPiece, "attention_piece",
     "attention of each query to the keys that one of the pieces of the sequence holds, `turn` pieces after its own", OpClass::Compute, 3,
     3, kPiece, infer_attention_piece, attention_piece_rule, nullptr},
    {Op::AttentionPieceBI, "attention_piece_bi",
     "what the keys of one piece give to the gradients of attention, from q, k, v, the merged o and log-sum-exp, and do", OpClass::Compute,
     6, 6, kPiece, infer_attention_piece_bi, attention_piece_bi_rule, nullptr},
    {Op::AttentionMerge, "attention_merge", "attention to all keys from that to each piece of them: o and log-sum-exp of one after another",
     OpClass::Compute, 2, -1, attrs_index<NoAttrs>(), infer_attention_merge, attention_merge_rule, nullptr},
};

}  // namespace

std::span<const OpInfo> attention_ops() { return kOps; }

}  // namespace skirl
