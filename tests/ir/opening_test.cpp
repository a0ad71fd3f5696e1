#include "ir/opening.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/differentiate.h"
#include "passes/place.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/check_error.h"
#include "tools/testing.h"

using namespace skirl;

namespace {

const char* const kModel = R"(
  input %x "x" : f64[6,4] cut 0
  input %t "labels" : i64[6] cut 0 range 5
  param %w "w" : f64[4,5] normal(0.5)
  %y = einsum "bh,hv->bv" %x %w   LAYER=3
  loss "xent" = softmax_xent %y %t ignore 2
)";

NodeId find(const Graph& graph, Op op) {
  NodeId found;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == op) found = node;
  });
  return found;
}

/// Puts the step on `devices` devices, opens its cross-entropy, and cuts the vocabulary over them: the head's columns, the logits and their
/// gradient, moments and update. What each device says of its part (of a row, of the norm) is put together by all_reduce.
Graph with_cut_vocabulary(const Graph& step, std::size_t devices) {
  PlaceParams params;
  for (std::size_t d = 0; d < devices; ++d) params.devices.push_back(static_cast<DeviceId>(d));
  params.axes = {{"tp", static_cast<std::int64_t>(devices)}};
  Graph g = place(step, params);
  REQUIRE(open(g, find(g, Op::SoftmaxXent)));
  std::vector<NodeId> nodes;
  g.for_each_node([&](NodeId node) { nodes.push_back(node); });
  for (const NodeId node : nodes) {
    const Op op = g[node].op;
    const LayoutId whole = g.replicate(g[node].mesh);
    g.for_each_result(node, [&](ValueId value) {
      const Shape& shape = g.type(value).shape;
      if (shape.size() == 2 && shape[1] == 5) g[value].layout = g.intern(with_cut(g[whole], g[g[node].mesh], 1, 5, 0));
    });
    if (op != Op::RowMax && op != Op::SumExp && op != Op::Pick && op != Op::SumSq) continue;
    const ValueId part = g.result(node);
    g[part].layout = g.intern(with_partial(g[whole], 0, op == Op::RowMax ? Reduction::Max : Reduction::Sum));
    const ResultInit result{g[part].type, whole, g[part].role};
    const std::vector<UseId> readers = g.uses(part);
    const NodeId reduced =
        g.add({Op::AllReduce, {&part, 1}, {&result, 1}, g.intern(Attrs{NoAttrs{}}), g[node].phase, g[node].tags, g[node].mesh});
    for (const UseId reader : readers) g.set_operand(reader, g.result(reduced));
  }
  return g;
}

}  // namespace

