#include "passes/shard_tensor.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/text.h"
#include "passes/place.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/check_error.h"
#include "tests/support/compiled.h"
#include "tools/testing.h"

using namespace skirl;
using namespace skirl::test;

namespace {

const std::string kPair = R"(
  input %x "x" : f64[8,4] cut 0
  input %y "y" : f64[8,4] cut 0
  param %up "up" : f64[4,6] normal(0.5)
  param %down "down" : f64[6,4] normal(0.5)
  %h = gelu (einsum "bd,df->bf" %x %up) "h" LAYER=0
  %z = einsum "bf,fd->bd" %h %down "z" LAYER=0
  loss "mse" = mse %z %y
)";

/// Attention of `heads` query heads on `keys` key heads, between two linear layers and with norms, over sequences of 5.
std::string attention(std::int64_t heads, std::int64_t keys, bool causal = true) {
  const std::string n = number(heads);
  const std::string m = number(keys);
  return R"(
  input %t "tokens" : i64[2,5] cut 0 sequence 1 range 7
  input %l "labels" : i64[2,5] cut 0 sequence 1 range 7
  param %table "table" : f64[7,6] normal(0.5)
  param %g "g" : f64[6] ones
  param %q "q" : f64[6,)" +
         n + R"(,4] normal(0.5)
  param %k "k" : f64[6,)" +
         m + R"(,4] normal(0.5)
  param %v "v" : f64[6,)" +
         m + R"(,4] normal(0.5)
  param %o "o" : f64[)" +
         n + R"(,4,6] normal(0.5)
  %x = embedding %table %t LAYER=0
  %r, %s = rms_norm %x %g {eps=1e-5} LAYER=0
  %qs = rope (einsum "bsh,hnd->bsnd" %r %q) {base=100.0} LAYER=0
  %ks = rope (einsum "bsh,hnd->bsnd" %r %k) {base=100.0} "keys" LAYER=0
  %vs = einsum "bsh,hnd->bsnd" %r %v "values" LAYER=0
  %a, %lse = attention %qs %ks %vs {causal=)" +
         (causal ? "true" : "false") + R"(, scale=0.5} "mix" LAYER=0
  %x = add %x (dropout (einsum "bsnd,ndh->bsh" %a %o) {p=0.2} "drop") LAYER=0
  loss "nll" = softmax_xent (einsum "bsh,vh->bsv" %x %table) %l
)";
}

std::string layout_of(const Graph& graph, const std::string& name, Op op, std::size_t result = 0) {
  std::string text = "not there";
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != op || graph[graph[node].name] != name) return;
    const ValueId value = graph.result(node, result);
    text = to_string(graph, graph.layout(value), graph.type(value).shape.size());
  });
  return text;
}

Graph sharded(const std::string& model, const std::string& params, const std::string& axes = "{\"tp\": 2}") {
  std::int64_t devices = 1;
  for (const char c : axes)
    if (c >= '1' && c <= '9') devices *= c - '0';
  std::string ids;
  for (std::int64_t i = 0; i < devices; ++i) ids += (i > 0 ? ", " : "") + number(i);
  const Graph placed = after(place_pass(), differentiate(parse(model), adam()), "{\"devices\": [" + ids + "], \"axes\": " + axes + "}");
  return after(shard_tensor_pass(), placed, params);
}

}  // namespace

TEST_CASE("shard_tensor cuts the dimension between two matrices, and one all_reduce follows") {
  const Graph graph = sharded(kPair, "{}");
  CHECK(layout_of(graph, "up", Op::Param) == "@s0 [-, tp]");
  CHECK(layout_of(graph, "down", Op::Param) == "@s0 [tp, -]");
  CHECK(layout_of(graph, "up.m", Op::State) == "@s0 [-, tp]");
  CHECK(layout_of(graph, "h", Op::Gelu) == "@s0 [-, tp]");
  CHECK(layout_of(graph, "z", Op::Einsum) == "@s0 [tp, -]");  // the last of that name: its gradient, computed in the parameter's cut
  CHECK(layout_of(graph, "z", Op::AllReduce) == "@s0");
  CHECK(count(graph, Op::AllReduce) == 1);
  CHECK(same_step(differentiate(parse(kPair), adam()), graph));
}

TEST_CASE("seeds are followed both ways: naming one matrix cuts the other") {
  const Graph graph = sharded(kPair, R"({"params": [{"param": "do*", "dim": 0}]})");
  CHECK(layout_of(graph, "up", Op::Param) == "@s0 [-, tp]");
  CHECK(print(graph) == print(sharded(kPair, "{}")));
}

