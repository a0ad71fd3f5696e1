#include "passes/replicate.h"

#include <algorithm>
#include <unordered_map>

#include "ir/error.h"
#include "passes/propagate.h"

namespace skirl {
namespace {

bool works(const Graph& graph, NodeId node) { return graph[node].phase != Phase::U && is_compute(graph[node].op); }

/// Index of the axis on the mesh of a value, or −1.
int axis_on(const Graph& graph, MeshId mesh, NameId axis) { return graph[mesh].axis_index(axis); }

/// Nodes that the directive covers: matching work, what feeds or follows it between meshes, the sources that only it reads, and the updates
/// behind it.
std::vector<bool> region_of(const Graph& graph, const std::vector<NodeId>& order, const ReplicateParams& params, NameId axis) {
  std::vector<bool> region(graph.node_bound(), false);
  Matcher matches(graph, params.filter);
  const bool everything = params.filter.terms.empty() && !params.filter.phases;
  std::vector<DeviceId> wanted = params.devices;
  std::sort(wanted.begin(), wanted.end());
  for (const NodeId node : order) {
    if (axis_on(graph, graph[node].mesh, axis) < 0) continue;
    if (everything) {
      region[node.index()] = true;
      continue;
    }
    if (works(graph, node)) {
      region[node.index()] = matches(node);
      if (!region[node.index()] || wanted.empty()) continue;
      std::vector<DeviceId> placed = graph[graph[node].mesh].devices;
      std::sort(placed.begin(), placed.end());
      if (placed != wanted)
        throw Error("replicate: " + describe(graph, node) + " is on other devices than the directive lists (mesh @" +
                    graph.mesh_name(graph[node].mesh) + ")");
    } else if (graph[node].operand_count > 0) {
      region[node.index()] = region[graph[graph.operand(node, 0)].producer.index()] || graph[node].op == Op::Recv;
    }
  }
  if (everything) return region;
  for (const NodeId node : order) {  // sources, by their readers
    if (graph[node].operand_count > 0 || graph[node].result_count == 0 || axis_on(graph, graph[node].mesh, axis) < 0 || works(graph, node))
      continue;
    bool any = false;
    bool all = true;
    graph.for_each_use(graph.result(node), [&](UseId use) {
      const NodeId user = graph[use].user;
      if (graph[user].phase == Phase::U && graph[node].op != Op::State) return;
      any = any || region[user.index()];
      all = all && region[user.index()];
    });
    region[node.index()] = graph[node].op == Op::State ? false : any && all;
  }
  for (const NodeId node : order) {  // updates, by their parameter; states, by their update
    if (graph[node].op != Op::Sgd && graph[node].op != Op::AdamW) continue;
    const bool in = region[graph[graph.operand(node, 0)].producer.index()];
    region[node.index()] = in;
    for (std::size_t i = 2; i < graph[node].operand_count; ++i) region[graph[graph.operand(node, i)].producer.index()] = in;
    graph.for_each_result(node, [&](ValueId v) { graph.for_each_use(v, [&](UseId use) { region[graph[use].user.index()] = in; }); });
  }
  return region;
}

/// Puts the states that propagation decided into layouts, and the changes between them into the graph.
class Relayout {
 public:
  Relayout(Graph& graph, const Propagation& plan, NameId axis, const ReplicateParams& params)
      : g_(graph),
        plan_(plan),
        axis_(axis),
        gather_(graph.add_stream(params.gather_stream)),
        reduce_(graph.add_stream(params.reduce_stream)) {
    if (params.bucket_size) bucket_ = Tag{graph.intern("BUCKET"), TagValue::integer(*params.bucket_size)};
    base_.resize(plan.value.size());
    for (std::size_t i = 0; i < base_.size(); ++i) base_[i] = graph[ValueId(i)].layout;
  }

  /// Number of values that are cut or Partial.
  std::size_t run() {
    std::size_t changed = 0;
    for (std::size_t i = 0; i < plan_.value.size(); ++i) {
      const ValueId value(i);
      if (plan_.value[i].is_replicate() || !g_[value].producer.valid()) continue;
      g_[value].layout = in_state(value, plan_.value[i]);
      ++changed;
    }
    for (const NodeId node : plan_.order) {
      const std::size_t operands = g_[node].operand_count;
      for (std::size_t i = 0; i < operands; ++i) {
        const ValueId value = g_.operand(node, i);
        const AxisState need = plan_.operand[g_.use(node, i).index()];
        const AxisState have = plan_.value[value.index()];
        if (have.same_place(need)) continue;
        if (crosses(node, value) && !have.is_partial()) continue;  // a transfer or the way home takes any cut
        g_.set_operand(node, i, changed_to(value, have, need, node));
      }
    }
    return changed;
  }

