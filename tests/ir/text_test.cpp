#include <catch2/catch.hpp>
#include <limits>

#include "ir/builder.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

/// Text that print gives back as it is.
void check_round_trip(const std::string& text) { CHECK(print(parse(text)) == text); }

}  // namespace

TEST_CASE("a graph of home values prints as it was written") {
  check_round_trip(R"(%0 = input "x" {cut=0} : f64[8,5] F
%1 = input "ids" {cut=0, range=256} : i32[8] F
%2 = param "l0.w" {init=normal, scale=0.02, trainable=true} : f64[5,4] F LAYER=0
%3 = einsum "bh,hf->bf" %0 %2 : f64[8,4] "l0" F BLOCK=attn LAYER=0 RE
%4 = sum_to {shape=[]} %3 : f64[] "total" F
output "loss" {kind=loss} %4 U
)");
}

TEST_CASE("layouts, unions, streams, roles, origins and control edges print as they were written") {
  check_round_trip(R"(streams compute p2p gather
mesh @s0 {dp:2, tp:2} devices 0 1 2 3
mesh @s1 {dp:2, tp:2} devices 4 5 6 7
mesh @u0 = @s0 @s1
mesh @s2 {dp:2} devices 9 8
%0 = input "x" {cut=0} : f64[8,5] @s0 [dp, tp] F origin=[16,0]
%1 = param "w" {init=constant, scale=1, trainable=false} : f64[5,6] @u0 [copy dp, -] F
%2 = view %1 : f64[5,6] @s0 [dp, -] F stream=gather
%3 = einsum "bh,hf->bf" %0 %2 : f64[8,6] @s0 [dp, -] partial(tp) BW role=activation
%4 = all_reduce %3 : f64[8,6] @s0 [dp {0..3 5..6; 3..5 6..8}, -] F stream=gather
%5 = send %4 : f64[8,6] @s0 [dp, -] F stream=p2p
%6 = recv %5 : f64[8,6] @s1 [-, tp dp] F stream=p2p
^0 = fence F mesh=@s1 after=[%6]
%7 = row_max %6 : f64[8] @s1 partial(dp:max tp) F 'a b'='c d' X=-3 after=[^0]
%8 = sum_sq %7 : f64[] U mesh=@s1
%9, %10 = clip_coef {max_norm=1, eps=1e-06} %8 : f64[] @s1, f64[] @s1 U role=[scalar,gradient]
)");
}

TEST_CASE("tables of intervals in attributes print as they were written, owners of nothing among them") {
  check_round_trip(R"(%0 = input "q" : f64[1,8,2,3] F
%1, %2 = attention_piece {causal=true, scale=1, pieces={0..2 6..8;; 2..6;}, turn=3} %0 %0 %0 : f64[1,8,2,3], f64[1,8,2] F
)");
}

TEST_CASE("names and words of any bytes, and numbers of any size, come back") {
  Graph g;
  Builder b(g);
  const std::string odd("q\"'\\{i}\n\t\0\x7F %é", 16);
  b.tags =
      g.intern(with_tag(with_tag({}, {g.intern(odd), TagValue::word(g.intern("3"))}), {g.intern("F"), TagValue::integer(INT64_MIN + 1)}));
  ValueId x = b.source(Op::Input, odd, {DType::F64, {2, 0}}, InputAttrs{});
  for (const double factor : {0.1, -0.0, 1e300, 5e-324, 1.0 / 3, std::numeric_limits<double>::max()})
    x = b.op(Op::Scale, {x}, ScaleAttrs{factor});
  b.output(odd, x, "metric");
  const std::string text = print(g);
  const Graph again = parse(text);
  CHECK(print(again) == text);
  CHECK(again[again[NodeId(0u)].name] == odd);
  CHECK(again.attrs<ScaleAttrs>(NodeId(5u)).factor == 1.0 / 3);
  CHECK(to_string(again, again[again[NodeId(0u)].tags]) == to_string(g, g[g[NodeId(0u)].tags]));
}

