#include "passes/place.h"

#include <algorithm>
#include <unordered_map>

#include "ir/error.h"

namespace skirl {
namespace {

bool works(const Graph& graph, NodeId node) {
  const Node& n = graph[node];
  return n.phase != Phase::U && (is_compute(n.op) || n.op == Op::Fence);
}

/// Lets everything that is not placed by a filter follow what is.
class Settling {
 public:
  Settling(Graph& graph, StreamId stream) : g_(graph), stream_(stream) {}

  /// `placed` are the nodes that a filter has just put on a mesh.
  void run(std::vector<NodeId> placed) {
    moved_ = std::move(placed);
    std::vector<NodeId> states;
    std::vector<NodeId> updates;
    std::vector<NodeId> inputs;
    g_.for_each_node([&](NodeId node) {
      const Node& n = g_[node];
      if (n.op == Op::Recv) crossings_[key(g_.operand(g_[g_.operand(node, 0)].producer, 0), n.mesh)] = g_.result(node);
      if (n.op == Op::View) crossings_[key(g_.operand(node, 0), n.mesh)] = g_.result(node);
      if (n.mesh != kHome) return;
      if (n.op == Op::Param) settle_param(node);
      if (n.op == Op::State) states.push_back(node);
      if (n.op == Op::Input) inputs.push_back(node);
      if (n.phase == Phase::U && n.operand_count > 0) updates.push_back(node);
    });
    for (const NodeId node : states) settle_state(node);
    for (bool more = true; more;) {  // a node may stand before what it follows
      more = false;
      for (const NodeId node : updates)
        if (g_.alive(node) && g_[node].mesh == kHome) more = settle_update_phase(node) || more;
    }
    for (const NodeId node : inputs) settle_input(node);
    mend_crossings();
  }

 private:
  MeshId mesh_of(ValueId value) const { return g_.layout(value).mesh; }
  static std::uint64_t key(ValueId value, MeshId mesh) { return (static_cast<std::uint64_t>(value.index()) << 32) | mesh.index(); }

  void move(NodeId node, MeshId mesh) {
    g_[node].mesh = mesh;
    const LayoutId layout = g_.replicate(mesh);
    g_.for_each_result(node, [&](ValueId value) { g_[value].layout = layout; });
    moved_.push_back(node);
  }

  void settle_param(NodeId node) {
    meshes_.clear();
    bool all_placed = true;
    for (const UseId use : g_.uses(g_.result(node))) {
      const NodeId user = g_[use].user;
      if (!works(g_, user)) continue;
      all_placed = all_placed && g_[user].mesh != kHome;
      meshes_.push_back(g_[user].mesh);
    }
    if (meshes_.empty() || !all_placed) return;
    const MeshId united = g_.union_of(meshes_);
    move(node, united.valid() ? united : meshes_.front());
  }

  void settle_state(NodeId node) {
    g_.for_each_use(g_.result(node), [&](UseId use) {
      const NodeId user = g_[use].user;
      if (g_[user].op == Op::Output) return;
      const MeshId mesh = mesh_of(g_.operand(user, 0));
      if (g_[node].mesh != mesh) move(node, mesh);
    });
  }

  /// An update goes with its parameter, everything else of phase U with its first operand; a sum lives where its terms do. Whether the node
  /// has a place now.
  bool settle_update_phase(NodeId node) {
    const MeshId first = mesh_of(g_.operand(node, 0));
    if (first == kHome) return false;
    if (g_[node].op != Op::Sum) {
      move(node, first);
      return true;
    }
    meshes_.clear();
    bool all_placed = true;
    bool one_mesh = true;
    g_.for_each_operand(node, [&](ValueId value, std::size_t) {
      const MeshId mesh = mesh_of(value);
      all_placed = all_placed && mesh != kHome;
      one_mesh = one_mesh && mesh == first;
      if (g_[mesh].is_union())
        meshes_.insert(meshes_.end(), g_[mesh].members.begin(), g_[mesh].members.end());
      else
        meshes_.push_back(mesh);
    });
    if (!all_placed) return false;
    const MeshId united = one_mesh ? first : g_.union_of(meshes_);
    if (!one_mesh && united.valid() && g_[united].is_union())
      sum_over_union(node, united);
    else
      move(node, one_mesh ? first : meshes_.front());  // unlike meshes: one is its home, the other terms are sent there
    return true;
  }