 private:
  bool crosses(NodeId node, ValueId value) const {
    return g_[node].mesh == kHome || g_[node].op == Op::Recv || g_.layout(value).mesh == kHome;
  }

  LayoutId in_state(ValueId value, AxisState state) {
    const Layout& base = g_[base_[value.index()]];
    const std::uint8_t axis = static_cast<std::uint8_t>(axis_on(g_, base.mesh, axis_));
    if (state.is_shard()) return g_.intern(with_cut(base, g_[base.mesh], state.dim, g_.type(value).shape[state.dim], axis));
    if (state.is_partial()) return g_.intern(with_partial(base, axis, state.reduction));
    return base_[value.index()];
  }

  ValueId changed_to(ValueId value, AxisState have, AxisState need, NodeId reader) {
    if (have.is_partial()) {
      const AxisState reduced = plan_.reduced[value.index()];
      const ValueId once = shared(value, reduced, reduced.is_shard() ? Op::ReduceScatter : Op::AllReduce, reduce_);
      if (reduced.same_place(need)) return once;
      // Readers of one reduced value share its changes too.
      return reduced.is_shard() ? shared(value, need, need.is_shard() ? Op::AllToAll : Op::AllGather, gather_, once)
                                : shared(value, need, Op::LocalSlice, 0, once);
    }
    if (have.is_replicate()) return shared(value, need, need.is_shard() ? Op::LocalSlice : Op::ZeroRest, 0);
    if (need.is_shard()) return shared(value, need, Op::AllToAll, gather_);
    if (stored(value)) return change(value, value, need, Op::AllGather, gather_, g_[reader]);
    return shared(value, need, Op::AllGather, gather_);
  }

  /// A parameter as it is stored, or a view of one: each reader gathers for itself.
  bool stored(ValueId value) const {
    const NodeId producer = g_[value].producer;
    return g_[producer].op == Op::Param || (g_[producer].op == Op::View && g_[g_[g_.operand(producer, 0)].producer].op == Op::Param);
  }

  ValueId shared(ValueId value, AxisState to, Op op, StreamId stream, ValueId from = ValueId()) {
    const std::uint64_t key = (static_cast<std::uint64_t>(value.index()) << 16) | (static_cast<std::uint64_t>(to.kind) << 8) | to.dim;
    const auto [it, fresh] = changes_.try_emplace(key);
    if (fresh) it->second = change(value, from.valid() ? from : value, to, op, stream, g_[g_[value].producer]);
    return it->second;
  }

  ValueId change(ValueId value, ValueId from, AxisState to, Op op, StreamId stream, const Node by) {
    const ResultInit result{g_[value].type, in_state(value, to), g_[value].role};
    TagSetId tags = by.tags;
    if (bucket_ && !is_free_change(op)) tags = g_.intern(with_tag(g_[tags], *bucket_));
    const NodeId producer = g_[value].producer;
    return g_.result(g_.add(
        {op, {&from, 1}, {&result, 1}, AttrsId(), by.phase, tags, g_[base_[value.index()]].mesh, stream, g_[producer].name, OriginId()}));
  }

  Graph& g_;
  const Propagation& plan_;
  NameId axis_;
  StreamId gather_;
  StreamId reduce_;
  std::optional<Tag> bucket_;
  std::vector<LayoutId> base_;  // layouts before, by value
  std::unordered_map<std::uint64_t, ValueId> changes_;
};

}  // namespace

std::optional<std::size_t> storage_dim(const Shape& shape, std::int64_t parts) {
  if (shape.empty()) return std::nullopt;
  std::size_t best = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] >= parts) return d;
    if (shape[d] > shape[best]) best = d;
  }
  return best;
}

