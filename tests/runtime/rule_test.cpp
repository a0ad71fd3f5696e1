#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/rules.h"
#include "ir/verify.h"
#include "passes/lower.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/reference/interpreter.h"
#include "tools/testing.h"

using namespace skirl;

namespace {

struct Operand {
  Shape shape;
  std::optional<std::int64_t> range = {};  // of integers; none: f64
};

struct Sample {
  Op op;
  Attrs attrs;
  std::vector<Operand> operands;
};

/// Of a sequence of 8: two intervals, one, and none.
const IntervalTable kPieces{{{0, 2}, {6, 8}}, {{2, 6}}, {}};

/// A call of every operator that computes or updates, with sizes that do not divide.
const std::vector<Sample>& samples() {
  static const std::vector<Sample> kSamples{
      {Op::Einsum, EinsumAttrs{"bsh,hf->bsf"}, {{{2, 3, 5}}, {{5, 4}}}},
      {Op::Einsum, EinsumAttrs{"xij,xjk->kix"}, {{{2, 3, 5}}, {{2, 5, 4}}}},
      {Op::Add, NoAttrs{}, {{{2, 1, 3}}, {{5, 3}}}},
      {Op::Mul, NoAttrs{}, {{{2, 1, 3}}, {{5, 3}}}},
      {Op::Scale, ScaleAttrs{-3}, {{{4, 3}}}},
      {Op::Tanh, NoAttrs{}, {{{4, 3}}}},
      {Op::TanhGrad, NoAttrs{}, {{{4, 3}}, {{4, 3}}}},
      {Op::Gelu, NoAttrs{}, {{{4, 3}}}},
      {Op::GeluGrad, NoAttrs{}, {{{4, 3}}, {{4, 3}}}},
      {Op::Silu, NoAttrs{}, {{{4, 3}}}},
      {Op::SiluGrad, NoAttrs{}, {{{4, 3}}, {{4, 3}}}},
      {Op::Swiglu, NoAttrs{}, {{{4, 3}}, {{4, 3}}}},
      {Op::SwigluGrad, NoAttrs{}, {{{4, 3}}, {{4, 3}}, {{4, 3}}}},
      {Op::SumTo, ShapeAttrs{{1, 3}}, {{{4, 2, 3}}}},
      {Op::LayerNorm, NormAttrs{}, {{{2, 4, 3}}, {{3}}, {{3}}}},
      {Op::LayerNormBI, NoAttrs{}, {{{2, 4, 3}}, {{2, 4, 3}}, {{3}}, {{2, 4}}, {{2, 4}}}},
      {Op::LayerNormBW, NoAttrs{}, {{{2, 4, 3}}, {{2, 4, 3}}, {{2, 4}}, {{2, 4}}}},
      {Op::RmsNorm, NormAttrs{}, {{{2, 4, 3}}, {{3}}}},
      {Op::RmsNormBI, NoAttrs{}, {{{2, 4, 3}}, {{2, 4, 3}}, {{3}}, {{2, 4}}}},
      {Op::RmsNormBW, NoAttrs{}, {{{2, 4, 3}}, {{2, 4, 3}}, {{2, 4}}}},
      {Op::RowSum, NoAttrs{}, {{{2, 4, 3}}}},
      {Op::RowSumSq, NoAttrs{}, {{{2, 4, 3}}}},
      {Op::RowSumSq, NoAttrs{}, {{{2, 4, 3}}, {{2, 4}}}},
      {Op::NormApply, NormAttrs{}, {{{2, 4, 3}}, {{3}}, {{2, 4}}}},
      {Op::NormApply, NormAttrs{}, {{{2, 4, 3}}, {{3}}, {{3}}, {{2, 4}}, {{2, 4}}}},
      {Op::NormDots, NoAttrs{}, {{{2, 4, 3}}, {{2, 4, 3}}, {{3}}, {{2, 4}}}},
      {Op::NormDots, NoAttrs{}, {{{2, 4, 3}}, {{2, 4, 3}}, {{3}}, {{2, 4}}, {{2, 4}}}},
      {Op::NormBIApply, NoAttrs{}, {{{2, 4, 3}}, {{2, 4, 3}}, {{3}}, {{2, 4}}, {{2, 4}}}},
      {Op::NormBIApply, NoAttrs{}, {{{2, 4, 3}}, {{2, 4, 3}}, {{3}}, {{2, 4}}, {{2, 4}}, {{2, 4}}, {{2, 4}}}},
      {Op::Rope, RopeAttrs{10, false}, {{{2, 5, 3, 4}}}},
      {Op::Attention, AttentionAttrs{true, 0.3}, {{{2, 5, 6, 2}}, {{2, 5, 3, 2}}, {{2, 5, 3, 4}}}},
      {Op::Attention, AttentionAttrs{false, 0.3}, {{{2, 4, 6, 2}}, {{2, 5, 2, 2}}, {{2, 5, 2, 3}}}},
      {Op::AttentionBI,
       AttentionAttrs{true, 0.3},
       {{{2, 5, 6, 2}}, {{2, 5, 3, 2}}, {{2, 5, 3, 4}}, {{2, 5, 6, 4}}, {{2, 5, 6}}, {{2, 5, 6, 4}}}},
      {Op::AttentionPiece,
       AttentionPieceAttrs{true, 0.3, {{{0, 1}, {4, 5}}, {{1, 4}}}, 1},
       {{{2, 5, 6, 2}}, {{2, 5, 3, 2}}, {{2, 5, 3, 4}}}},
      {Op::AttentionPiece, AttentionPieceAttrs{false, 0.3, kPieces, 2}, {{{2, 8, 4, 2}}, {{2, 8, 2, 2}}, {{2, 8, 2, 3}}}},
      {Op::AttentionPieceBI,
       AttentionPieceAttrs{true, 0.3, kPieces, 1},
       {{{2, 8, 6, 2}}, {{2, 8, 3, 2}}, {{2, 8, 3, 4}}, {{2, 8, 6, 4}}, {{2, 8, 6}}, {{2, 8, 6, 4}}}},
      {Op::AttentionMerge, NoAttrs{}, {{{2, 4, 3}}, {{2, 4}}, {{2, 4, 3}}, {{2, 4}}}},
      {Op::Embedding, NoAttrs{}, {{{7, 3}}, {{2, 4}, 7}}},
      {Op::EmbeddingBW, ShapeAttrs{{7, 3}}, {{{2, 4, 3}}, {{2, 4}, 7}}},
      {Op::SoftmaxXent, LabelAttrs{1}, {{{2, 4, 7}}, {{2, 4}, 7}}},
      {Op::SoftmaxXentBI, LabelAttrs{1}, {{{2, 4, 7}}, {{2, 4}, 7}, {{2, 4}}, {{}}}},
      {Op::CountValid, LabelAttrs{1}, {{{2, 4}, 3}}},
      {Op::RowMax, NoAttrs{}, {{{4, 7}}}},
      {Op::SumExp, NoAttrs{}, {{{4, 7}}, {{4}}}},
      {Op::Pick, LabelAttrs{1}, {{{4, 7}}, {{4}, 7}}},
      {Op::XentMerge, LabelAttrs{1}, {{{4}}, {{4}}, {{4}}, {{4}, 7}}},
      {Op::SqError, NoAttrs{}, {{{4, 3}}, {{4, 3}}}},
      {Op::SqErrorBI, NoAttrs{}, {{{4, 3}}, {{4, 3}}, {{}}}},
      {Op::Loss, LossAttrs{0.5, {}}, {{{}}, {{}}}},
      {Op::LossScale, LossAttrs{0.5, 3}, {}},
      {Op::Dropout, DropoutAttrs{0.5}, {{{4, 5}}}},
      {Op::Sum, SumAttrs{}, {{{4, 3}}, {{4, 3}}, {{4, 3}}}},
      {Op::Slice, SliceAttrs{1, 1, 2}, {{{4, 3}}}},
      {Op::Pad, PadAttrs{1, 1, 5}, {{{4, 3}}}},
      {Op::Concat, ConcatAttrs{1}, {{{4, 3}}, {{4, 2}}}},
      {Op::Cast, CastAttrs{DType::F64}, {{{4, 3}}}},
      {Op::Fill, FillAttrs{{4, 3}, DType::F64, 2}, {}},
      {Op::Iota, ShapeAttrs{{5}}, {}},
      {Op::SumSq, NoAttrs{}, {{{4, 3}}}},
      {Op::ClipCoef, ClipAttrs{}, {{{}}}},
      {Op::Sgd, SgdAttrs{0.1, 0.9, 0.1}, {{{4, 3}}, {{4, 3}}, {{4, 3}}}},
      {Op::AdamW, AdamWAttrs{}, {{{4, 3}}, {{4, 3}}, {{4, 3}}, {{4, 3}}}},
  };
  return kSamples;
}

/// How one call lies on a mesh of one axis.
struct Spread {
  std::int64_t devices = 0;     // 0: at home
  int factor = -1;              // that the axis cuts
  std::set<std::size_t> terms;  // operands that are sums of as many terms as `of`, Partial on the mesh
  std::int64_t of = 2;
  bool by_turns = false;  // the devices own the factor's elements by turns, so each has several intervals
};

/// Whether the factor leads a dimension in which others lie within it, so that pieces must be stated.
bool holds_others(const FactorRule& rule, int factor) {
  const auto in = [&](const std::vector<std::vector<DimFactors>>& tensors) {
    for (const auto& dims : tensors)
      for (const DimFactors& factors : dims)
        if (factors.size() > 1 && factors.front() == factor) return true;
    return false;
  };
  return in(rule.operands) || in(rule.results);
}

Cut cut_of(const FactorRule& rule, const DimFactors& factors, const Spread& spread, std::int32_t turn) {
  Cut cut{{0}, {}};
  if (rule.ring.factor == spread.factor) {
    cut.table = rule.ring.pieces;
    std::rotate(cut.table.begin(), cut.table.begin() + turn, cut.table.end());
    return cut;
  }
  if (!spread.by_turns && !holds_others(rule, factors.front())) return cut;
  std::int64_t unit = 1;
  for (std::size_t f = 1; f < factors.size(); ++f) unit *= rule.factors[factors[f]].size;
  const std::int64_t size = rule.factors[factors.front()].size;
  for (std::int64_t i = 0; i < spread.devices; ++i) {
    cut.table.emplace_back();
    const Interval own = piece({0, size}, spread.devices, i);
    if (!spread.by_turns && own.size() > 0) cut.table.back().push_back({own.begin * unit, own.end * unit});
    for (std::int64_t at = i; spread.by_turns && at < size; at += spread.devices) cut.table.back().push_back({at * unit, (at + 1) * unit});
  }
  return cut;
}

/// The turn is that of the tensor where the rule turns the factor.
Layout layout_of(const FactorRule& rule, const std::vector<DimFactors>& dims, MeshId mesh, const Spread& spread, std::int32_t turn) {
  Layout layout{mesh, {}, {}};
  layout.dims.resize(dims.size());
  const Mesh line{.axes = {{NameId(), spread.devices}}, .devices = {}, .members = {}};
  for (std::size_t d = 0; d < dims.size() && spread.factor >= 0; ++d) {
    const std::int64_t size = global_size(rule, dims[d]);
    const auto at = std::find(dims[d].begin(), dims[d].end(), spread.factor);
    if (at == dims[d].end()) continue;
    if (at == dims[d].begin()) {
      layout.dims[d] = canonical(cut_of(rule, dims[d], spread, turn), line, size);
    } else {  // each block of the factors outside of it is cut
      const CutStyle style{global_size(rule, {at + 1, dims[d].end()}), global_size(rule, {at, dims[d].end()}), {}};
      layout.dims[d] = with_cut(Layout{}, line, 0, size, 0, style).dims[0];
    }
  }
  layout.canonicalise();
  return layout;
}

/// What a result that lacks the cut factor is, and one that is linear in terms.
Layout result_layout(const FactorRule& rule, std::size_t i, MeshId mesh, const Spread& spread) {
  const Layout layout = layout_of(rule, rule.results[i], mesh, spread, rule.ring.factor >= 0 ? rule.ring.result_turn[i] : 0);
  if (!spread.terms.empty()) return with_partial(layout, 0);
  if (spread.factor < 0 || !layout.dims.empty()) return layout;
  const FactorKind kind = rule.factors[static_cast<std::size_t>(spread.factor)].kind;
  if (kind == FactorKind::Free || kind == FactorKind::Prefix) return layout;
  return with_partial(layout, 0, kind == FactorKind::Max ? Reduction::Max : Reduction::Sum);
}

Graph call_graph(const Sample& sample, const Spread& spread) {
  Graph g;
  Builder b(g);
  if (spread.devices > 0) {
    std::vector<DeviceId> devices;
    for (std::int64_t d = 0; d < spread.devices; ++d) devices.push_back(static_cast<DeviceId>(d));
    b.mesh = g.add_mesh(devices, {{g.intern("a"), spread.devices}});
  }
  const bool home = spread.devices == 0;
  const auto lie = [&](ValueId value, const Layout& layout) { g[value].layout = g.intern(layout); };
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    const Operand& operand = sample.operands[i];
    TensorType type{operand.range ? DType::I64 : DType::F64, operand.shape};
    if (spread.terms.count(i) == 0) {
      operands.push_back(b.source(Op::Input, "x" + std::to_string(i), type, InputAttrs{{}, operand.range}));
      continue;
    }
    type.shape.insert(type.shape.begin(), spread.of);
    const ValueId terms = b.source(Op::Input, "terms" + std::to_string(i), type, InputAttrs{});
    operands.push_back(b.op(Op::SumTo, {terms}, ShapeAttrs{operand.shape}));
    if (home) continue;
    lie(terms, with_cut(Layout{b.mesh, {}, {}}, g[b.mesh], 0, spread.of, 0));
    lie(operands.back(), with_partial(Layout{b.mesh, {}, {}}, 0));
  }
  b.name = g.intern("call");
  const NodeId call = b.node(sample.op, operands, sample.attrs);
  b.name = NameId();
  Rules rules(g);
  const FactorRule rule = rules.of(call);
  if (!home)
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (spread.terms.count(i) == 0)
        lie(operands[i], layout_of(rule, rule.operands[i], b.mesh, spread, rule.ring.factor >= 0 ? rule.ring.operand_turn[i] : 0));
  for (std::size_t i = 0; i < rule.results.size(); ++i) {
    ValueId result = g.result(call, i);
    if (!home) {
      lie(result, result_layout(rule, i, b.mesh, spread));
      if (g.layout(result).is_partial()) {
        const ResultInit whole{g[result].type, g.replicate(b.mesh), g[result].role};
        result = g.result(g.add({Op::AllReduce, {&result, 1}, {&whole, 1}, g.intern(Attrs{NoAttrs{}}), Phase::F, {}, b.mesh}));
      }
    }
    b.output("y" + std::to_string(i), result, "metric");
  }
  return g;
}