namespace {

/// Random graphs that use every part of the text form; layouts and control edges obey no rule.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : state_(seed) {}

  Graph make(std::size_t nodes) {
    for (const char* stream : {"p2p", "gather stream"}) g_.add_stream(stream);
    meshes_ = {kHome, g_.add_mesh({0, 1, 2, 3}, {{g_.intern("dp"), 2}, {g_.intern("tp"), 2}}),
               g_.add_mesh({7, 6, 5, 4}, {{g_.intern("dp"), 2}, {g_.intern("tp"), 2}}), g_.add_mesh({9}, {{g_.intern("a b"), 1}})};
    meshes_.push_back(g_.union_of(std::vector<MeshId>{meshes_[1], meshes_[2]}));
    for (std::size_t i = 0; i < nodes; ++i) add_one();
    for (std::size_t i = 0; i < nodes / 2; ++i) erase_one();
    for (std::size_t i = 0; i < nodes / 4; ++i) edge();
    return std::move(g_);
  }

 private:
  std::size_t random(std::size_t below) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<std::size_t>((state_ >> 33) % below);
  }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return *(choices.begin() + random(choices.size()));
  }

  LayoutId layout(std::size_t rank) {
    Layout layout{meshes_[random(meshes_.size())], {}, {}};
    const Mesh& mesh = g_[layout.mesh];
    for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
      const std::uint8_t axis = static_cast<std::uint8_t>(a);
      const std::size_t kind = random(4);
      if (kind == 0 && rank > 0) layout = with_cut(layout, mesh, random(rank), 8, axis);
      if (kind == 1) layout = with_partial(layout, axis, pick({Reduction::Sum, Reduction::Max}));
    }
    if (layout.dims.size() == 1 && layout.dims[0].axes.size() == 1 && mesh.axes[layout.dims[0].axes[0]].size == 2 && random(2) == 0)
      layout.dims[0].table = pick<IntervalTable>({{{{0, 2}}, {{2, 8}}}, {{}, {{0, 8}}}, {{{0, 1}, {7, 8}}, {{1, 7}}}, {{{0, 8}}, {}}});
    return g_.intern(layout);
  }

  TagSetId tags() {
    TagSet set;
    for (const char* name : {"LAYER", "MB", "stream", "RE", "odd name"})
      if (random(3) == 0)
        set = with_tag(set, {g_.intern(name), pick({TagValue{}, TagValue::integer(static_cast<std::int64_t>(random(9)) - 4),
                                                    TagValue::word(g_.intern("attn"))})});
    return g_.intern(set);
  }

  void add_one() {
    std::vector<ValueId> operands;
    Op op = pick({Op::Input, Op::Param, Op::Sum, Op::Tanh, Op::Scale, Op::Fence, Op::Send, Op::Recv, Op::RmsNorm, Op::AllReduce});
    const auto value = [&] {
      for (int tries = 0; tries < 20; ++tries) {
        const NodeId node(random(g_.node_bound()));
        if (g_[node].result_count > 0 && g_.type(g_.result(node)).shape.size() == 2) return g_.result(node);
      }
      return ValueId();
    };
    const std::size_t wanted = op == Op::Input || op == Op::Param || op == Op::Fence ? 0
                               : op == Op::Sum || op == Op::AllReduce                ? 1 + random(5)
                                                                                     : 1;
    for (std::size_t i = 0; i < wanted; ++i)
      if (g_.node_bound() > 0)
        if (const ValueId v = value(); v.valid()) operands.push_back(v);
    if (operands.size() < wanted) op = Op::Input, operands.clear();
    const TensorType type{DType::F32, {8, 8}};
    std::vector<TensorType> types(op == Op::AllReduce ? operands.size() : 1, type);
    Attrs attrs;
    if (op == Op::Fence) types.clear();
    if (op == Op::Input)
      attrs = InputAttrs{pick<std::optional<std::int64_t>>({std::nullopt, 0}), std::nullopt,
                         pick<std::optional<std::int64_t>>({std::nullopt, 1})};
    if (op == Op::Param) attrs = ParamAttrs{"uniform", static_cast<double>(random(100)) / 7, random(2) == 0};
    if (op == Op::Sum) attrs = SumAttrs{pick({DType::F64, DType::BF16})};
    if (op == Op::Scale) attrs = ScaleAttrs{static_cast<double>(random(1000)) / 3e7};
    if (op == Op::RmsNorm) {
      attrs = NormAttrs{};
      operands.push_back(gamma());
      types.push_back({DType::F32, {8}});
    }
    std::vector<ResultInit> results;
    for (const TensorType& t : types)
      results.push_back({g_.intern(t), layout(t.shape.size()), pick({Role::Activation, Role::Gradient, Role::State})});
    g_.add({op, operands, results, g_.intern(attrs), pick({Phase::F, Phase::BI, Phase::BW, Phase::U}), tags(),
            meshes_[random(meshes_.size())], static_cast<StreamId>(random(3)),
            random(2) == 0 ? g_.intern("n." + std::to_string(random(50))) : NameId(),
            random(4) == 0 ? g_.intern(Origin{static_cast<std::int64_t>(random(9)), 3}) : OriginId()});
  }

  ValueId gamma() {
    const ResultInit result{g_.intern(TensorType{DType::F32, {8}}), layout(1), Role::Param};
    return g_.result(g_.add({Op::Param, {}, {&result, 1}, g_.intern(Attrs{ParamAttrs{}}), Phase::F, tags(), kHome, 0, g_.intern("gamma")}));
  }

  void erase_one() {
    const NodeId node(random(g_.node_bound()));
    if (!g_.alive(node)) return;
    bool used = false;
    g_.for_each_result(node, [&](ValueId v) { used = used || g_.has_uses(v); });
    if (!used) g_.erase(node);
  }

  /// From a node to a later one, so there is no cycle.
  void edge() {
    const NodeId a(random(g_.node_bound()));
    const NodeId b(random(g_.node_bound()));
    if (g_.alive(a) && g_.alive(b) && a < b) g_.add_order(a, b);
  }

  std::uint64_t state_;
  Graph g_;
  std::vector<MeshId> meshes_;
};

}  // namespace