Graph replicate(Graph graph, const ReplicateParams& params) {
  const NameId axis = graph.find_name(params.axis);
  std::int64_t degree = 0;
  std::vector<std::string> known;
  for (std::size_t i = 1; i < graph.mesh_count(); ++i)
    for (const Axis& a : graph[MeshId(i)].axes) {
      if (a.name == axis) degree = std::max(degree, a.size);
      if (std::find(known.begin(), known.end(), graph[a.name]) == known.end()) known.push_back(graph[a.name]);
    }
  if (known.empty()) throw Error("replicate: nothing is placed yet", "", "put place before replicate");
  if (degree == 0) throw Error("replicate: no mesh has an axis '" + params.axis + "'; axes: " + nearest_first(params.axis, known));
  const bool params_too = params.shard_params;
  const bool grads_too = params_too || params.shard_grads;
  const bool states_too = grads_too || params.shard_optimizer;

  Rules rules(graph);
  PropagateParams along;
  along.region = region_of(graph, topological_order(graph), params, axis);
  if (std::find(along.region.begin(), along.region.end(), true) == along.region.end())
    throw Error("replicate: the filter " + to_string(params.filter) + " matches no node on a mesh with axis '" + params.axis + "'");
  const auto stored = [&](ValueId value, bool cut) {
    const std::optional<std::size_t> dim =
        storage_dim(graph.type(value).shape,
                    graph[graph.layout(value).mesh].axes[static_cast<std::size_t>(axis_on(graph, graph.layout(value).mesh, axis))].size);
    return cut && dim ? AxisState::shard(*dim, true) : AxisState::replicate();
  };
  along.source = [&](NodeId node) {
    const Node& n = graph[node];
    if (n.op == Op::Param) return stored(graph.result(node), params_too);
    if (n.op == Op::State) return stored(graph.result(node), states_too);
    if (n.op == Op::Output) return stored(graph.operand(node, 0), graph.attrs<OutputAttrs>(node).kind == "param" ? params_too : states_too);
    const InputAttrs& attrs = graph.attrs<InputAttrs>(node);
    return attrs.cut ? AxisState::shard(static_cast<std::size_t>(*attrs.cut)) : AxisState::replicate();
  };
  along.update = [&](NodeId node) { return stored(graph.operand(node, 0), states_too); };
  along.reduce_before_sum = grads_too;
  for (std::size_t i = 0; i < along.region.size(); ++i) {
    if (!along.region[i]) continue;
    graph.for_each_result(NodeId(i), [&](ValueId value) {
      const Layout& layout = graph.layout(value);
      const std::uint8_t on = static_cast<std::uint8_t>(axis_on(graph, layout.mesh, axis));
      if (layout.dim_cut_by(on) >= 0 || layout.partial_over(on))
        throw Error("replicate: axis '" + params.axis + "' cuts " + describe(graph, NodeId(i)) + " already", "",
                    "let each node match one replicate directive for an axis");
    });
  }
  const Propagation plan = propagate(graph, rules, along);
  const std::size_t changed = Relayout(graph, plan, axis, params).run();
  if (changed == 0 && degree > 1)
    throw Error("replicate: nothing can be cut over axis '" + params.axis + "': no input of the region has a batch dimension", "",
                "mark one in the model: input … cut 0");
  return graph;
}

PassInfo replicate_pass() {
  return {"replicate",
          "data parallelism over a mesh axis, with the ZeRO switches",
          {{"filter", "filter", "{}", "which nodes"},
           {"axis", "word", "\"dp\"", "the mesh axis"},
           {"devices", "list of devices", "any", "the devices of the mesh, as Piper files say it"},
           {"shard_optimizer", "bool", "false", "ZeRO-1: store optimizer states in parts"},
           {"shard_grads", "bool", "false", "ZeRO-2: gradients too"},
           {"shard_params", "bool", "false", "ZeRO-3: parameters too"},
           {"bucket_size", "count", "none", "MB that communication is gathered into, a wish for bucket"},
           {"gather_stream", "word", "\"gather\"", "stream of the gathers"},
           {"reduce_stream", "word", "\"reduce\"", "stream of the reductions"}},
          kRankLayout,
          [](Graph graph, const Directive& d) {
            const JsonView json(d.params, d.file, d.pointer);
            json.only_keys({"filter", "axis", "devices", "shard_optimizer", "shard_grads", "shard_params", "bucket_size", "gather_stream",
                            "reduce_stream"});
            ReplicateParams params;
            if (json.has("filter")) params.filter = parse_filter(json.at("filter"));
            if (json.has("axis")) params.axis = json.at("axis").string();
            if (json.has("devices"))
              for (std::size_t i = 0; i < json.at("devices").size(); ++i)
                params.devices.push_back(static_cast<DeviceId>(json.at("devices").at(i).integer(0, 1 << 24)));
            if (json.has("shard_optimizer")) params.shard_optimizer = json.at("shard_optimizer").boolean();
            if (json.has("shard_grads")) params.shard_grads = json.at("shard_grads").boolean();
            if (json.has("shard_params")) params.shard_params = json.at("shard_params").boolean();
            if (json.has("bucket_size")) params.bucket_size = json.at("bucket_size").count();
            if (json.has("gather_stream")) params.gather_stream = json.at("gather_stream").string();
            if (json.has("reduce_stream")) params.reduce_stream = json.at("reduce_stream").string();
            return replicate(std::move(graph), params);
          }};
}

}  // namespace skirl