/// The call spread over devices gives what it gives at home.
void check_spread(const Sample& sample, const Spread& spread) {
  Spread home;
  home.terms = spread.terms;
  home.of = spread.of;
  const Graph whole = call_graph(sample, home);
  const Graph parts = call_graph(sample, spread);
  for (const Breach& breach : verify(parts))
    if (breach.rule == 4 || breach.rule == 5) FAIL_CHECK("R" << breach.rule << ": " << breach.message);
  Interpreter reference(whole, 5);
  const auto inputs = [&](std::int64_t step) {
    TensorMap given = random_inputs(whole, 5, step);
    for (auto& [name, tensor] : given)  // above zero, as second moments and sums of exponentials are
      if (is_float(tensor.type().dtype))
        for (std::int64_t i = 0; i < tensor.elems(); ++i) tensor.set(i, std::abs(tensor.get(i)) + 0.1);
    return given;
  };
  const auto check = [&](StepRunner& runner) {
    const Deviation deviation = compare_steps(reference, runner, inputs, 1);
    INFO(deviation.worst);
    CHECK(deviation.max() <= 1e-12);
  };
  Interpreter interpreter(parts, 5);
  check(interpreter);
  const Plan plan = lower(parts, {});
  check(*make_cpu_runner(plan, 5, {.workers = 1}));
}

