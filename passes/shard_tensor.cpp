#include "passes/shard_tensor.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ir/error.h"
#include "ir/opening.h"
#include "passes/dimension_classes.h"
#include "passes/fold_changes.h"
#include "passes/region.h"
#include "passes/relayout.h"

namespace skirl {
namespace {

using Cut = ShardTensorParams::Cut;
using Attention = ShardTensorParams::Attention;

constexpr const char* kPass = "shard_tensor";

/// Whether `text` is what `pattern` says, where * stands for any characters.
bool like(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.size() < star || pattern.substr(0, star) != text.substr(0, star)) return false;
  for (std::size_t skip = star; skip <= text.size(); ++skip)
    if (like(pattern.substr(star + 1), text.substr(skip))) return true;
  return false;
}

/// The dimension of a parameter that a class of dimensions cuts.
struct ParamCut {
  std::size_t dim = 0;
  std::int64_t size = 0;        // of the class
  std::int64_t class_unit = 1;  // the largest multiple of it that a dimension of the class is
  std::int64_t unit = 1;        // the multiple that this dimension is
};

/// The parameters of the region, by name: nodes of one name are one parameter.
using Cuts = std::map<std::string, ParamCut>;

/// Chooses which dimensions of which parameters are cut, and opens the operators that need one of them whole.
class Choice {
 public:
  Choice(Graph& graph, Rules& rules, const std::vector<bool>& region, const ShardTensorParams& params)
      : g_(graph), params_(params), classes_(graph, rules, region) {
    graph.for_each_node([&](NodeId node) {
      if (graph[node].op == Op::Param && region[node.index()]) nodes_.push_back(node);
    });
  }

  Cuts run() {
    if (params_.cut == Cut::Params)
      take_seeds();
    else
      take_best();
    for (const NodeId node : to_open_)
      if (g_.alive(node)) open(g_, node);
    return std::move(cuts_);
  }

 private:
  struct Candidate {
    std::uint32_t id = 0;
    bool opens = false;  // operators besides the cross-entropy
  };

  const std::string& name(NodeId param) const { return g_[g_[param].name]; }

  bool only_cross_entropy(const DimensionClasses::Class& c) const {
    return std::all_of(c.opened.begin(), c.opened.end(), [&](NodeId node) { return g_[node].op == Op::SoftmaxXent; });
  }

  bool cut_already(NodeId param, std::size_t dim) const { return !g_.layout(g_.result(param)).cut(dim).empty(); }

  void take_best() {
    std::vector<Candidate> inner;
    std::vector<Candidate> width;
    std::vector<std::uint32_t> seen;
    for (const NodeId param : nodes_)
      for (std::size_t d = 0; d < g_.type(g_.result(param)).shape.size(); ++d) {
        const std::uint32_t id = classes_.of(g_.result(param), d);
        const DimensionClasses::Class& c = classes_[id];
        if (c.input || c.whole.valid() || c.size * c.unit <= 1 || cut_already(param, d)) continue;
        if (std::find(seen.begin(), seen.end(), id) != seen.end()) continue;
        seen.push_back(id);
        (only_cross_entropy(c) ? inner : width).push_back({id, !only_cross_entropy(c)});
      }
    const auto cheaper = [&](const Candidate& a, const Candidate& b) { return classes_[a.id].sums < classes_[b.id].sums; };
    std::stable_sort(inner.begin(), inner.end(), cheaper);
    std::stable_sort(width.begin(), width.end(), cheaper);
    if (params_.cut == Cut::Width)
      for (const Candidate& c : width) take(c.id, false);
    for (const Candidate& c : inner) take(c.id, false);
    if (params_.cut == Cut::Bottleneck)
      for (const Candidate& c : width) take(c.id, true);
    if (cuts_.empty())
      throw Error(
          std::string(kPass) + ": nothing can be cut over axis '" + params_.axes.front() + "': " +
              (nodes_.empty() ? "the region has no parameter" : "every dimension of a parameter is needed whole, or is one of an input"),
          "", "name dimensions to cut: \"params\": [{\"param\": \"*.up.w\", \"dim\": 1}]");
  }