TEST_CASE("a chain of square matrices is cut in pairs") {
  const Graph graph = sharded(mlp_text(5, 4, 4), "{}");
  CHECK(layout_of(graph, "l0.w", Op::Param) == "@s0 [-, tp]");
  CHECK(layout_of(graph, "l1.w", Op::Param) == "@s0 [tp, -]");
  CHECK(layout_of(graph, "l2.w", Op::Param) == "@s0 [-, tp]");
  CHECK(layout_of(graph, "l3.w", Op::Param) == "@s0 [tp, -]");
  CHECK(layout_of(graph, "l4.w", Op::Param) == "@s0");
}

TEST_CASE("the vocabulary is cut without gathering logits") {
  const Graph graph = sharded(attention(4, 4), "{}");
  CHECK(layout_of(graph, "table", Op::Param) == "@s0 [tp, -]");
  CHECK(count(graph, Op::SoftmaxXent) == 0);
  CHECK(count(graph, Op::AllGather) == 0);
  CHECK(broken(attention(4, 4), "tp(2)") == "");
  CHECK(broken(attention(4, 4), "tp(3)") == "");  // heads 2, 1, 1; vocabulary 3, 2, 2
}

TEST_CASE("two key heads over three devices: keys and values stay whole, queries are cut within each group") {
  const Graph graph = compiled(attention(4, 2), "tp(3)", adam()).placed;
  CHECK(layout_of(graph, "k", Op::Param) == "@s0");
  CHECK(layout_of(graph, "q", Op::Param) == "@s0 [-, tp {0..1 2..3; 1..2 3..4; }, -]");
  CHECK(layout_of(graph, "mix", Op::AttentionBI, 1) == "@s0 partial(tp)");  // of keys
  CHECK(layout_of(graph, "keys", Op::Rope) == "@s0 partial(tp)");           // on its way back
  CHECK(broken(attention(4, 2), "tp(3)") == "");
  CHECK(broken(attention(4, 1), "tp(3, sp)") == "");
}

TEST_CASE("two key heads over four devices: an axis of two for keys, queries cut over both") {
  const Graph graph = compiled(attention(4, 2), "tp(4)", adam()).placed;
  CHECK(layout_of(graph, "k", Op::Param) == "@s0 [-, tp_kv, -]");
  CHECK(layout_of(graph, "q", Op::Param) == "@s0 [-, tp_kv tp_q, -]");
  CHECK(layout_of(graph, "mix", Op::AttentionBI, 2) == "@s0 [-, -, tp_kv, -] partial(tp_q)");
  CHECK(broken(attention(4, 2), "tp(4)") == "");
  CHECK(broken(attention(8, 2), "tp(6, sp)") == "");  // three queries' devices a key head, of four queries
}

TEST_CASE("sequence parallelism cuts norms and dropout along the sequence") {
  const Graph graph = compiled(attention(4, 2), "tp(2, sp)", adam()).placed;
  CHECK(layout_of(graph, "drop", Op::Dropout) == "@s0 [-, tp, -]");
  CHECK(count(graph, Op::AllReduce, "drop") == 0);
  CHECK(layout_of(graph, "tokens", Op::Input) == "@s0");  // inputs lie where they are read, and are never gathered
  CHECK(broken(attention(4, 2), "tp(2, sp)") == "");
  CHECK(broken(attention(4, 2), "tp(3, sp)") == "");
}

TEST_CASE("context parallelism brings queries and keys together in three ways") {
  for (const bool causal : {true, false})
    for (const std::string way : {"gather", "ulysses", "ring"})
      for (const std::int64_t n : {2, 3, 6}) {  // six devices for five tokens: one has none
        const std::string strategy = "cp(" + number(n) + ", " + way + ")";
        INFO(strategy << (causal ? ", causal" : ""));
        CHECK(broken(attention(4, 2, causal), strategy) == "");
      }
  const Graph ring = compiled(attention(4, 2), "cp(2)", adam()).placed;
  CHECK(layout_of(ring, "tokens", Op::Input) == "@s0 [-, cp {0..2 4..5; 2..4}]");  // zigzag
  CHECK(count(ring, Op::AllGather) == 0);
}

TEST_CASE("matrices cut on both sides over two axes") {
  const Graph graph = compiled(attention(4, 4), "tp2d(2, 2)", adam()).placed;
  CHECK(layout_of(graph, "q", Op::Param) == "@s0 [tp_width, tp, -]");
  CHECK(layout_of(graph, "o", Op::Param) == "@s0 [tp, -, tp_width]");
  CHECK(layout_of(graph, "table", Op::Param) == "@s0 [tp, tp_width]");
  CHECK(layout_of(graph, "g", Op::Param) == "@s0 [tp_width]");
  CHECK(count(graph, Op::RmsNorm) == 0);
  CHECK(broken(attention(4, 4), "tp2d(2, 2)") == "");
  CHECK(broken(attention(4, 2), "tp2d(4, 3)") == "");
}