TEST_CASE("random graphs of every kind come back byte for byte, in the same order") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    const Graph g = RandomGraph(seed).make(10 + seed);
    const std::string text = print(g);
    const Graph again = parse(text);
    REQUIRE(print(again) == text);
    REQUIRE(print(compact(g)) == text);
    REQUIRE(again.node_bound() == g.node_count());
    const std::vector<NodeId> order = topological_order(again);
    for (std::size_t i = 0; i < order.size(); ++i) REQUIRE(order[i].index() == i);
    for (std::size_t m = 0; m < g.mesh_count(); ++m) REQUIRE(again[MeshId(m)].devices == g[MeshId(m)].devices);
  }
}

TEST_CASE("nodes on a cycle of control edges are printed too, last") {
  const std::string text = "%0 = input \"x\" : f64[2] F\n%1 = tanh %0 : f64[2] F after=[%2]\n%2 = tanh %0 : f64[2] F after=[%1]\n";
  CHECK(topological_order(parse(text)).size() == 1);
  check_round_trip(text);
}

TEST_CASE("an order of the caller's gives ids in that order, and one that misses a node is refused") {
  const Graph g = parse("%0 = input \"x\" : f64[2]\n%1 = input \"y\" : f64[2]\n");
  const std::vector<NodeId> turned{NodeId(1u), NodeId(0u)};
  const Graph again = compact(g, turned);
  CHECK(again[again[NodeId(0u)].name] == "y");
  CHECK(print(g, turned) == print(again));
  CHECK_THROWS_AS(print(g, std::vector<NodeId>{NodeId(1u)}), std::logic_error);
  CHECK_THROWS_AS(compact(g, std::vector<NodeId>{NodeId(1u), NodeId(1u)}), std::logic_error);
}