  /// Cuts the parameters of the class; none if one of them is cut in another dimension, unless the class may do without that one.
  void take(std::uint32_t id, bool partly) {
    std::vector<std::pair<NodeId, std::size_t>> members;
    bool matrix = false;
    for (const NodeId param : nodes_) {
      const Shape& shape = g_.type(g_.result(param)).shape;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (classes_.of(g_.result(param), d) != id) continue;
        if (cuts_.count(name(param)) != 0 && cuts_.at(name(param)).dim != d) {
          if (partly) continue;
          return;
        }
        if (std::any_of(members.begin(), members.end(), [&](const auto& m) { return m.first == param; })) return;  // both sides of a square
        members.emplace_back(param, d);
        matrix = matrix || shape.size() > 1;
      }
    }
    if (!matrix) return;
    for (const auto& [param, dim] : members) note(param, dim, classes_[id]);
    to_open_.insert(to_open_.end(), classes_[id].opened.begin(), classes_[id].opened.end());
  }

  void note(NodeId param, std::size_t dim, const DimensionClasses::Class& c) {
    cuts_[name(param)] = {dim, c.size, c.unit, g_.type(g_.result(param)).shape[dim] / c.size};
  }

  void take_seeds() {
    std::vector<std::uint32_t> chosen;
    for (const ShardTensorParams::Seed& seed : params_.params) {
      bool any = false;
      for (const NodeId param : nodes_) {
        if (!like(seed.param, name(param))) continue;
        any = true;
        const Shape& shape = g_.type(g_.result(param)).shape;
        if (seed.dim >= static_cast<std::int64_t>(shape.size()))
          throw Error(std::string(kPass) + ": parameter \"" + name(param) + "\" has " + std::to_string(shape.size()) +
                      " dimensions, found dim " + std::to_string(seed.dim));
        const std::uint32_t id = classes_.of(g_.result(param), static_cast<std::size_t>(seed.dim));
        if (classes_[id].whole.valid())
          throw Error(std::string(kPass) + ": dimension " + std::to_string(seed.dim) + " of parameter \"" + name(param) +
                      "\" cannot be cut over axis '" + params_.axes.front() + "': " + describe(g_, classes_[id].whole) + " needs it whole");
        if (std::find(chosen.begin(), chosen.end(), id) == chosen.end()) chosen.push_back(id);
      }
      if (any) continue;
      std::vector<std::string> known;
      for (const NodeId param : nodes_)
        if (std::find(known.begin(), known.end(), name(param)) == known.end()) known.push_back(name(param));
      throw Error(std::string(kPass) + ": no parameter of the region is called \"" + seed.param +
                  "\"; known: " + nearest_first(seed.param, known));
    }
    for (const std::uint32_t id : chosen) take_seeded(id);
  }

  void take_seeded(std::uint32_t id) {
    for (const NodeId param : nodes_)
      for (std::size_t d = 0; d < g_.type(g_.result(param)).shape.size(); ++d) {
        if (classes_.of(g_.result(param), d) != id) continue;
        if (const auto known = cuts_.find(name(param)); known != cuts_.end() && known->second.dim != d)
          throw Error(std::string(kPass) + ": parameter \"" + name(param) + "\" would be cut in dimensions " +
                          std::to_string(known->second.dim) + " and " + std::to_string(d) + " over axis '" + params_.axes.front() + "'",
                      "", "dimensions that operators keep together are cut together: seed one of the two");
        note(param, d, classes_[id]);
      }
    to_open_.insert(to_open_.end(), classes_[id].opened.begin(), classes_[id].opened.end());
  }

  Graph& g_;
  const ShardTensorParams& params_;
  DimensionClasses classes_;
  std::vector<NodeId> nodes_;
  std::vector<NodeId> to_open_;
  Cuts cuts_;
};

std::int64_t degree_of(const Graph& graph, NameId axis) {
  std::int64_t degree = 1;
  for (std::size_t i = 1; i < graph.mesh_count(); ++i)
    if (const int at = graph[MeshId(i)].axis_index(axis); at >= 0)
      degree = std::max(degree, graph[MeshId(i)].axes[static_cast<std::size_t>(at)].size);
  return degree;
}

/// How axis `k` of the list cuts a dimension of a parameter; none where it lies whole along it.
std::optional<CutStyle> style_over(const ParamCut& cut, const std::vector<std::int64_t>& degrees, std::size_t k) {
  std::int64_t all = 1;
  for (const std::int64_t degree : degrees) all *= degree;
  const bool few_groups = cut.class_unit > 1 && cut.size < all;
  if (!few_groups || (degrees.size() > 1 && k == 0)) return CutStyle{cut.unit, 0, {}};
  if (cut.unit == 1) return std::nullopt;  // keys and values
  return CutStyle{1, cut.unit, {}};
}