TEST_CASE("softmax_xent opens into operators that can be cut along the vocabulary") {
  Graph graph = parse(R"(
    %0 = input "x" {cut=0} : f64[6,5] F
    %1 = input "t" {cut=0, range=5} : i64[6] F
    %2, %3 = softmax_xent {ignore=2} %0 %1 : f64[], f64[6] "loss" F LAYER=3
    output "sum" {kind=metric} %2 U
    output "lse" {kind=metric} %3 U
  )");
  REQUIRE(open(graph, find(graph, Op::SoftmaxXent)));
  CHECK(print(graph) == print(parse(R"(
    %0 = input "x" {cut=0} : f64[6,5] F
    %1 = input "t" {cut=0, range=5} : i64[6] F
    %2 = row_max %0 : f64[6] "loss" F LAYER=3
    %3 = sum_exp %0 %2 : f64[6] "loss" F LAYER=3
    %4 = pick {ignore=2} %0 %1 : f64[6] "loss" F LAYER=3
    %5, %6 = xent_merge {ignore=2} %2 %3 %4 %1 : f64[], f64[6] "loss" F LAYER=3
    output "sum" {kind=metric} %5 U
    output "lse" {kind=metric} %6 U
  )")));
}

TEST_CASE("an opened cross-entropy is the same step") {
  const Graph whole = differentiate(parse(kModel), {});
  Graph opened = whole;
  REQUIRE(open(opened, find(opened, Op::SoftmaxXent)));
  REQUIRE(!find(opened, Op::SoftmaxXent).valid());
  Interpreter reference(whole, 7);
  Interpreter runner(opened, 7);
  const Deviation deviation = compare_steps(
      reference, runner, [&](std::int64_t step) { return random_inputs(whole, 7, step); }, 3);
  CHECK(deviation.max() <= 1e-14);
}

TEST_CASE("an operator without an opening stays as it is") {
  Graph graph = parse(kModel);
  const std::string before = print(graph);
  CHECK(!open(graph, find(graph, Op::Einsum)));
  CHECK(print(graph) == before);
}

TEST_CASE("an opened cross-entropy may have its vocabulary cut, unevenly and with devices that hold nothing of it") {
  const Graph whole = differentiate(parse(kModel), {.clip = 0.01});
  for (const std::size_t devices : {2, 3, 7}) {
    INFO(devices << " devices");
    const Graph cut = with_cut_vocabulary(whole, devices);
    for (const Breach& breach : verify(cut)) FAIL_CHECK("R" << breach.rule << ": " << breach.message);
    CHECK(same_step(whole, cut));
  }
}

TEST_CASE("the closed cross-entropy does not let its vocabulary be cut") {
  Graph g = parse(R"(
    mesh @s0 {tp:2} devices 0 1
    %0 = input "x" {cut=0} : f64[6,5] @s0 [-, tp] F
    %1 = input "t" {cut=0, range=5} : i64[6] @s0 F
    %2, %3 = softmax_xent {ignore=2} %0 %1 : f64[] @s0, f64[6] @s0 "loss" F
    output "sum" {kind=metric} %2 U mesh=@s0
  )");
  REQUIRE(verify(g).size() == 1);
  CHECK(verify(g).front().rule == 4);
}

// ---- norms with their width cut

namespace {

const char* const kNorms = R"(
  input %x "x" : f64[6,4] cut 0
  input %t "labels" : i64[6] cut 0 range 5
  param %w "w" : f64[4,4] normal(0.5)
  param %g "gamma" : f64[4] normal(1)
  param %b "beta" : f64[4] normal(1)
  param %s "scale" : f64[4] normal(1)
  param %v "v" : f64[4,5] normal(0.5)
  %h = add (einsum "bh,hi->bi" %x %w) (fill {shape=[6,4], dtype=f64, value=1000})   LAYER=1
  %n = layer_norm %h %g %b {eps=1e-3}                                               LAYER=1
  %r = rms_norm (tanh %n) %s {eps=1e-3}                                             LAYER=2
  loss "xent" = softmax_xent (einsum "bh,hv->bv" %r %v) %t
)";

Graph with_open(Graph g, const std::set<Op>& ops) {
  std::vector<NodeId> nodes;
  g.for_each_node([&](NodeId node) {
    if (ops.count(g[node].op) != 0) nodes.push_back(node);
  });
  REQUIRE(nodes.size() == ops.size());
  for (const NodeId node : nodes) REQUIRE(open(g, node));
  return g;
}

const std::set<Op> kNormOps{Op::LayerNorm, Op::LayerNormBI, Op::RmsNorm, Op::RmsNormBI};

/// Cuts the width of everything that has one over the devices, and puts together what each says of its part of a row.
Graph with_cut_width(const Graph& step, std::size_t devices) {
  PlaceParams params;
  for (std::size_t d = 0; d < devices; ++d) params.devices.push_back(static_cast<DeviceId>(d));
  params.axes = {{"tp", static_cast<std::int64_t>(devices)}};
  Graph g = place(step, params);
  std::vector<NodeId> nodes;
  g.for_each_node([&](NodeId node) { nodes.push_back(node); });
  const auto lie = [&](ValueId value, const Layout& layout) { g[value].layout = g.intern(layout); };
  const auto reader = [&](NodeId node) {
    const Op op = g[node].op;
    return op == Op::RowSum || op == Op::RowSumSq || op == Op::NormApply || op == Op::NormDots || op == Op::NormBIApply;
  };
  // What a norm reads and gives of a width is cut: a free slice before it, a gather after it.
  for (const NodeId node : nodes) {
    if (!reader(node)) continue;
    const Layout whole{g[node].mesh, {}, {}};
    const auto change = [&](Op op, ValueId value, const Layout& layout) {
      const ResultInit result{g[value].type, g.intern(layout), g[value].role};
      return g.result(g.add({op, {&value, 1}, {&result, 1}, g.intern(Attrs{NoAttrs{}}), g[node].phase, g[node].tags, g[node].mesh}));
    };
    const auto cut_last = [&](ValueId value) {
      const std::size_t last = g.type(value).shape.size() - 1;
      return with_cut(whole, g[g[node].mesh], last, g.type(value).shape[last], 0);
    };
    const auto has_width = [&](ValueId value) { return !g.type(value).shape.empty() && g.type(value).shape.back() == 4; };
    for (std::size_t i = 0; i < g[node].operand_count; ++i)
      if (const ValueId value = g.operand(node, i); has_width(value))
        g.set_operand(node, i, change(Op::LocalSlice, value, cut_last(value)));
    for (std::size_t r = 0; r < g[node].result_count; ++r) {
      const ValueId value = g.result(node, r);
      const std::vector<UseId> readers = g.uses(value);
      const bool width = has_width(value);
      const bool term = !width && g[node].op != Op::NormApply;
      if (!width && !term) continue;
      lie(value, width ? cut_last(value) : with_partial(whole, 0));
      const ValueId changed = change(width ? Op::AllGather : Op::AllReduce, value, whole);
      for (const UseId use : readers) g.set_operand(use, changed);
    }
  }
  return g;
}

}  // namespace

TEST_CASE("norms open into sums over rows, which can be cut, and what is done to each element") {
  Graph graph = parse(R"(
    %0 = input "x" {cut=0} : f32[6,4] F
    %1 = param "g" {init=constant, scale=1, trainable=true} : f32[4] F
    %2 = param "b" {init=constant, scale=0, trainable=true} : f32[4] F
    %3, %4, %5 = layer_norm {eps=0.001} %0 %1 %2 : f32[6,4], f32[6], f32[6] "ln" F LAYER=3
    %6, %7 = rms_norm {eps=0.001} %3 %1 : f32[6,4], f32[6] "rms" F LAYER=3
    %8 = layer_norm_bi %6 %0 %1 %4 %5 : f32[6,4] "ln" BI LAYER=3
    %9 = rms_norm_bi %8 %3 %1 %7 : f32[6,4] "rms" BI LAYER=3
    output "y" {kind=metric} %9 U
  )");
  graph = with_open(std::move(graph), kNormOps);
  CHECK(print(graph) == print(parse(R"(
    %0 = input "x" {cut=0} : f32[6,4] F
    %1 = param "g" {init=constant, scale=1, trainable=true} : f32[4] F
    %2 = param "b" {init=constant, scale=0, trainable=true} : f32[4] F
    %3 = row_sum %0 : f32[6] "ln" F LAYER=3
    %4 = row_sum_sq %0 %3 : f32[6] "ln" F LAYER=3
    %5, %6, %7 = norm_apply {eps=0.001} %0 %1 %2 %3 %4 : f32[6,4], f32[6], f32[6] "ln" F LAYER=3
    %8 = row_sum_sq %5 : f32[6] "rms" F LAYER=3
    %9, %10 = norm_apply {eps=0.001} %5 %1 %8 : f32[6,4], f32[6] "rms" F LAYER=3
    %11, %12 = norm_dots %9 %0 %1 %6 %7 : f32[6], f32[6] "ln" BI LAYER=3
    %13 = norm_bi_apply %9 %0 %1 %6 %7 %11 %12 : f32[6,4] "ln" BI LAYER=3
    %14 = norm_dots %13 %5 %1 %10 : f32[6] "rms" BI LAYER=3
    %15 = norm_bi_apply %13 %5 %1 %10 %14 : f32[6,4] "rms" BI LAYER=3
    output "y" {kind=metric} %15 U
  )")));
}

TEST_CASE("opened norms are the same step, and their width may be cut") {
  const Graph whole = differentiate(parse(kNorms), {.clip = 0.01});
  const Graph opened = with_open(whole, kNormOps);
  CHECK(same_step(whole, opened, 1e-11));
  for (const std::size_t devices : {2, 3, 5}) {
    INFO(devices << " devices");
    const Graph cut = with_cut_width(opened, devices);
    for (const Breach& breach : verify(cut)) FAIL_CHECK("R" << breach.rule << ": " << breach.message);
    CHECK(same_step(whole, cut, 1e-11));
  }
}

// ---- attention in pieces

namespace {

struct Ring {
  const char* what;
  IntervalTable pieces;
};

/// Of a sequence of 7.
const Ring kRings[] = {
    {"one piece", {{{0, 7}}}},
    {"two, uneven", {{{0, 4}}, {{4, 7}}}},
    {"zigzag", {{{0, 2}, {6, 7}}, {{2, 3}, {5, 6}}, {{3, 5}}}},
    {"one with no rows", {{{0, 3}}, {}, {{3, 7}}}},
    {"by turns", {{{0, 1}, {2, 3}, {4, 5}, {6, 7}}, {{1, 2}, {3, 4}, {5, 6}}}},
};

/// Attention of N heads with keys of M, trained through all of q, k and v.
std::string attention_model(bool causal) {
  return std::string(R"(
    dim S = 7
    dim N = 4
    dim M = 2
    param %q "q" : f64[2,S,N,3] normal(1)
    param %k "k" : f64[2,S,M,3] normal(1)
    param %v "v" : f64[2,S,M,5] normal(1)
    input %t "t" : f64[2,S,N,5] cut 0
    %o, %lse = attention %q %k %v {causal=)") +
         (causal ? "true" : "false") + R"(, scale=0.7} LAYER=0
    loss "l" = mse (tanh %o) %t)";
}

Graph in_ring(Graph g, const IntervalTable& pieces) {
  open_ring_attention(g, find(g, Op::Attention), pieces);
  open_ring_attention(g, find(g, Op::AttentionBI), pieces);
  return g;
}

}  // namespace

TEST_CASE("attention opens into pieces of the keys and a merge; its gradients into pieces and sums") {
  const std::string head = R"(
    %0 = input "q" {} : f32[2,4,2,3] F
    %1 = input "k" {} : f32[2,4,1,3] F
    %2 = input "v" {} : f32[2,4,1,5] F
    %3 = input "do" {} : f32[2,4,2,5] F
)";
  const std::string fields = "{causal=true, scale=0.5, pieces={0..1 3..4; 1..3}, turn=";
  Graph graph = parse(head + R"(
    ^0 = fence F
    %4, %5 = attention {causal=true, scale=0.5} %0 %1 %2 : f32[2,4,2,5], f32[2,4,2] "mix" F LAYER=3 after=[^0]
    %6, %7, %8 = attention_bi {causal=true, scale=0.5} %0 %1 %2 %4 %5 %3 : f32[2,4,2,3], f32[2,4,1,3], f32[2,4,1,5] "mix" BI LAYER=3
    output "dq" {kind=metric} %6 U
    output "dk" {kind=metric} %7 U
    output "dv" {kind=metric} %8 U
  )");
  graph = in_ring(std::move(graph), {{{0, 1}, {3, 4}}, {{1, 3}}});
  CHECK(print(graph) == print(parse(head + R"(
    ^0 = fence F
    %4, %5 = attention_piece )" + fields +
                                    R"(0} %0 %1 %2 : f32[2,4,2,5], f32[2,4,2] "mix" F LAYER=3 after=[^0]
    %6, %7 = attention_piece )" + fields +
                                    R"(1} %0 %1 %2 : f32[2,4,2,5], f32[2,4,2] "mix" F LAYER=3 after=[^0]
    %8, %9 = attention_merge %4 %5 %6 %7 : f32[2,4,2,5], f32[2,4,2] "mix" F LAYER=3 after=[^0]
    %10, %11, %12 = attention_piece_bi )" +
                                    fields + R"(0} %0 %1 %2 %8 %9 %3 : f32[2,4,2,3], f32[2,4,1,3], f32[2,4,1,5] "mix" BI LAYER=3
    %13, %14, %15 = attention_piece_bi )" +
                                    fields + R"(1} %0 %1 %2 %8 %9 %3 : f32[2,4,2,3], f32[2,4,1,3], f32[2,4,1,5] "mix" BI LAYER=3
    %16 = sum {accumulate=f32} %10 %13 : f32[2,4,2,3] "mix" BI LAYER=3
    output "dq" {kind=metric} %16 U
    %17 = sum {accumulate=f32} %11 %14 : f32[2,4,1,3] "mix" BI LAYER=3
    output "dk" {kind=metric} %17 U
    %18 = sum {accumulate=f32} %12 %15 : f32[2,4,1,5] "mix" BI LAYER=3
    output "dv" {kind=metric} %18 U
  )")));
  CHECK(print(parse(print(graph))) == print(graph));
}

