#include "passes/differentiate.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/builder.h"
#include "ir/derivation.h"
#include "ir/error.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

struct Term {
  ValueId gradient;
  NodeId reader;  // forward node whose derivative it is
};

DType accumulate_type(DType dtype) { return dtype == DType::F64 ? DType::F64 : DType::F32; }

/// Every forward compute node gets a logical name of its own, so that its backward nodes can be told to belong to it.
void name_forward_nodes(Graph& graph) {
  std::vector<std::uint32_t> nodes_called(graph.name_count(), 0);
  graph.for_each_node([&](NodeId node) {  // an output may be called as its producer
    if (graph[node].name.valid() && graph[node].op != Op::Output) ++nodes_called[graph[node].name.index()];
  });
  std::size_t next = 0;
  graph.for_each_node([&](NodeId node) {
    const NameId old = graph[node].name;
    if (is_signature(graph[node].op) || (old.valid() && nodes_called[old.index()] == 1)) return;
    const std::string stem = (old.valid() ? graph[old] : std::string(info(graph[node].op).name)) + ".";
    std::string name;
    do {
      name = stem + std::to_string(next++);
    } while (graph.find_name(name).valid());
    graph[node].name = graph.intern(name);
  });
}

class Differentiation {
 public:
  Differentiation(Graph& graph, const OptimizerParams& params) : g_(graph), params_(params) {}