/// The name of the parameter that a source, update or output is about.
const std::string* parameter_of(const Graph& graph, NodeId node) {
  switch (graph[node].op) {
    case Op::Param:
      return &graph[graph[node].name];
    case Op::State:
      return &graph.attrs<StateAttrs>(node).of;
    case Op::Sgd:
    case Op::AdamW:
      return &graph[graph[node].name];
    case Op::Output: {
      NodeId producer = graph[graph.operand(node, 0)].producer;
      while (is_communication(graph[producer].op)) producer = graph[graph.operand(producer, 0)].producer;
      return &graph[graph[producer].name];
    }
    default:
      return nullptr;
  }
}

/// The dimension of the sequence of an input, or none.
std::optional<std::size_t> sequence_dim(const Graph& graph, NodeId input) {
  const std::optional<std::int64_t>& dim = graph.attrs<InputAttrs>(input).sequence;
  return dim ? std::optional<std::size_t>(static_cast<std::size_t>(*dim)) : std::nullopt;
}

/// The length of the region's sequences; throws Error where there is none, or more than one.
std::int64_t sequence_length(const Graph& graph, const std::vector<bool>& region, const std::string& axis) {
  std::int64_t length = -1;
  NodeId first;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Input || !region[node.index()] || !sequence_dim(graph, node)) return;
    const std::int64_t size = graph.type(graph.result(node)).shape[*sequence_dim(graph, node)];
    if (length >= 0 && size != length)
      throw Error(std::string(kPass) + ": the sequence of input \"" + graph[graph[node].name] + "\" has " + std::to_string(size) +
                  " elements, that of input \"" + graph[graph[first].name] + "\" has " + std::to_string(length));
    length = size;
    first = node;
  });
  if (length < 0)
    throw Error(std::string(kPass) + ": nothing can be cut along the sequence over axis '" + axis + "': no input of the region has one", "",
                "mark it in the model: input … sequence 1");
  return length;
}

class Sharding {
 public:
  Sharding(Graph& graph, const ShardTensorParams& params) : g_(graph), params_(params) {}

  void run() {
    std::vector<NameId> axes;
    for (const std::string& axis : params_.axes) axes.push_back(axis_on_meshes(g_, axis, kPass));
    for (const NameId axis : axes) degrees_.push_back(degree_of(g_, axis));
    std::vector<bool> region = region_of(axes.front());
    for (const NameId axis : axes) expect_axis_unused(g_, region, axis, kPass);
    if (params_.cut == Cut::Sequence || params_.sequence) length_ = sequence_length(g_, region, params_.axes.front());
    if (params_.cut == Cut::Sequence) {
      if (params_.attention == Attention::Ring) open_attention(region, degrees_.front());
    } else {
      Rules rules(g_);
      cuts_ = Choice(g_, rules, region, params_).run();
    }
    for (std::size_t k = axes.size(); k-- > 0;) cut_over(axes[k], k);  // the outer axis last: it goes outside what is there
  }

 private:
  std::vector<bool> region_of(NameId axis) const { return region_on_axis(g_, topological_order(g_), params_.filter, {}, axis, kPass); }

  void open_attention(const std::vector<bool>& region, std::int64_t parts) {
    std::vector<NodeId> nodes;
    bool causal = false;
    g_.for_each_node([&](NodeId node) {
      if (!region[node.index()] || (g_[node].op != Op::Attention && g_[node].op != Op::AttentionBI)) return;
      const std::int64_t queries = g_.type(g_.operand(node, 0)).shape[1];
      const std::int64_t keys = g_.type(g_.operand(node, 1)).shape[1];
      if (queries != length_ || keys != length_)
        throw Error(std::string(kPass) + ": " + describe(g_, node) + " has " + std::to_string(queries) + " queries and " +
                        std::to_string(keys) + " keys, expected the length of the sequence, " + std::to_string(length_) + ", for a ring",
                    "", "\"attention\": \"gather\" takes any");
      causal = causal || g_.attrs<AttentionAttrs>(node).causal;
      nodes.push_back(node);
    });
    if (nodes.empty())
      throw Error(std::string(kPass) + ": the region has no attention to open into a ring", "", "\"attention\": \"gather\" needs none");
    pieces_ = causal ? zigzag_pieces(length_, parts) : even_pieces(length_, parts);
    for (const NodeId node : nodes) open_ring_attention(g_, node, pieces_);
  }