  /// One sum a member, joined to a value that is Partial over `copy`, and reduced. Each term counts once: what lives on a union is taken
  /// from one member.
  void sum_over_union(NodeId node, MeshId united) {
    const Node sum = g_[node];
    const std::vector<MeshId> members = g_[united].members;
    const ValueId total = g_.result(node);
    std::vector<std::vector<ValueId>> terms(members.size());
    for (const ValueId value : g_.operand_list(node)) {
      const MeshId mesh = mesh_of(value);
      const MeshId member = g_[mesh].is_union() ? g_[mesh].members.front() : mesh;
      const std::size_t at = static_cast<std::size_t>(std::find(members.begin(), members.end(), member) - members.begin());
      terms[at].push_back(mesh == member ? value : view(value, member, sum));
    }
    std::vector<ValueId> joined;
    for (std::size_t k = 0; k < members.size(); ++k) joined.push_back(member_sum(sum, total, terms[k], members[k]));
    const StreamId reduce = g_.add_stream("reduce");
    const ResultInit partial{g_[total].type, g_.intern(with_partial(Layout{united, {}, {}}, 0)), g_[total].role};
    const NodeId join = g_.add({Op::Join, joined, {&partial, 1}, AttrsId(), sum.phase, sum.tags, united, reduce, sum.name, OriginId()});
    const ValueId unreduced = g_.result(join);
    const ResultInit whole{g_[total].type, g_.replicate(united), g_[total].role};
    const NodeId reduced =
        g_.add({Op::AllReduce, {&unreduced, 1}, {&whole, 1}, AttrsId(), sum.phase, sum.tags, united, reduce, sum.name, OriginId()});
    g_.replace_uses(total, g_.result(reduced));
    g_.erase(node);
  }

  ValueId member_sum(const Node& sum, ValueId total, const std::vector<ValueId>& terms, MeshId member) {
    if (terms.size() == 1) return terms.front();
    const ResultInit result{g_[total].type, g_.replicate(member), g_[total].role};
    if (terms.empty()) {
      const TensorType& type = g_.type(total);
      const AttrsId attrs = g_.intern(Attrs{FillAttrs{type.shape, type.dtype, 0.0}});
      return g_.result(g_.add({Op::Fill, {}, {&result, 1}, attrs, sum.phase, sum.tags, member, 0, sum.name, OriginId()}));
    }
    return g_.result(g_.add({Op::Sum, terms, {&result, 1}, sum.attrs, sum.phase, sum.tags, member, 0, sum.name, OriginId()}));
  }

  /// Inputs live wherever they are read: one node of the same name for each mesh.
  void settle_input(NodeId node) {
    const ValueId value = g_.result(node);
    std::vector<std::pair<MeshId, ValueId>> copies;
    for (const UseId use : g_.uses(value)) {
      const MeshId mesh = g_[g_[use].user].mesh;
      if (mesh == kHome) continue;
      auto copy = std::find_if(copies.begin(), copies.end(), [&](const auto& c) { return c.first == mesh; });
      if (copy == copies.end()) {
        const Node input = g_[node];
        const ResultInit result{g_[value].type, g_.replicate(mesh), Role::Input};
        const NodeId added = g_.add({Op::Input, {}, {&result, 1}, input.attrs, input.phase, input.tags, mesh, 0, input.name, input.origin});
        copies.emplace_back(mesh, g_.result(added));
        copy = copies.end() - 1;
      }
      g_.set_operand(use, copy->second);
    }
    if (!copies.empty() && !g_.has_uses(value)) g_.erase(node);
  }

  /// Only what has moved, and its readers, can read across meshes now.
  void mend_crossings() {
    for (std::size_t i = 0; i < moved_.size(); ++i) {
      if (!g_.alive(moved_[i])) continue;
      mend_operands(moved_[i]);
      g_.for_each_result(moved_[i], [&](ValueId value) {
        for (const UseId use : g_.uses(value)) mend_operands(g_[use].user);
      });
    }
  }

  void mend_operands(NodeId node) {
    const Node reader = g_[node];
    if (reader.mesh == kHome || reader.op == Op::Recv || reader.op == Op::View || reader.op == Op::Join) return;
    for (std::size_t i = 0; i < reader.operand_count; ++i) {
      const ValueId value = g_.operand(node, i);
      const MeshId from = mesh_of(value);
      if (from == reader.mesh || from == kHome) continue;
      g_.set_operand(node, i, holds(from, reader.mesh) ? view(value, reader.mesh, reader) : transfer(value, reader));
    }
  }

  /// Whether every device of `part` is a member's device of the union `whole`, at like coordinates.
  bool holds(MeshId whole, MeshId part) const {
    const std::vector<MeshId>& members = g_[whole].members;
    const auto is_member = [&](MeshId m) { return std::find(members.begin(), members.end(), m) != members.end(); };
    if (!g_[part].is_union()) return is_member(part);
    return std::all_of(g_[part].members.begin(), g_[part].members.end(), is_member);
  }