TEST_CASE("attention in pieces is the same step, whatever the pieces") {
  for (const bool causal : {true, false}) {
    const Graph whole = differentiate(parse(attention_model(causal)), {});
    for (const Ring& ring : kRings) {
      INFO(ring.what << (causal ? ", causal" : ""));
      const Graph opened = in_ring(whole, ring.pieces);
      CHECK(!find(opened, Op::Attention).valid());
      CHECK(!find(opened, Op::AttentionBI).valid());
      for (const Breach& breach : verify(opened)) FAIL_CHECK("R" << breach.rule << ": " << breach.message);
      CHECK(same_step(whole, opened, 1e-12));
    }
  }
}

TEST_CASE("attention in random pieces, with any number of heads a key head, is the same step") {
  std::mt19937 random(5);
  const auto whole_number = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 30; ++i) {
    const std::int64_t length = whole_number(1, 12), key_heads = whole_number(1, 3), heads = key_heads * whole_number(1, 3);
    IntervalTable pieces(static_cast<std::size_t>(whole_number(1, 5)));
    for (std::int64_t at = 0; at < length;) {
      const std::int64_t end = std::min(length, at + whole_number(1, 4));
      pieces[static_cast<std::size_t>(whole_number(0, static_cast<std::int64_t>(pieces.size()) - 1))].push_back({at, end});
      at = end;
    }
    const bool causal = whole_number(0, 2) > 0;
    const Graph step = differentiate(parse(attention_model(causal), "m", {{"S", length}, {"N", heads}, {"M", key_heads}}), {});
    const Graph opened = in_ring(step, pieces);
    INFO(print(opened));
    CHECK(same_step(step, opened, 1e-12));
  }
}