  static IntervalTable even_pieces(std::int64_t size, std::int64_t parts) {
    IntervalTable table;
    for (std::int64_t i = 0; i < parts; ++i) {
      const Interval own = piece({0, size}, parts, i);
      table.push_back(own.size() > 0 ? std::vector<Interval>{own} : std::vector<Interval>{});
    }
    return table;
  }

  void cut_over(NameId axis, std::size_t k) {
    Rules rules(g_);
    PropagateParams along;
    along.axis = axis;
    along.region = region_of(axis);
    const auto style = [&](const CutStyle& wanted) {
      for (std::size_t i = 0; i < along.styles.size(); ++i)
        if (along.styles[i] == wanted) return static_cast<std::uint16_t>(i);
      along.styles.push_back(wanted);
      return static_cast<std::uint16_t>(along.styles.size() - 1);
    };
    const std::uint16_t sequence_style = style(CutStyle{1, 0, pieces_});
    std::unordered_map<std::string, AxisState> stored;
    for (const auto& [name, cut] : cuts_) {
      const std::optional<CutStyle> s = style_over(cut, degrees_, k);
      stored.emplace(name, s ? AxisState::shard(cut.dim, AxisState::Use::Weight, style(*s)) : AxisState::replicate(AxisState::Use::Weight));
    }
    const auto of_parameter = [&](NodeId node) {
      const std::string* name = parameter_of(g_, node);
      const auto known = name == nullptr ? stored.end() : stored.find(*name);
      return known == stored.end() ? AxisState::replicate() : known->second;
    };
    const auto of_sequence = [&](NodeId node) {
      const bool input = g_[node].op == Op::Input && sequence_dim(g_, node);
      return input ? AxisState::shard(*sequence_dim(g_, node), AxisState::Use::Work, sequence_style) : AxisState::replicate();
    };
    along.update = of_parameter;
    if (params_.cut == Cut::Sequence) {
      along.source = of_sequence;
      along.held = [&](NodeId node) { return held_factor(rules, node, axis); };
    } else {
      along.source = [&](NodeId node) { return g_[node].op == Op::Input ? AxisState::replicate() : of_parameter(node); };
      along.resting = [&](NodeId node) { return params_.sequence ? of_sequence(node) : AxisState::replicate(); };
    }
    const Propagation plan = propagate(g_, rules, along);
    RelayoutParams changes;
    changes.axis = axis;
    changes.outermost = true;
    changes.regather = params_.regather;
    changes.gather_stream = g_.add_stream(params_.gather_stream);
    changes.reduce_stream = g_.add_stream(params_.reduce_stream);
    relayout(g_, plan, changes);
    fold_changes(g_, axis);
  }

  /// Ulysses: attention works on part of the heads, those of keys where there are enough of them, else those of queries within each group.
  int held_factor(Rules& rules, NodeId node, NameId axis) const {
    if (params_.attention != Attention::Ulysses || (g_[node].op != Op::Attention && g_[node].op != Op::AttentionBI)) return -1;
    const FactorRule& rule = rules.of(node);
    const int groups = rule.operand_factor(1, 2);
    const DimFactors& heads = rule.operands[0][2];
    const Layout& keys = g_.layout(g_.operand(node, 1));
    const Mesh& mesh = g_[keys.mesh];
    std::int64_t least = g_.type(g_.operand(node, 1)).shape[2];
    for (const std::uint8_t a : keys.cut(2).axes) least /= mesh.axes[a].size;
    const bool repeats = heads.size() > 1 && rule.factors[heads[1]].size > 1;
    const std::int64_t parts = mesh.axes[static_cast<std::size_t>(mesh.axis_index(axis))].size;
    return least < parts && repeats ? static_cast<int>(heads[1]) : groups;
  }

  Graph& g_;
  const ShardTensorParams& params_;
  std::vector<std::int64_t> degrees_;
  std::int64_t length_ = 0;
  IntervalTable pieces_;
  Cuts cuts_;
};

template <class E>
E one_of(const JsonView& json, std::initializer_list<std::pair<const char*, E>> choices) {
  const std::string found = json.string();
  std::vector<std::string> known;
  for (const auto& [name, value] : choices) {
    if (found == name) return value;
    known.push_back(name);
  }
  json.fail("found \"" + found.substr(0, 64) + "\"; known: " + nearest_first(found, known));
}