  void run() {
    check();
    find_losses();
    name_forward_nodes(g_);
    order_ = topological_order(g_);
    SKIRL_CHECK(order_.size() == g_.node_count(), "a forward graph with a cycle");
    const std::size_t values = g_.value_bound();
    needs_.assign(values, false);
    weight_.assign(values, false);
    terms_.resize(values);
    find_what_needs_gradients();
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) derive(*it);
    collect_parameter_gradients();
    if (gradients_.empty())
      throw Error("differentiate: no loss depends on a trainable parameter", "",
                  "mark at least one parameter that a loss reads as trainable");
    if (params_.clip) clip();
    update();
  }

 private:
  struct ParamGradient {
    NodeId param;
    ValueId gradient;
    TagSetId tags;
  };

  void check() const {
    if (params_.optimizer != "adamw" && params_.optimizer != "sgd" && params_.optimizer != "none")
      throw Error("differentiate: there is no optimizer '" + params_.optimizer +
                  "'; known: " + nearest_first(params_.optimizer, {"adamw", "sgd", "none"}));
    const auto at_least = [](const char* what, double value, double least) {
      if (!(value >= least) || !std::isfinite(value))
        throw Error(std::string("differentiate: ") + what + " is " + to_text(value) + ", expected a number of at least " + to_text(least));
    };
    at_least("lr", params_.lr, 0);
    at_least("momentum", params_.momentum, 0);
    at_least("weight_decay", params_.weight_decay, 0);
    if (params_.clip && !(*params_.clip > 0 && std::isfinite(*params_.clip)))
      throw Error("differentiate: clip is " + to_text(*params_.clip) + ", expected a norm above 0");
    g_.for_each_node([&](NodeId node) {
      if (g_[node].mesh != kHome || (g_[node].phase != Phase::F && g_[node].op != Op::Output))
        throw Error("differentiate: " + describe(g_, node) + " is no forward node at home; differentiation comes first");
    });
  }

  /// Finds the nodes that backward starts from: a loss is weighted by 1, so it counts once and nothing else may read it.
  void find_losses() {
    is_loss_.assign(g_.node_bound(), false);
    bool any = false;
    g_.for_each_node([&](NodeId node) {
      if (g_[node].op != Op::Output) return;
      const std::string& name = g_[g_[node].name];
      const std::string& kind = g_.attrs<OutputAttrs>(node).kind;
      if (kind != "loss" && kind != "metric")
        throw Error("differentiate: output \"" + name + "\" has kind \"" + kind + "\", expected loss or metric");
      if (kind != "loss") return;
      const NodeId loss = g_[g_.operand(node, 0)].producer;
      if (g_[loss].op != Op::Loss)
        throw Error("differentiate: loss \"" + name + "\" is the result of " + describe(g_, loss) + ", expected a loss node");
      if (is_loss_[loss.index()]) throw Error("differentiate: loss \"" + name + "\" is also another loss output, expected a loss once");
      is_loss_[loss.index()] = any = true;
      g_.for_each_use(g_.result(loss), [&](UseId use) {
        if (g_[g_[use].user].op != Op::Output)
          throw Error("differentiate: loss \"" + name + "\" is read by " + describe(g_, g_[use].user) + ", expected outputs only");
      });
    });
    if (!any) throw Error("differentiate: the model has no loss", "", "add one: loss \"mse\" = mse %y %target");
  }

  void find_what_needs_gradients() {
    std::vector<bool> constant(g_.value_bound(), false);  // stems from fills alone: a weight beside a weight, an input beside an input
    for (const NodeId node : order_) {
      if (g_[node].op == Op::Param) {
        needs_[g_.result(node).index()] = g_.attrs<ParamAttrs>(node).trainable;
        weight_[g_.result(node).index()] = true;
        continue;
      }
      bool needs = false;
      bool weight = false;
      bool input = g_[node].op == Op::Input;
      g_.for_each_operand(node, [&](ValueId v, std::size_t) {
        needs = needs || needs_[v.index()];
        weight = weight || weight_[v.index()];
        input = input || (!weight_[v.index()] && !constant[v.index()]);
      });
      g_.for_each_result(node, [&](ValueId v) {
        needs_[v.index()] = needs && is_float(g_.type(v).dtype);
        weight_[v.index()] = weight && !input;
        constant[v.index()] = !weight && !input;
      });
    }
  }

  /// The gradient of a forward value: none, its one term, or the sum of its terms in the order of their readers.
  ValueId total(ValueId value, Phase phase, TagSetId tags) {
    std::vector<Term>& terms = terms_[value.index()];
    if (terms.empty()) return ValueId();
    if (terms.size() == 1) return terms.front().gradient;
    std::reverse(terms.begin(), terms.end());  // they were met from the back
    std::vector<ValueId> operands;
    for (const Term& term : terms) operands.push_back(term.gradient);
    Builder b(g_);
    b.phase = phase;
    b.tags = tags;
    b.name = g_[g_[value].producer].name;
    const Role role = phase == Phase::U ? Role::Gradient : Role::ActGradient;
    return g_.result(b.node(Op::Sum, operands, SumAttrs{accumulate_type(g_.type(value).dtype)}, role));
  }

  void derive(NodeId node) {
    const Node forward = g_[node];
    if (forward.op == Op::Output || forward.op == Op::Input || forward.op == Op::Param) return;
    std::vector<bool> needs;
    std::vector<bool> weight;
    bool any = false;
    g_.for_each_operand(node, [&](ValueId v, std::size_t) {
      needs.push_back(needs_[v.index()]);
      weight.push_back(weight_[v.index()]);
      any = any || needs.back();
    });
    if (!any) return;
    std::vector<ValueId> grads;
    bool reached = is_loss_[node.index()];
    for (std::size_t r = 0; r < forward.result_count; ++r) {
      const ValueId value = g_.result(node, r);
      grads.push_back(total(value, weight_[value.index()] ? Phase::BW : Phase::BI, forward.tags));
      reached = reached || grads.back().valid();
    }
    if (!reached) return;
    if (info(forward.op).derive == nullptr)
      throw Error("differentiate: " + describe(g_, node) + " has no derivative, and a loss depends on a trainable parameter through it");
    Derivation derivation(g_, node, std::move(grads), std::move(needs), std::move(weight));
    info(forward.op).derive(derivation);
    for (std::size_t i = derivation.operand_grads().size(); i-- > 0;)  // backward, as total() reverses
      if (derivation.operand_grads()[i].valid() && needs_[g_.operand(node, i).index()])
        terms_[g_.operand(node, i).index()].push_back({derivation.operand_grads()[i], node});
  }

  /// Tags that all readers of a parameter have.
  TagSetId tags_of_readers(ValueId param) {
    std::optional<TagSet> common;
    for (const UseId use : g_.uses(param)) {
      if (g_[g_[use].user].op == Op::Output) continue;
      const TagSet& tags = g_[g_[g_[use].user].tags];
      common = common ? common_tags(*common, tags) : tags;
    }
    return common ? g_.intern(*common) : TagSetId(0u);
  }

  void collect_parameter_gradients() {
    for (const NodeId node : order_) {
      if (g_[node].op != Op::Param) continue;
      const ValueId param = g_.result(node);
      const TagSetId tags = tags_of_readers(param);
      g_[node].tags = tags;
      if (!needs_[param.index()]) continue;
      const ValueId gradient = total(param, Phase::U, tags);
      if (!gradient.valid()) continue;
      g_[gradient].role = Role::Gradient;
      gradients_.push_back({node, gradient, tags});
    }
  }

  void clip() {
    std::vector<ValueId> squares;
    Builder b(g_);
    b.phase = Phase::U;
    for (const ParamGradient& p : gradients_) {
      b.tags = p.tags;
      b.name = g_[p.param].name;
      squares.push_back(b.op(Op::SumSq, {p.gradient}, NoAttrs{}, Role::Scalar));
    }
    if (squares.size() > 0xFFFF)
      throw Error("differentiate: the gradient norm of " + std::to_string(squares.size()) + " parameters, expected at most 65535");
    b.tags = TagSetId(0u);
    b.name = g_.intern("grad_norm");
    const ValueId squared = squares.size() == 1 ? squares.front() : g_.result(b.node(Op::Sum, squares, SumAttrs{DType::F64}, Role::Scalar));
    ClipAttrs attrs;
    attrs.max_norm = *params_.clip;
    const NodeId clipping = b.node(Op::ClipCoef, {&squared, 1}, attrs, Role::Scalar);
    b.output("grad_norm", g_.result(clipping, 1), "metric");
    std::map<DType, ValueId> coefficients{{DType::F64, g_.result(clipping, 0)}};
    for (ParamGradient& p : gradients_) {
      const DType dtype = g_.type(p.gradient).dtype;
      ValueId& coefficient = coefficients[dtype];
      b.tags = TagSetId(0u);
      b.name = g_.intern("grad_norm");
      if (!coefficient.valid()) coefficient = b.op(Op::Cast, {coefficients[DType::F64]}, CastAttrs{dtype}, Role::Scalar);
      b.tags = p.tags;
      b.name = g_[p.param].name;
      p.gradient = b.op(Op::Mul, {p.gradient, coefficient}, NoAttrs{}, Role::Gradient);
    }
  }

  void update() {
    for (const ParamGradient& p : gradients_) {
      Builder b(g_);
      b.phase = Phase::U;
      b.tags = p.tags;
      b.name = g_[p.param].name;
      const std::string name = g_[g_[p.param].name];
      const ValueId param = g_.result(p.param);
      b.output(name, p.gradient, "gradient");
      if (params_.optimizer == "none") continue;
      std::vector<std::string> moments;
      Attrs attrs;
      if (params_.optimizer == "sgd") {
        attrs = SgdAttrs{params_.lr, params_.momentum, params_.weight_decay};
        if (params_.momentum > 0) moments = {"momentum"};
      } else {
        attrs = AdamWAttrs{params_.lr, params_.beta1, params_.beta2, params_.eps, params_.weight_decay};
        moments = {"m", "v"};
      }
      std::vector<ValueId> operands{param, p.gradient};
      const TensorType state{accumulate_type(g_.type(param).dtype), g_.type(param).shape};  // moments of half width would lose small terms
      for (const std::string& moment : moments) operands.push_back(b.source(Op::State, name + "." + moment, state, StateAttrs{name}));
      const NodeId step = b.node(params_.optimizer == "sgd" ? Op::Sgd : Op::AdamW, operands, attrs, Role::Param);
      b.output(name, g_.result(step, 0), "param");
      for (std::size_t i = 0; i < moments.size(); ++i) {
        g_[g_.result(step, i + 1)].role = Role::State;
        b.output(name + "." + moments[i], g_.result(step, i + 1), "state");
      }
    }
  }

  Graph& g_;
  const OptimizerParams& params_;
  std::vector<NodeId> order_;
  std::vector<bool> is_loss_;  // by node: backward starts here
  std::vector<bool> needs_;    // by value: depends on a trainable parameter
  std::vector<bool> weight_;   // by value: stems from parameters alone
  std::vector<std::vector<Term>> terms_;
  std::vector<ParamGradient> gradients_;
};

}  // namespace

Graph differentiate(Graph graph, const OptimizerParams& params) {
  Differentiation(graph, params).run();
  return graph;
}

}  // namespace skirl