TEST_CASE("stages of different degree: two devices feed four") {
  const std::string strategy = strategy_file(R"({"op": "partition", "tag": "LAYER", "into": "PP", "stages": 2},
    {"op": "place", "filter": {"PP": 0}, "devices": [0, 1], "axes": {"tp": 2}},
    {"op": "place", "filter": {"PP": 1}, "devices": [2, 3, 4, 5], "axes": {"tp": 4}},
    {"op": "shard_tensor", "axis": "tp", "params": [{"param": "l1.w", "dim": 0}, {"param": "l3.w", "dim": 0}]})");
  CHECK(broken(mlp_text(4, 5, 6), strategy) == "");
}

TEST_CASE("dropout and initial values are the same under every layout") {
  // law 1 compares with one device, whose masks and weights are keyed by name and global index: all these agree with it, and so with one
  // another
  for (const std::string strategy : {"tp(3)", "tp(2, sp)", "cp(2, ring)", "tp2d(2, 2)", "hsdp(2, 2) + tp(2)"})
    CHECK(broken(attention(4, 2), strategy) == "");
}

TEST_CASE("frozen parameters stay frozen when they are cut") {
  const std::string model = mlp_text(4, 4, 4, "mse %x %y", {1, 3});
  const Graph graph = compiled(model, "tp(2)", adam()).placed;
  CHECK(layout_of(graph, "l1.w", Op::Param) == "@s0 [tp, -]");
  CHECK(count(graph, Op::AdamW, "l1.w") == 0);
  CHECK(count(graph, Op::State, "l1.w.m") == 0);
  CHECK(broken(model, "tp(2)") == "");
}

TEST_CASE("shard_tensor refuses what cannot be cut, in words") {
  CHECK_ERROR(sharded(kPair, R"({"axis": "dp"})"), "shard_tensor: no mesh has an axis 'dp'; axes: tp");
  CHECK_ERROR(after(shard_tensor_pass(), differentiate(parse(kPair), sgd()), "{}"), "shard_tensor: nothing is placed yet");
  CHECK_ERROR(sharded(mlp_text(1, 4, 4), "{}"),
              "shard_tensor: nothing can be cut over axis 'tp': every dimension of a parameter is needed whole, or is one of an input");
  CHECK_ERROR(sharded(kPair, R"({"params": [{"param": "upp", "dim": 0}]})"),
              "shard_tensor: no parameter of the region is called \"upp\"; known: up, down");
  CHECK_ERROR(sharded(kPair, R"({"params": [{"param": "up", "dim": 2}]})"), "shard_tensor: parameter \"up\" has 2 dimensions, found dim 2");
  CHECK_ERROR(sharded(kPair, R"({"params": [{"param": "up", "dim": 0}, {"param": "up", "dim": 1}]})"),
              "shard_tensor: parameter \"up\" would be cut in dimensions 0 and 1 over axis 'tp'");
  CHECK_ERROR(
      sharded(attention(4, 2), R"({"params": [{"param": "q", "dim": 2}]})"),
      "shard_tensor: dimension 2 of parameter \"q\" cannot be cut over axis 'tp': %12 = rope \"rope.3\" (F LAYER=0) needs it whole");
  CHECK_ERROR(sharded(kPair, R"({"cut": "sequence"})"),
              "shard_tensor: nothing can be cut along the sequence over axis 'tp': no input of the region has one");
  CHECK_ERROR(sharded(kPair, R"({"sequence": true})"),
              "shard_tensor: nothing can be cut along the sequence over axis 'tp': no input of the region has one");
  CHECK_ERROR(sharded(kPair, R"({"cut": "inside"})"), "found \"inside\"; known: inner, width, sequence, bottleneck");
  CHECK_ERROR(sharded(kPair, R"({"attention": "ring"})"), "attention says how a sequence is cut; expected \"cut\": \"sequence\" with it");
  CHECK_ERROR(sharded(kPair, R"({"filter": {"LAYER": 7}})"),
              "shard_tensor: the filter {\"LAYER\":7} matches no node on a mesh with axis 'tp'");
}

TEST_CASE("a ring needs attention, and as many keys as queries") {
  const std::string no_attention = R"(
    input %t "tokens" : i64[2,5] cut 0 sequence 1 range 7
    param %table "table" : f64[7,6] normal(0.5)
    loss "size" = sum (embedding %table %t) weight 0.5
  )";
  CHECK_ERROR(sharded(no_attention, R"({"cut": "sequence", "attention": "ring"})"),
              "shard_tensor: the region has no attention to open into a ring");
  CHECK(broken(no_attention, "cp(2, gather)") == "");
}