std::vector<std::string> axes_in(const JsonView& json) {
  if (!json.is_array()) return {json.string()};
  std::vector<std::string> axes;
  for (std::size_t i = 0; i < json.size(); ++i) axes.push_back(json.at(i).string());
  if (axes.empty() || axes.size() > 2) json.fail("expected one axis, or two, the outer one first");
  if (axes.size() == 2 && axes[0] == axes[1]) json.fail("the axis " + axes[0] + " stands twice");
  return axes;
}

ShardTensorParams params_in(const Directive& d) {
  const JsonView json(d.params, d.file, d.pointer);
  json.only_keys({"filter", "axis", "cut", "params", "sequence", "regather", "attention", "gather_stream", "reduce_stream"});
  ShardTensorParams params;
  if (json.has("filter")) params.filter = parse_filter(json.at("filter"));
  if (json.has("axis")) params.axes = axes_in(json.at("axis"));
  if (json.has("cut"))
    params.cut = one_of<Cut>(json.at("cut"),
                             {{"inner", Cut::Inner}, {"width", Cut::Width}, {"bottleneck", Cut::Bottleneck}, {"sequence", Cut::Sequence}});
  if (json.has("params")) {
    if (json.has("cut")) json.at("params").fail("params say what is cut, and so does cut; expected one of them");
    params.cut = Cut::Params;
    const JsonView list = json.at("params");
    for (std::size_t i = 0; i < list.size(); ++i) {
      list.at(i).only_keys({"param", "dim"});
      params.params.push_back({list.at(i).at("param").string(), list.at(i).at("dim").integer(0, 7)});
    }
    if (params.params.empty()) list.fail("expected at least one {\"param\": …, \"dim\": …}");
  }
  const bool along_sequence = params.cut == Cut::Sequence;
  if (json.has("sequence")) params.sequence = json.at("sequence").boolean();
  if (json.has("regather")) params.regather = json.at("regather").boolean();
  if (json.has("attention"))
    params.attention = one_of<Attention>(json.at("attention"),
                                         {{"gather", Attention::Gather}, {"ulysses", Attention::Ulysses}, {"ring", Attention::Ring}});
  if (json.has("attention") && !along_sequence)
    json.at("attention").fail("attention says how a sequence is cut; expected \"cut\": \"sequence\" with it");
  if (params.sequence && along_sequence)
    json.at("sequence").fail("\"cut\": \"sequence\" cuts the sequence everywhere; expected only one of them");
  if (params.regather && !params.sequence) json.at("regather").fail("regather is about \"sequence\": true; expected both or none");
  if (along_sequence && params.axes.size() > 1) json.at("axis").fail("a sequence is cut over one axis, found two");
  if (json.has("gather_stream")) params.gather_stream = json.at("gather_stream").string();
  if (json.has("reduce_stream")) params.reduce_stream = json.at("reduce_stream").string();
  return params;
}

}  // namespace

Graph shard_tensor(Graph graph, const ShardTensorParams& params) {
  Sharding(graph, params).run();
  return graph;
}

PassInfo shard_tensor_pass() {
  return {
      kPass,
      "tensor, sequence and context parallelism over a mesh axis",
      {{"filter", "filter", "{}", "which nodes"},
       {"axis", "word or list of two", "\"tp\"", "the mesh axis; of two the outer one cuts heads of keys, both cut those of queries"},
       {"cut", "word", "\"inner\"",
        "inner: between two matrices, and the vocabulary; width: the residual stream; bottleneck: inner, and the width where inner does "
        "not cut; "
        "sequence: that of the inputs"},
       {"params", "list of {param, dim}", "none", "dimensions of parameters to cut, instead of cut; * in a name stands for any characters"},
       {"sequence", "bool", "false", "what no parameter cuts is cut along the sequence (sequence parallelism)"},
       {"regather", "bool", "false", "backward gathers the sequence anew instead of keeping what forward gathered"},
       {"attention", "word", "\"gather\"", "with cut sequence: gather keys and values, ulysses (heads instead), or ring"},
       {"gather_stream", "word", "\"gather\"", "stream of gathers and exchanges"},
       {"reduce_stream", "word", "\"reduce\"", "stream of the reductions"}},
      kRankLayout,
      [](Graph graph, const Directive& d) { return shard_tensor(std::move(graph), params_in(d)); }};
}

}  // namespace skirl
