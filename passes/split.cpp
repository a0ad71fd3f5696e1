#include "passes/split.h"

#include <algorithm>
#include <unordered_map>

#include "ir/error.h"
#include "passes/propagate.h"

namespace skirl {
namespace {

/// Expands an axis of clones: Shard becomes one value a clone, Partial a sum of the clones, Replicate stays one shared node.
class Expansion {
 public:
  Expansion(Graph& graph, Rules& rules, Propagation plan, const SplitParams& params, std::int64_t batch)
      : g_(graph),
        rules_(rules),
        plan_(std::move(plan)),
        count_(static_cast<std::size_t>(params.num_microbatches)),
        tag_(graph.intern(params.dim_name)) {
    for (std::size_t m = 0; m < count_; ++m) pieces_.push_back(piece({0, batch}, params.num_microbatches, static_cast<std::int64_t>(m)));
    first_.assign(plan_.value.size(), kNone);
    term_count_.assign(plan_.value.size(), 0);
    whole_.resize(plan_.value.size());
    slices_.assign(plan_.value.size(), kNone);
    g_.reserve(plan_.order.size() * count_);
    pool_.reserve(plan_.order.size() * count_);
  }

  void run() {
    std::vector<NodeId> cloned;
    for (const NodeId node : plan_.order) {
      const bool source = g_[node].op == Op::Input && state(g_.result(node)).is_shard();
      if (source || plan_.factor[node.index()] >= 0) {
        clone(node);
        cloned.push_back(node);
      } else if (g_[node].result_count > 0 && state(g_.result(node)).is_partial()) {
        if (g_[node].op == Op::Cast) {
          cast_terms(node);
          cloned.push_back(node);
        } else {
          flatten(node);
        }
      } else {
        const std::size_t operands = g_[node].operand_count;
        for (std::size_t i = 0; i < operands; ++i) {
          const ValueId value = g_.operand(node, i);
          if (!state(value).is_replicate()) g_.set_operand(node, i, whole(value));
        }
      }
    }
    for (auto it = cloned.rbegin(); it != cloned.rend(); ++it) {
      const bool read_whole = g_[*it].op == Op::Input && g_.has_uses(g_.result(*it));  // a count over the whole batch
      if (!read_whole) g_.erase(*it);
    }
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  AxisState state(ValueId value) const { return value.index() < plan_.value.size() ? plan_.value[value.index()] : AxisState::replicate(); }

  void clone(NodeId node) {
    const Node original = g_[node];
    const int f = original.op == Op::Input ? static_cast<int>(state(g_.result(node)).dim) : plan_.factor[node.index()];
    const FactorRule& rule = rules_.of(node);
    for (std::size_t r = 0; r < original.result_count; ++r) start_list(g_.result(node, r), count_);
    for (std::size_t m = 0; m < count_; ++m) {
      operands_.clear();
      for (std::size_t i = 0; i < original.operand_count; ++i) {
        const AxisState need = plan_.operand[g_.use(node, i).index()];
        const ValueId value = g_.operand(node, i);
        operands_.push_back(need.is_shard() ? part(value, need, m) : whole(value));
      }
      results_.clear();
      for (std::size_t r = 0; r < original.result_count; ++r) {
        const ValueId value = g_.result(node, r);
        const AxisState s = state(value);
        results_.push_back({s.is_shard() ? cut_type(g_[value].type, s.dim, m) : g_[value].type, g_[value].layout, g_[value].role});
      }
      const NodeId copy = g_.add({original.op, operands_, results_, clone_attrs(original), original.phase, clone_tags(original.tags, m),
                                  original.mesh, original.stream, original.name, clone_origin(original, rule, f, m)});
      for (std::size_t r = 0; r < original.result_count; ++r) pool_[first_[g_.result(node, r).index()] + m] = g_.result(copy, r);
    }
  }

  /// A sum of sums is one flat sum: its terms are those of its operands, microbatch by microbatch.
  void flatten(NodeId node) {
    const ValueId result = g_.result(node);
    std::vector<ValueId> terms;
    for (std::size_t m = 0; m < count_; ++m)
      g_.for_each_operand(node, [&](ValueId value, std::size_t) {
        if (!state(value).is_partial()) {
          if (m == 0) terms.push_back(value);
          return;
        }
        const std::size_t each = term_count_[value.index()] / count_;
        for (std::size_t t = 0; t < each; ++t) terms.push_back(pool_[first_[value.index()] + m * each + t]);
      });
    SKIRL_CHECK(g_[node].op == Op::Sum, "only a sum passes terms on");
    start_list(result, terms.size());
    std::copy(terms.begin(), terms.end(), pool_.begin() + first_[result.index()]);
    g_.set_operands(node, terms);
    whole_[result.index()] = result;
  }

  /// A cast of a sum is the sum of its casted terms.
  void cast_terms(NodeId node) {
    const Node original = g_[node];
    const ValueId result = g_.result(node);
    const ValueId operand = g_.operand(node, 0);
    const ResultInit casted{g_[result].type, g_[result].layout, g_[result].role};
    start_list(result, term_count_[operand.index()]);
    for (std::size_t t = 0; t < term_count_[operand.index()]; ++t) {
      const ValueId term = pool_[first_[operand.index()] + t];
      const TagValue* clone = g_[g_[g_[term].producer].tags].find(tag_);
      const TagSetId tags = clone == nullptr ? original.tags : clone_tags(original.tags, static_cast<std::size_t>(clone->number));
      pool_[first_[result.index()] + t] = g_.result(g_.add({original.op,
                                                            {&term, 1},
                                                            {&casted, 1},
                                                            original.attrs,
                                                            original.phase,
                                                            tags,
                                                            original.mesh,
                                                            original.stream,
                                                            original.name,
                                                            original.origin}));
    }
  }

  void start_list(ValueId value, std::size_t size) {
    first_[value.index()] = static_cast<std::uint32_t>(pool_.size());
    term_count_[value.index()] = static_cast<std::uint32_t>(size);
    pool_.resize(pool_.size() + size);
  }

  /// The value as one, for a reader that is not cloned (or reads it whole): a sum of terms, a concat of parts, or itself.
  ValueId whole(ValueId value) {
    const AxisState s = state(value);
    if (s.is_replicate()) return value;
    const NodeId producer = g_[value].producer;
    if (g_[producer].op == Op::Input) return value;  // the whole input is there as well
    ValueId& known = whole_[value.index()];
    if (known.valid()) return known;
    const Node made_by = g_[producer];
    const bool gradient = s.is_partial() && made_by.phase == Phase::BW;
    const std::span<const ValueId> parts(pool_.data() + first_[value.index()], term_count_[value.index()]);
    const DType accumulate = g_.type(value).dtype == DType::F64 ? DType::F64 : DType::F32;
    const Attrs attrs = s.is_partial() ? Attrs{SumAttrs{accumulate}} : Attrs{ConcatAttrs{s.dim}};
    const ResultInit result{g_[value].type, g_[value].layout, g_[value].role};
    known = g_.result(g_.add({s.is_partial() ? Op::Sum : Op::Concat,
                              parts,
                              {&result, 1},
                              g_.intern(attrs),
                              gradient ? Phase::U : made_by.phase,
                              made_by.tags,
                              made_by.mesh,
                              made_by.stream,
                              made_by.name,
                              OriginId()}));
    return known;
  }

  /// Piece m of a value along need.dim.
  ValueId part(ValueId value, AxisState need, std::size_t m) {
    const AxisState s = state(value);
    if (s.is_shard() && s.dim == need.dim) return pool_[first_[value.index()] + m];
    const ValueId from = whole(value);
    std::uint32_t& at = slices_[value.index()];
    if (at == kNone || slice_dim_[at] != need.dim) {
      at = static_cast<std::uint32_t>(pool_.size());
      slice_dim_[at] = need.dim;
      pool_.resize(pool_.size() + count_);
      const Node made_by = g_[g_[from].producer];
      for (std::size_t i = 0; i < count_; ++i) {
        const TypeId type = cut_type(g_[from].type, need.dim, i);
        const std::int64_t inner = g_[type].shape[need.dim] / std::max<std::int64_t>(1, pieces_[i].size());
        const ResultInit result{type, g_[from].layout, g_[from].role};
        const Attrs attrs = SliceAttrs{need.dim, pieces_[i].begin * inner, g_[type].shape[need.dim]};
        pool_[at + i] = g_.result(g_.add({Op::Slice,
                                          {&from, 1},
                                          {&result, 1},
                                          g_.intern(attrs),
                                          made_by.phase,
                                          clone_tags(made_by.tags, i),
                                          made_by.mesh,
                                          made_by.stream,
                                          made_by.name,
                                          OriginId()}));
      }
    }
    return pool_[at + m];
  }

  /// The type with dimension `dim` cut to piece m; a dimension that is a product keeps its inner factors.
  TypeId cut_type(TypeId whole_type, std::size_t dim, std::size_t m) {
    const std::uint64_t key =
        (static_cast<std::uint64_t>(whole_type.index()) << 32) | (dim << 24) | (pieces_[m].size() == pieces_[0].size() ? 0u : 1u);
    const auto [it, fresh] = types_.try_emplace(key);
    if (fresh) {
      TensorType type = g_[whole_type];
      const std::int64_t batch = pieces_.back().end;
      type.shape[dim] = type.shape[dim] / batch * pieces_[m].size();
      it->second = g_.intern(type);
    }
    return it->second;
  }

  TagSetId clone_tags(TagSetId tags, std::size_t m) {
    const auto [it, fresh] = tags_.try_emplace((static_cast<std::uint64_t>(tags.index()) << 32) | m);
    if (fresh) it->second = g_.intern(with_tag(g_[tags], {tag_, TagValue::integer(static_cast<std::int64_t>(m))}));
    return it->second;
  }

  /// Attributes that state a shape are stated again for the clone.
  AttrsId clone_attrs(const Node& original) {
    const Attrs& attrs = g_[original.attrs];
    if (!std::holds_alternative<ShapeAttrs>(attrs) && !std::holds_alternative<FillAttrs>(attrs)) return original.attrs;
    std::vector<TensorType> operand_types;
    std::vector<TensorType> result_types;
    for (const ValueId v : operands_) operand_types.push_back(g_.type(v));
    for (const ResultInit& r : results_) result_types.push_back(g_[r.type]);
    return g_.intern(localized({original.op, attrs, operand_types, result_types}));
  }

  OriginId clone_origin(const Node& original, const FactorRule& rule, int factor, std::size_t m) {
    if (!depends_on_position(original.op) || pieces_[m].begin == 0) return original.origin;
    Origin origin(rule.factors.size(), 0);
    if (original.origin.valid()) origin = g_[original.origin];
    origin[static_cast<std::size_t>(factor)] += pieces_[m].begin;
    return g_.intern(origin);
  }

  Graph& g_;
  Rules& rules_;
  Propagation plan_;
  std::size_t count_;
  NameId tag_;
  std::vector<Interval> pieces_;
  std::vector<ValueId> pool_;         // clones (terms) of values, and slices
  std::vector<std::uint32_t> first_;  // by value: where its clones start in pool_
  std::vector<std::uint32_t> term_count_;
  std::vector<std::uint32_t> slices_;  // by value: where its slices start in pool_
  std::unordered_map<std::uint32_t, std::size_t> slice_dim_;
  std::vector<ValueId> whole_;  // by value: the sum or concat made of it
  std::unordered_map<std::uint64_t, TypeId> types_;
  std::unordered_map<std::uint64_t, TagSetId> tags_;
  std::vector<ValueId> operands_;
  std::vector<ResultInit> results_;
};

/// The size of the batch dimension of the region's inputs.
std::int64_t batch_of(const Graph& graph, const std::vector<bool>& region) {
  std::int64_t batch = -1;
  NodeId first;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Input || !region[node.index()]) return;
    const InputAttrs& attrs = graph.attrs<InputAttrs>(node);
    if (!attrs.cut) return;
    const std::int64_t size = graph.type(graph.result(node)).shape[static_cast<std::size_t>(*attrs.cut)];
    if (batch >= 0 && size != batch)
      throw Error("split: the batch dimension of input \"" + graph[graph[node].name] + "\" has " + std::to_string(size) +
                  " samples, that of input \"" + graph[graph[first].name] + "\" has " + std::to_string(batch));
    batch = size;
    first = node;
  });
  if (batch < 0) throw Error("split: no input has a batch dimension to cut", "", "mark one in the model: input … cut 0");
  return batch;
}

}  // namespace