  ValueId view(ValueId value, MeshId mesh, const Node& reader) {
    ValueId& known = crossings_[key(value, mesh)];
    if (known.valid()) return known;
    const ResultInit result{g_[value].type, g_.replicate(mesh), g_[value].role};
    const Node made_by = g_[g_[value].producer];
    known =
        g_.result(g_.add({Op::View, {&value, 1}, {&result, 1}, AttrsId(), reader.phase, made_by.tags, mesh, 0, made_by.name, OriginId()}));
    return known;
  }

  ValueId transfer(ValueId value, const Node& reader) {
    ValueId& known = crossings_[key(value, reader.mesh)];
    if (known.valid()) return known;
    const Node made_by = g_[g_[value].producer];
    const ResultInit sent{g_[value].type, g_[value].layout, g_[value].role};
    const ValueId in_flight = g_.result(g_.add(
        {Op::Send, {&value, 1}, {&sent, 1}, AttrsId(), made_by.phase, made_by.tags, made_by.mesh, stream_, made_by.name, OriginId()}));
    const ResultInit received{g_[value].type, g_.replicate(reader.mesh), g_[value].role};
    known = g_.result(g_.add(
        {Op::Recv, {&in_flight, 1}, {&received, 1}, AttrsId(), reader.phase, reader.tags, reader.mesh, stream_, made_by.name, OriginId()}));
    return known;
  }

  Graph& g_;
  StreamId stream_;
  std::vector<NodeId> moved_;
  std::vector<MeshId> meshes_;
  std::unordered_map<std::uint64_t, ValueId> crossings_;  // (value, mesh) → the value there
};

}  // namespace

Graph place(Graph graph, const PlaceParams& params) {
  Matcher matches(graph, params.filter);
  std::vector<NodeId> matching;
  graph.for_each_node([&](NodeId node) {
    if (!works(graph, node) || !matches(node)) return;
    if (graph[node].mesh != kHome)
      throw Error("place: " + describe(graph, node) + " is on mesh @" + graph.mesh_name(graph[node].mesh) + " already", "",
                  "let each node match one place directive");
    matching.push_back(node);
  });
  if (matching.empty()) throw Error("place: the filter " + to_string(params.filter) + " matches no forward or backward node");
  std::vector<Axis> axes;
  for (const auto& [name, size] : params.axes) axes.push_back({graph.intern(name), size});
  if (axes.empty()) axes.push_back({graph.intern("dp"), static_cast<std::int64_t>(params.devices.size())});
  const MeshId mesh = graph.add_mesh(params.devices, axes);
  const LayoutId layout = graph.replicate(mesh);
  for (const NodeId node : matching) {
    graph[node].mesh = mesh;
    graph.for_each_result(node, [&](ValueId value) { graph[value].layout = layout; });
  }
  const StreamId stream = graph.add_stream(params.stream);
  Settling(graph, stream).run(std::move(matching));
  return graph;
}

PassInfo place_pass() {
  return {"place",
          "puts the matching nodes on devices; parameters, updates, inputs and transfers follow",
          {{"filter", "filter", "{}", "which forward and backward nodes"},
           {"devices", "list of devices", "", "row-major over the axes"},
           {"axes", "object of counts", "{\"dp\": devices}", "names and sizes of the mesh axes, outermost first"},
           {"stream", "word", "\"p2p\"", "stream of the transfers"}},
          kRankPlace,
          [](Graph graph, const Directive& d) {
            const JsonView json(d.params, d.file, d.pointer);
            json.only_keys({"filter", "device", "devices", "axes", "stream"});
            PlaceParams params;
            if (json.has("filter")) params.filter = parse_filter(json.at("filter"));
            if (json.has("device") && json.has("devices")) json.fail("device and devices are both given, expected one of them");
            const JsonView devices = json.at(json.has("device") ? "device" : "devices");
            if (devices.size() == 0) devices.fail("devices is empty, expected at least one device");
            for (std::size_t i = 0; i < devices.size(); ++i)
              params.devices.push_back(static_cast<DeviceId>(devices.at(i).integer(0, 1 << 24)));
            if (json.has("axes"))
              for (const std::string& axis : json.at("axes").keys()) params.axes.emplace_back(axis, json.at("axes").at(axis).count());
            if (json.has("axes") && params.axes.empty())
              json.at("axes").fail("axes is empty, expected a name and a size such as {\"dp\": 2}");
            if (json.has("stream")) params.stream = json.at("stream").string();
            if (params.stream.empty()) json.at("stream").fail("stream is empty, expected a name");
            return place(std::move(graph), params);
          }};
}

}  // namespace skirl
