#include "tests/support/placed_graphs.h"

#include <algorithm>
#include <random>
#include <vector>

#include "ir/builder.h"
#include "ir/text.h"

namespace skirl {

Graph dp_step() {
  return parse(R"(streams compute reduce
mesh @s0 {dp:2} devices 0 1
%0 = input "x" {cut=0} : f64[5,3] @s0 [dp, -] F
%1 = param "w" {init=normal, scale=0.5, trainable=true} : f64[3,2] @s0 F
%2 = state "w.momentum" {of=w} : f64[3,2] @s0 F
%3 = einsum "bh,hf->bf" %0 %1 : f64[5,2] @s0 [dp, -] "l0" F
%4 = tanh %3 : f64[5,2] @s0 [dp, -] "act" F
%5 = sum_to {shape=[]} %4 : f64[] @s0 partial(dp) "sum" F
%6 = loss {weight=1, count=10} %5 : f64[] @s0 partial(dp) "mse" F
%7 = all_reduce %6 : f64[] @s0 "mse" F stream=reduce
%8 = einsum "bh,bf->hf" %0 %4 : f64[3,2] @s0 partial(dp) "l0" BW
%9 = all_reduce %8 : f64[3,2] @s0 "l0" BW stream=reduce
%10, %11 = sgd {lr=0.1, momentum=0.9, weight_decay=0} %1 %9 %2 : f64[3,2] @s0, f64[3,2] @s0 "w" U
output "mse" {kind=loss} %7 F mesh=@s0
output "w" {kind=gradient} %9 U mesh=@s0
output "w" {kind=param} %10 U mesh=@s0
output "w.momentum" {kind=state} %11 U mesh=@s0
)");
}

Graph sharded_step() {
  return parse(R"(streams compute gather reduce
mesh @s0 {dp:3} devices 0 1 2
%0 = input "x" {cut=0} : f64[4,2] @s0 [dp, -] F
%1 = param "a" {init=normal, scale=0.5, trainable=true} : f64[2,3] @s0 [dp, -] F
%2 = param "b" {init=normal, scale=0.5, trainable=true} : f64[3,4] @s0 [dp, -] F
%3 = state "a.m" {of=a} : f64[2,3] @s0 [dp, -] F
%4 = state "a.v" {of=a} : f64[2,3] @s0 [dp, -] F
%5 = all_gather %1 : f64[2,3] @s0 "a" F stream=gather
%6 = all_gather %2 : f64[3,4] @s0 "b" F stream=gather
%7 = einsum "bh,hf->bf" %0 %5 : f64[4,3] @s0 [dp, -] "l0" F
%8 = einsum "bh,hf->bf" %7 %6 : f64[4,4] @s0 [dp, -] "l1" F
%9 = sum_to {shape=[]} %8 : f64[] @s0 partial(dp) "sum" F
%10 = all_reduce %9 : f64[] @s0 "sum" F
%11 = einsum "bf,hf->bh" %8 %6 : f64[4,3] @s0 [dp, -] "l1" BI
%12 = einsum "bh,bf->hf" %0 %11 : f64[2,3] @s0 partial(dp) "l0" BW
%13 = reduce_scatter %12 : f64[2,3] @s0 [dp, -] "l0" BW stream=reduce
%14, %15, %16 = adamw {lr=0.001, beta1=0.9, beta2=0.999, eps=1e-08, weight_decay=0} %1 %13 %3 %4 : f64[2,3] @s0 [dp, -], f64[2,3] @s0 [dp, -], f64[2,3] @s0 [dp, -] "a" U
output "sum" {kind=metric} %10 F mesh=@s0
output "a" {kind=gradient} %13 U mesh=@s0
output "a" {kind=param} %14 U mesh=@s0
output "a.m" {kind=state} %15 U mesh=@s0
output "a.v" {kind=state} %16 U mesh=@s0
output "b" {kind=param} %2 U mesh=@s0
)");
}

Graph pipeline_step() {
  return parse(R"(streams compute p2p
mesh @s0 {dp:1} devices 0
mesh @s1 {dp:1} devices 1
%0 = input "x" {cut=0} : f64[2,3] @s0 F
%1 = input "x" {cut=0} : f64[3,3] @s0 F origin=[2,0]
%2 = param "a" {init=normal, scale=0.5, trainable=true} : f64[3,3] @s0 F
%3 = param "b" {init=normal, scale=0.5, trainable=true} : f64[3,3] @s1 F
%4 = einsum "bh,hf->bf" %0 %2 : f64[2,3] @s0 "l0" F MB=0
%5 = send %4 : f64[2,3] @s0 "l0" F MB=0 stream=p2p
%6 = recv %5 : f64[2,3] @s1 "l0" F MB=0 stream=p2p
^0 = fence F after=[%4]
%7 = einsum "bh,hf->bf" %1 %2 : f64[3,3] @s0 "l0" F MB=1 after=[^0]
%8 = send %7 : f64[3,3] @s0 "l0" F MB=1 stream=p2p
%9 = recv %8 : f64[3,3] @s1 "l0" F MB=1 stream=p2p
%10 = einsum "bh,hf->bf" %6 %3 : f64[2,3] @s1 "l1" F MB=0
%11 = einsum "bf,hf->bh" %10 %3 : f64[2,3] @s1 "l1" BI MB=0
%12 = send %11 : f64[2,3] @s1 "l1" BI MB=0 stream=p2p
%13 = recv %12 : f64[2,3] @s0 "l1" BI MB=0 stream=p2p
%14 = einsum "bh,bf->hf" %6 %10 : f64[3,3] @s1 "l1" BW MB=0
%15 = einsum "bh,hf->bf" %9 %3 : f64[3,3] @s1 "l1" F MB=1 after=[%14]
%16 = einsum "bf,hf->bh" %15 %3 : f64[3,3] @s1 "l1" BI MB=1
%17 = send %16 : f64[3,3] @s1 "l1" BI MB=1 stream=p2p
%18 = recv %17 : f64[3,3] @s0 "l1" BI MB=1 stream=p2p
%19 = einsum "bh,bf->hf" %9 %15 : f64[3,3] @s1 "l1" BW MB=1
%20 = sum {accumulate=f64} %14 %19 : f64[3,3] @s1 "b" U
%21 = einsum "bh,bf->hf" %0 %13 : f64[3,3] @s0 "l0" BW MB=0
%22 = einsum "bh,bf->hf" %1 %18 : f64[3,3] @s0 "l0" BW MB=1
%23 = sum {accumulate=f64} %21 %22 : f64[3,3] @s0 "a" U
%24 = sgd {lr=0.1, momentum=0, weight_decay=0} %2 %23 : f64[3,3] @s0 "a" U
%25 = sgd {lr=0.1, momentum=0, weight_decay=0} %3 %20 : f64[3,3] @s1 "b" U
output "a" {kind=gradient} %23 U mesh=@s0
output "b" {kind=gradient} %20 U mesh=@s1
output "a" {kind=param} %24 U mesh=@s0
output "b" {kind=param} %25 U mesh=@s1
)");
}

Graph union_step() {
  return parse(R"(streams compute reduce
mesh @s0 {dp:2} devices 0 1
mesh @s1 {dp:2} devices 2 3
mesh @u0 = @s0 @s1
%0 = input "x" {cut=0} : f64[4,3] @s0 [dp, -] F
%1 = input "y" {cut=0} : f64[4,3] @s1 [dp, -] F
%2 = param "w" {init=normal, scale=0.5, trainable=true} : f64[3,3] @u0 F
%3 = view %2 : f64[3,3] @s0 F
%4 = view %2 : f64[3,3] @s1 F
%5 = einsum "bh,hf->bf" %0 %3 : f64[4,3] @s0 [dp, -] "l0" F
%6 = einsum "bh,hf->bf" %1 %4 : f64[4,3] @s1 [dp, -] "l1" F
%7 = einsum "bh,bf->hf" %0 %5 : f64[3,3] @s0 partial(dp) "l0" BW
%8 = einsum "bh,bf->hf" %1 %6 : f64[3,3] @s1 partial(dp) "l1" BW
%9 = join %7 %8 : f64[3,3] @u0 partial(copy dp) "w" U
%10 = all_reduce %9 : f64[3,3] @u0 "w" U stream=reduce
%11 = sgd {lr=0.1, momentum=0, weight_decay=0} %2 %10 : f64[3,3] @u0 "w" U
output "w" {kind=gradient} %10 U mesh=@u0
output "w" {kind=param} %11 U mesh=@u0
)");
}

Graph random_step(std::uint64_t seed, int devices, int nodes, std::int64_t width) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  Graph g;
  std::vector<DeviceId> ids;
  for (int d = 0; d < devices; ++d) ids.push_back(static_cast<DeviceId>(d));
  const MeshId mesh = g.add_mesh(ids, {{g.intern("dp"), devices}});
  const StreamId streams[] = {0, g.add_stream("gather"), g.add_stream("reduce")};
  Builder build(g);
  build.mesh = mesh;
  // Row blocks (some empty), and whole values, all of shape [rows, width]: cut, partial or replicated over dp.
  const std::int64_t rows = static_cast<std::int64_t>(1 + below(6));
  const TensorType type{DType::F64, {rows, width}};
  const Layout whole{mesh, {}, {}};
  const Layout cut = with_cut(whole, g[mesh], 0, rows, 0);
  const Layout partial = with_partial(whole, 0);
  std::vector<ValueId> values;
  const auto add_source = [&](Op op, std::string_view name, const Attrs& attrs, const Layout& layout) {
    const ValueId value = build.source(op, name, type, attrs);
    g[value].layout = g.intern(layout);
    values.push_back(value);
  };
  add_source(Op::Input, "x", InputAttrs{0, {}}, cut);
  add_source(Op::Input, "y", InputAttrs{}, whole);
  add_source(Op::Param, "w", ParamAttrs{"normal", 0.5, true}, cut);
  const ValueId w = values.back();
  const auto layout_of = [&](ValueId v) { return g.layout(v).is_partial() ? 2 : g.layout(v).dims.empty() ? 0 : 1; };
  for (int i = 0; i < nodes; ++i) {
    build.stream = streams[below(3)];
    build.name = g.intern("n" + std::to_string(i));
    const std::vector<ValueId> recent(values.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(values.size(), 12)), values.end());
    const ValueId a = recent[below(recent.size())];
    std::vector<ValueId> alike;
    for (const ValueId v : recent)
      if (layout_of(v) == layout_of(a)) alike.push_back(v);
    const ValueId b = alike[below(alike.size())];
    ValueId made;
    switch (below(6)) {
      case 0:
        made = build.op(Op::Scale, {a}, ScaleAttrs{0.5});
        break;
      case 1:
        made = build.op(Op::Sum, {a, b}, SumAttrs{});
        break;
      case 2:
        made = layout_of(a) == 2 ? build.op(Op::Scale, {a}, ScaleAttrs{-1}) : build.op(Op::Tanh, {a});
        break;
      case 3:
        made = build.op(Op::Sum, {b, a, b}, SumAttrs{});
        break;
      default: {  // another layout
        const std::size_t to = (static_cast<std::size_t>(layout_of(a)) + 1 + below(2)) % 3;
        static constexpr Op kOps[3][3] = {{Op::Fence, Op::LocalSlice, Op::ZeroRest},
                                          {Op::AllGather, Op::Fence, Op::Fence},
                                          {Op::AllReduce, Op::ReduceScatter, Op::Fence}};
        const Op op = kOps[layout_of(a)][to];
        if (op == Op::Fence) continue;
        const ResultInit result{g[a].type, g.intern(to == 0 ? whole : to == 1 ? cut : partial), Role::Activation};
        made = g.result(g.add({op, {&a, 1}, {&result, 1}, AttrsId(), Phase::F, TagSetId(0u), mesh, build.stream, build.name, OriginId()}));
        values.push_back(made);
        continue;
      }
    }
    g[made].layout = g[a].layout;
    values.push_back(made);
  }
  build.stream = 0;
  for (int i = 0; i < 3; ++i) {
    ValueId out = values[below(values.size())];
    if (layout_of(out) != 2) build.output("o" + std::to_string(i), out, "metric");
  }
  std::vector<ValueId> cuts;
  for (const ValueId v : values)
    if (layout_of(v) == 1) cuts.push_back(v);
  const ValueId grad = cuts[below(cuts.size())];
  const ValueId updated = build.op(Op::Sgd, {w, grad}, SgdAttrs{0.1, 0, 0});
  g[updated].layout = g.intern(cut);
  build.output("w", updated, "param");
  return g;
}

}  // namespace skirl