Graph split(Graph graph, const SplitParams& params) {
  PropagateParams axis;
  axis.clones = true;
  axis.region.assign(graph.node_bound(), false);
  Matcher matches(graph, params.filter);
  bool any = false;
  bool placed = false;
  graph.for_each_node([&](NodeId node) {
    const bool in = is_signature(graph[node].op) || matches(node);
    axis.region[node.index()] = in;
    any = any || (in && is_compute(graph[node].op));
    placed = placed || (in && graph[node].mesh != kHome);
    if (in && graph[graph[node].tags].find(graph.find_name(params.dim_name)) != nullptr)
      throw Error("split: " + describe(graph, node) + " has the tag " + params.dim_name + " already", "",
                  "use another dim_name for a second split");
  });
  if (!any) throw Error("split: the filter " + to_string(params.filter) + " matches no node");
  if (placed) throw Error("split: the region is on devices already", "", "put split before place");
  const std::int64_t batch = batch_of(graph, axis.region);
  if (params.num_microbatches > batch)
    throw Error(
        "split: " + std::to_string(params.num_microbatches) + " microbatches cannot be made of " + std::to_string(batch) + " samples", "",
        "at most " + std::to_string(batch) + " microbatches, or a larger batch");
  axis.source = [&](NodeId node) {
    if (graph[node].op != Op::Input) return AxisState::replicate();
    const InputAttrs& attrs = graph.attrs<InputAttrs>(node);
    return attrs.cut ? AxisState::shard(static_cast<std::size_t>(*attrs.cut)) : AxisState::replicate();
  };
  axis.update = [](NodeId) { return AxisState::replicate(); };
  Rules rules(graph);
  Propagation plan = propagate(graph, rules, axis);
  Expansion(graph, rules, std::move(plan), params, batch).run();
  return graph;
}

PassInfo split_pass() {
  return {"split",
          "clones a region along the batch into microbatches",
          {{"filter", "filter", "{}", "which nodes"},
           {"dim_name", "word", "\"MB\"", "tag that numbers the clones"},
           {"num_microbatches", "count", "", "how many clones"}},
          kRankSplit,
          [](Graph graph, const Directive& d) {
            const JsonView json(d.params, d.file, d.pointer);
            json.only_keys({"filter", "dim_name", "num_microbatches"});
            SplitParams params;
            if (json.has("filter")) params.filter = parse_filter(json.at("filter"));
            if (json.has("dim_name")) params.dim_name = json.at("dim_name").string();
            if (params.dim_name.empty()) json.at("dim_name").fail("dim_name is empty, expected the name of a tag such as \"MB\"");
            if (params.dim_name == "PASS") json.at("dim_name").fail("dim_name is \"PASS\", which filters read as the phase", "use \"MB\"");
            params.num_microbatches = json.at("num_microbatches").count();
            return split(std::move(graph), params);
          }};
}

}  // namespace skirl