TEST_CASE("attention does not open into pieces that are not those of its sequence") {
  Graph g = differentiate(parse(attention_model(true)), {});
  const std::string before = print(g);
  const NodeId node = find(g, Op::Attention);
  const std::string refusal = "open_ring_attention: '" + describe(g, node) + "' does not open into these pieces: attention_piece: ";
  CHECK_ERROR(open_ring_attention(g, node, {{{0, 3}}, {{3, 6}}}),
              refusal + "pieces is a table with pieces of 6 positions, expected each of the 7 positions in one piece");
  CHECK_ERROR(open_ring_attention(g, node, {}), refusal + "pieces is {}, expected at least one piece");
  const NodeId tanh = find(g, Op::Tanh);
  CHECK_ERROR(open_ring_attention(g, tanh, {{{0, 7}}}),
              "open_ring_attention: '" + describe(g, tanh) + "' has no sequence in pieces, expected attention or attention_bi");
  CHECK(print(g) == before);
  Graph cross = parse(R"(
    input %q "q" : f64[1,2,2,3]
    input %k "k" : f64[1,5,2,3]
    output "o" (attention %q %k %k {causal=false, scale=1}))");
  const NodeId other = find(cross, Op::Attention);
  CHECK_ERROR(open_ring_attention(cross, other, {{{0, 2}}}),
              "open_ring_attention: '" + describe(cross, other) +
                  "' does not open into these pieces: attention_piece: operand 1 is "
                  "f64[1,5,2,3], expected as many keys as queries, dimension 1 of operand 0 (2)");
}