FactorRule rule_of(const Sample& sample) {
  std::vector<TensorType> operands;
  for (const Operand& operand : sample.operands) operands.push_back({operand.range ? DType::I64 : DType::F64, operand.shape});
  const std::vector<TensorType> results = info(sample.op).infer({sample.op, sample.attrs, operands});
  return info(sample.op).rule({sample.op, sample.attrs, operands, results});
}

/// Whether the factor lies within others in every dimension that has it.
bool lies_within(const FactorRule& rule, int factor) {
  bool leads = false;
  for (std::size_t i = 0; i < rule.operands.size(); ++i) leads = leads || rule.operand_dim(i, factor) >= 0;
  for (std::size_t i = 0; i < rule.results.size(); ++i) leads = leads || rule.result_dim(i, factor) >= 0;
  return !leads;
}

}  // namespace

TEST_CASE("every operator that computes or updates is sampled") {
  std::set<Op> seen;
  for (const Sample& sample : samples()) seen.insert(sample.op);
  for (int i = 0; i < kOpCount; ++i) {
    INFO(info(static_cast<Op>(i)).name);
    CHECK((!is_compute(static_cast<Op>(i)) || seen.count(static_cast<Op>(i)) == 1));
  }
}

TEST_CASE("whatever factor is cut, the devices' results are together what the rule says") {
  std::size_t cuts = 0;
  for (const Sample& sample : samples()) {
    const FactorRule rule = rule_of(sample);
    for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
      const Factor& factor = rule.factors[static_cast<std::size_t>(f)];
      if (factor.kind == FactorKind::Whole) continue;
      const bool ring = rule.ring.factor == f;
      for (const std::int64_t devices : ring ? std::vector<std::int64_t>{static_cast<std::int64_t>(rule.ring.pieces.size())}
                                             : std::vector<std::int64_t>{2, 3, 8})  // uneven; with some that hold nothing
        for (const bool by_turns : {false, true}) {
          if (by_turns && (ring || devices == 8 || lies_within(rule, f))) continue;
          INFO(info(sample.op).name << ", factor " << factor.name << ", " << devices << " devices" << (by_turns ? ", by turns" : ""));
          check_spread(sample, {.devices = devices, .factor = f, .by_turns = by_turns});
          ++cuts;
        }
    }
  }
  CHECK(cuts > 200);
}

