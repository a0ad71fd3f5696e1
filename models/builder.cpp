#include "models/builder.h"

#include <cmath>

#include "ir/error.h"

namespace skirl {

ModelBuilder::Scope ModelBuilder::tag(std::string_view name, std::int64_t value) {
  return {builder_, graph_.intern(with_tag(graph_[builder_.tags], {graph_.intern(name), TagValue::integer(value)}))};
}

ModelBuilder::Scope ModelBuilder::tag(std::string_view name, std::string_view word) {
  return {builder_, graph_.intern(with_tag(graph_[builder_.tags], {graph_.intern(name), TagValue::word(graph_.intern(word))}))};
}

ValueId ModelBuilder::input(std::string_view name, const Shape& shape, std::optional<std::int64_t> cut,
                            std::optional<std::int64_t> sequence) {
  const Scope untagged(builder_, TagSetId(0u));
  return builder_.source(Op::Input, name, {dtype_, shape}, InputAttrs{cut, std::nullopt, sequence});
}

ValueId ModelBuilder::indices(std::string_view name, const Shape& shape, std::optional<std::int64_t> cut, std::int64_t range,
                              std::optional<std::int64_t> sequence) {
  const Scope untagged(builder_, TagSetId(0u));
  return builder_.source(Op::Input, name, {DType::I64, shape}, InputAttrs{cut, range, sequence});
}

ValueId ModelBuilder::param(std::string_view name, const Shape& shape, double deviation) {
  return param(name, shape, ParamAttrs{"normal", deviation, true});
}

ValueId ModelBuilder::param(std::string_view name, const Shape& shape, const ParamAttrs& attrs) {
  return builder_.source(Op::Param, name, {dtype_, shape}, attrs);
}

ValueId ModelBuilder::op(Op op, std::initializer_list<ValueId> operands, const Attrs& attrs, std::string_view name) {
  builder_.name = name.empty() ? NameId() : graph_.intern(name);
  const ValueId result = builder_.op(op, operands, attrs);
  builder_.name = NameId();
  return result;
}

ValueId ModelBuilder::einsum(std::string_view spec, ValueId a, ValueId b, std::string_view name) {
  return op(Op::Einsum, {a, b}, EinsumAttrs{std::string(spec)}, name);
}

ValueId ModelBuilder::linear(ValueId x, const std::string& name, const LinearParams& l) {
  const auto joined = [](Shape a, const Shape& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const auto product = [&](ValueId from, const std::string& in, const Shape& in_sizes, const std::string& out, const Shape& out_sizes,
                           const std::string& at, double deviation) {
    const ValueId weight = param(at + ".w", joined(in_sizes, out_sizes), deviation);
    return einsum("bs" + in + "," + in + out + "->bs" + out, from, weight, at);
  };
  ValueId y;
  if (l.rank == 0) {
    y = product(x, l.in, l.in_sizes, l.out, l.out_sizes, name, l.deviation);
  } else {
    // the elements of the product of the two then deviate as those of the one weight would
    const double deviation = std::sqrt(l.deviation / std::sqrt(static_cast<double>(l.rank)));
    const ValueId narrow = product(x, l.in, l.in_sizes, "r", {l.rank}, name + ".in", deviation);
    y = product(narrow, "r", {l.rank}, l.out, l.out_sizes, name + ".out", deviation);
  }
  if (!l.bias) return y;
  return op(Op::Add, {y, param(name + ".b", l.out_sizes, ParamAttrs{"constant", 0, true})}, NoAttrs{}, name + ".biased");
}

ValueId ModelBuilder::layer_norm(ValueId x, std::string_view name, double eps) {
  const Shape width{graph_.type(x).shape.back()};
  const ValueId gamma = param(std::string(name) + ".gamma", width, ParamAttrs{"constant", 1, true});
  const ValueId beta = param(std::string(name) + ".beta", width, ParamAttrs{"constant", 0, true});
  return op(Op::LayerNorm, {x, gamma, beta}, NormAttrs{eps}, name);
}

ValueId ModelBuilder::rms_norm(ValueId x, std::string_view name, double eps) {
  const ValueId gamma = param(std::string(name) + ".gamma", {graph_.type(x).shape.back()}, ParamAttrs{"constant", 1, true});
  return op(Op::RmsNorm, {x, gamma}, NormAttrs{eps}, name);
}

ValueId ModelBuilder::dropout(ValueId x, double p, std::string_view name) {
  return p == 0 ? x : op(Op::Dropout, {x}, DropoutAttrs{p}, name);
}

void ModelBuilder::mse(std::string_view name, ValueId x, ValueId y, double weight) {
  const ValueId sum = op(Op::SqError, {x, y}, NoAttrs{}, std::string(name) + ".sum");
  const std::int64_t count = elems(graph_.type(x).shape);
  builder_.output(name, op(Op::Loss, {sum}, LossAttrs{weight, count}, name), "loss");
}

void ModelBuilder::softmax_xent(std::string_view name, ValueId logits, ValueId labels, std::optional<std::int64_t> ignore, double weight) {
  const ValueId sum = op(Op::SoftmaxXent, {logits, labels}, LabelAttrs{ignore}, std::string(name) + ".sum");
  const ValueId count = op(Op::CountValid, {labels}, LabelAttrs{ignore}, std::string(name) + ".count");
  builder_.output(name, op(Op::Loss, {sum, count}, LossAttrs{weight, std::nullopt}, name), "loss");
}

Graph ModelBuilder::take() {
  graph_.for_each_node([&](NodeId node) {
    if (graph_[node].op != Op::Param) return;
    bool first = true;
    TagSet common;
    graph_.for_each_use(graph_.result(node), [&](UseId use) {
      const TagSet& tags = graph_[graph_[graph_[use].user].tags];
      common = first ? tags : common_tags(common, tags);
      first = false;
    });
    if (!first) graph_[node].tags = graph_.intern(common);
  });
  Graph finished = std::move(graph_);
  graph_ = Graph();
  builder_.tags = TagSetId(0u);
  return finished;
}

}  // namespace skirl