TEST_CASE("where an operator is linear, its operands may be terms and so is its result") {
  std::size_t spreads = 0;
  for (const Sample& sample : samples()) {
    const FactorRule rule = rule_of(sample);
    std::vector<std::set<std::size_t>> choices;
    std::set<std::size_t> all;
    for (std::size_t i = 0; i < rule.linear_operands.size(); ++i)
      if (rule.linear_operands[i] != 0) all.insert(i);
    if (rule.linear == Linear::Together) choices.push_back(all);
    if (rule.linear == Linear::Each)
      for (const std::size_t i : all) choices.push_back({i});
    for (const std::set<std::size_t>& terms : choices) {
      INFO(info(sample.op).name << ", operand " << *terms.begin());
      check_spread(sample, {.devices = 3, .terms = terms, .of = 3});
      ++spreads;
    }
  }
  CHECK(spreads > 20);
}

TEST_CASE("a rule that claims too much is noticed") {
  // The square of a value is not linear in it: as terms its result is another.
  const Sample square{Op::SumSq, NoAttrs{}, {{{4, 3}}}};
  const Graph whole = call_graph(square, {.terms = {0}, .of = 3});
  CHECK(!same_step(whole, call_graph(square, {.devices = 3, .terms = {0}, .of = 3})));
}
