#include <algorithm>
#include <unordered_map>

#include "ir/verifier.h"

namespace skirl {
namespace {

void breach(const Graph& g, std::vector<Breach>& breaches, int rule, NodeId node, const std::string& text) {
  breaches.push_back({rule, node, describe(g, node) + ": " + text});
}

// ---- R2

/// The graph in which a recv and its send are one event.
class Events {
 public:
  explicit Events(const Graph& graph) : g_(graph), is_recv_(graph.node_bound(), false) {
    graph.for_each_node([&](NodeId node) { is_recv_[node.index()] = graph[node].op == Op::Recv; });
  }

  /// The send of a recv, any other node itself.
  NodeId event(NodeId node) const {
    if (!is_recv_[node.index()] || g_[node].operand_count != 1) return node;
    const NodeId producer = g_[g_.operand(node, 0)].producer;
    return g_[producer].op == Op::Send ? producer : node;
  }
  template <class F>
  void for_each_predecessor(NodeId node, F&& f) const {
    g_.for_each_operand(node, [&](ValueId v, std::size_t) { f(g_[v].producer); });
    g_.for_each_before(node, f);
  }
  template <class F>
  void for_each_successor(NodeId node, F&& f) const {
    g_.for_each_result(node, [&](ValueId v) { g_.for_each_use(v, [&](UseId use) { f(g_[use].user); }); });
    g_.for_each_after(node, f);
  }

  /// Predecessors that each event still waits for when nothing more can run; all zero without a cycle.
  std::vector<std::uint32_t> waiting() const {
    std::vector<std::uint32_t> waiting(g_.node_bound(), 0);
    std::vector<NodeId> ready;
    g_.for_each_node([&](NodeId node) {
      const NodeId at = event(node);
      if (at == node) {  // the usual case, which need not look at the predecessors
        waiting[at.index()] += g_[node].operand_count;
        g_.for_each_before(node, [&](NodeId) { ++waiting[at.index()]; });
      } else {
        for_each_predecessor(node, [&](NodeId before) { waiting[at.index()] += before == at ? 0 : 1; });
      }
    });
    g_.for_each_node([&](NodeId node) {
      if (waiting[node.index()] == 0 && event(node) == node) ready.push_back(node);
    });
    while (!ready.empty()) {
      const NodeId node = ready.back();
      ready.pop_back();
      const auto arrive = [&](NodeId next) {
        const NodeId at = event(next);
        if (at == node && next != node) return;  // within the event
        if (--waiting[at.index()] == 0) ready.push_back(at);
      };
      for_each_successor(node, arrive);
      if (g_[node].op == Op::Send) for_each_recv(node, [&](NodeId recv) { for_each_successor(recv, arrive); });
    }
    return waiting;
  }

  template <class F>
  void for_each_recv(NodeId send, F&& f) const {
    g_.for_each_result(send, [&](ValueId v) {
      g_.for_each_use(v, [&](UseId use) {
        if (event(g_[use].user) == send && g_[use].user != send) f(g_[use].user);
      });
    });
  }

 private:
  const Graph& g_;
  std::vector<bool> is_recv_;  // asked for every edge, where the node itself would seldom be in the cache
};

/// "%4"; of a transfer also what goes where: "%4 (send \"l0\", @s0 to @s1)".
std::string short_name(const Graph& g, const Events& events, NodeId node) {
  if (g[node].result_count == 0) return std::string(info(g[node].op).name) + " " + std::to_string(node.index());
  std::string text = "%" + std::to_string(g[node].first_result);
  events.for_each_recv(node, [&](NodeId recv) {
    text += " (send " + (g[node].name.valid() ? "\"" + g[g[node].name] + "\", @" : std::string("@")) + g.mesh_name(g[node].mesh) + " to @" +
            g.mesh_name(g[recv].mesh) + ")";
  });
  return text;
}

}  // namespace

void check_cycles(const Graph& g, std::vector<Breach>& breaches) {
  const Events events(g);
  const std::vector<std::uint32_t> waiting = events.waiting();
  if (std::all_of(waiting.begin(), waiting.end(), [](std::uint32_t n) { return n == 0; })) return;
  // An event that waits has a predecessor that waits: going back from each finds the cycles.
  constexpr std::uint32_t kUnseen = 0;
  std::vector<std::uint32_t> seen(g.node_bound(), kUnseen);
  std::uint32_t walk = 0;
  g.for_each_node([&](NodeId start) {
    if (waiting[start.index()] == 0 || seen[start.index()] != kUnseen) return;
    ++walk;
    std::vector<NodeId> path;
    NodeId at = start;
    while (at.valid() && seen[at.index()] == kUnseen) {
      seen[at.index()] = walk;
      path.push_back(at);
      NodeId before;
      const auto look = [&](NodeId node) {
        const NodeId event = events.event(node);
        if (waiting[event.index()] > 0 && event != at) before = event;
      };
      events.for_each_predecessor(at, look);
      if (g[at].op == Op::Send) events.for_each_recv(at, [&](NodeId recv) { events.for_each_predecessor(recv, look); });
      at = before;
    }
    if (!at.valid()) {  // it waits for itself
      breach(g, breaches, 2, path.back(), "a cycle: " + short_name(g, events, path.back()) + " -> " + short_name(g, events, path.back()));
      return;
    }
    if (seen[at.index()] != walk) return;  // leads to a cycle that is told already
    std::string text = short_name(g, events, at);
    for (std::size_t i = path.size(); i-- > 0 && path[i] != at;) text += " -> " + short_name(g, events, path[i]);
    breach(g, breaches, 2, at, "a cycle: " + text + " -> " + short_name(g, events, at));
  });
}

// ---- R8

void check_transfer(const Graph& g, NodeId node, std::vector<Breach>& breaches) {
  const Node& n = g[node];
  if (n.operand_count != 1 || n.result_count != 1) return;  // R3 says so
  const ValueId operand = g.operand(node, 0);
  const std::size_t rank = g.type(operand).shape.size();
  if (n.op == Op::Send) {
    std::size_t recvs = 0;
    std::size_t others = 0;
    g.for_each_use(g.result(node), [&](UseId use) { ++(g[g[use].user].op == Op::Recv ? recvs : others); });
    if (recvs != 1 || others != 0)
      breach(g, breaches, 8, node,
             "read by " + std::to_string(recvs) + " recv and " + std::to_string(others) + " other nodes, expected one recv alone");
    if (g.layout(operand).is_partial())
      breach(g, breaches, 8, node, "sends " + to_string(g, g.layout(operand), rank) + ", a transfer is never Partial");
    if (!(g.layout(operand) == g.layout(g.result(node))))
      breach(g, breaches, 8, node,
             "the result is " + to_string(g, g.layout(g.result(node)), rank) + ", expected the operand's " +
                 to_string(g, g.layout(operand), rank));
    return;
  }
  const NodeId send = g[operand].producer;
  if (g[send].op != Op::Send) breach(g, breaches, 8, node, "receives the result of " + describe(g, send) + ", expected of a send");
  if (g[send].mesh == n.mesh) breach(g, breaches, 8, node, "receives from its own mesh @" + g.mesh_name(n.mesh));
  if (g.layout(g.result(node)).is_partial())
    breach(g, breaches, 8, node, "the result is " + to_string(g, g.layout(g.result(node)), rank) + ", a transfer is never Partial");
}

// ---- R9

namespace {

class SharedDevices {
 public:
  explicit SharedDevices(const Graph& graph) : g_(graph) {}
  bool operator()(MeshId a, MeshId b) {
    if (a == b || a == kHome || b == kHome) return true;
    if (a > b) std::swap(a, b);
    const auto [it, fresh] = known_.try_emplace((static_cast<std::uint64_t>(a.index()) << 32) | b.index(), false);
    if (fresh) {
      std::vector<DeviceId> first = g_[a].devices;
      std::sort(first.begin(), first.end());
      for (const DeviceId device : g_[b].devices) it->second = it->second || std::binary_search(first.begin(), first.end(), device);
    }
    return it->second;
  }

 private:
  const Graph& g_;
  std::unordered_map<std::uint64_t, bool> known_;
};

}  // namespace

void check_order_edges(const Graph& g, std::vector<Breach>& breaches) {
  if (g.order_edge_count() == 0) return;
  SharedDevices share(g);
  const auto meshes_at = [&](NodeId fence, bool before) {
    std::vector<MeshId> meshes;
    const auto note = [&](NodeId node) {
      if (std::find(meshes.begin(), meshes.end(), g[node].mesh) == meshes.end()) meshes.push_back(g[node].mesh);
    };
    if (before)
      g.for_each_before(fence, note);
    else
      g.for_each_after(fence, note);
    return meshes;
  };
  g.for_each_node([&](NodeId node) {
    g.for_each_before(node, [&](NodeId from) {
      if (!share(g[from].mesh, g[node].mesh))
        breach(g, breaches, 9, node,
               "waits for " + describe(g, from) + " on @" + g.mesh_name(g[from].mesh) + ", which shares no device with @" +
                   g.mesh_name(g[node].mesh));
    });
    if (g[node].op != Op::Fence || g[node].mesh != kHome) return;
    const std::vector<MeshId> before = meshes_at(node, true);
    for (const MeshId after : meshes_at(node, false))
      if (!before.empty() && std::none_of(before.begin(), before.end(), [&](MeshId m) { return share(m, after); }))
        breach(g, breaches, 9, node, "what follows it on @" + g.mesh_name(after) + " shares no device with what it waits for");
  });
}

// ---- R10

namespace {

class SignatureCheck {
 public:
  SignatureCheck(const Graph& graph, std::vector<Breach>& breaches) : g_(graph), breaches_(breaches) {}

  void run() {
    g_.for_each_node([&](NodeId node) {
      switch (g_[node].op) {
        case Op::Input:
          check_input(node);
          break;
        case Op::Param:
          note(params_, node, "parameter");
          break;
        case Op::State:
          note(states_, node, "state");
          break;
        default:
          break;
      }
    });
    g_.for_each_node([&](NodeId node) {
      const Op op = g_[node].op;
      if (op == Op::State) check_state(node);
      if (op == Op::Output) check_output(node);
      if (op == Op::Sgd || op == Op::AdamW) check_update(node);
    });
  }

 private:
  void wrong(NodeId node, const std::string& text) { breach(g_, breaches_, 10, node, text); }
  std::string quoted(NameId name) const { return "\"" + g_[name] + "\""; }

  void note(std::unordered_map<NameId, NodeId>& table, NodeId node, const char* what) {
    const NameId name = g_[node].name;
    if (!name.valid()) return wrong(node, std::string("a ") + what + " without a name");
    if (!table.emplace(name, node).second) wrong(node, std::string("a second ") + what + " of this name");
  }

  void check_input(NodeId node) {
    if (!g_[node].name.valid()) return wrong(node, "an input without a name");
    const auto [it, fresh] = inputs_.emplace(g_[node].name, node);
    if (fresh || g_[node].result_count != 1 || g_[it->second].result_count != 1) return;
    const TensorType& first = g_.type(g_.result(it->second));
    const TensorType& type = g_.type(g_.result(node));
    if (first.dtype != type.dtype || first.shape.size() != type.shape.size() || g_[node].attrs != g_[it->second].attrs)
      wrong(node, "an input of the same name is " + to_string(first) + ", here " + to_string(type) +
                      "; expected one element type, rank and attributes");
  }

  void check_state(NodeId node) {
    const StateAttrs* attrs = std::get_if<StateAttrs>(&g_[g_[node].attrs]);
    if (attrs == nullptr) return;  // R3 says so
    const NameId of = g_.find_name(attrs->of);
    if (!of.valid() || params_.count(of) == 0) wrong(node, "it is the state of \"" + attrs->of + "\", which is no parameter");
  }

  void check_output(NodeId node) {
    const OutputAttrs* attrs = std::get_if<OutputAttrs>(&g_[g_[node].attrs]);
    if (attrs == nullptr || g_[node].operand_count != 1) return;
    const NameId name = g_[node].name;
    if (!name.valid()) return wrong(node, "an output without a name");
    const std::uint64_t key =
        (static_cast<std::uint64_t>(kinds_.try_emplace(attrs->kind, kinds_.size()).first->second) << 32) | name.index();
    if (!outputs_.emplace(key, node).second) wrong(node, "a second output of kind " + attrs->kind + " and this name");
    const bool param = attrs->kind == "param";
    if (!param && attrs->kind != "gradient" && attrs->kind != "state") return;
    const auto& table = attrs->kind == "state" ? states_ : params_;
    const auto source = table.find(name);
    if (source == table.end())
      return wrong(node, "the graph has no " + std::string(attrs->kind == "state" ? "state " : "parameter ") + quoted(name));
    const ValueId entered = g_.result(source->second);
    const ValueId leaves = g_.operand(node, 0);
    const std::size_t rank = g_.type(entered).shape.size();
    if (g_.type(leaves) != g_.type(entered))
      wrong(node, "it leaves as " + to_string(g_.type(leaves)) + ", " + quoted(name) + " entered as " + to_string(g_.type(entered)));
    if (attrs->kind != "gradient" && !(g_.layout(leaves) == g_.layout(entered)))
      wrong(node, "it leaves as " + place_text(leaves, rank) + ", " + quoted(name) + " entered as " + place_text(entered, rank) +
                      "; expected the same, so that steps chain");
  }

  std::string place_text(ValueId value, std::size_t rank) const {
    return g_.layout(value).mesh == kHome ? "@" : to_string(g_, g_.layout(value), rank);
  }

  void check_update(NodeId node) {
    if (g_[node].operand_count == 0) return;
    const NodeId source = source_of(g_.operand(node, 0));
    if (g_[source].op != Op::Param) return wrong(node, "it updates the result of " + describe(g_, source) + ", expected a parameter");
    const ParamAttrs* attrs = std::get_if<ParamAttrs>(&g_[g_[source].attrs]);
    if (attrs != nullptr && !attrs->trainable) wrong(node, "it updates " + quoted(g_[source].name) + ", which is frozen");
    if (!updated_.emplace(source, node).second) wrong(node, "a second update of " + quoted(g_[source].name));
  }

  /// The node behind changes of layout and transfers.
  NodeId source_of(ValueId value) const {
    for (std::size_t steps = 0; steps < g_.node_count(); ++steps) {
      const NodeId node = g_[value].producer;
      const Node& n = g_[node];
      if (!is_communication(n.op) || n.operand_count == 0 || n.op == Op::Join) return node;
      value = g_.operand(node, std::min<std::size_t>(g_.result_index(value), n.operand_count - 1u));
    }
    return g_[value].producer;
  }

  const Graph& g_;
  std::vector<Breach>& breaches_;
  std::unordered_map<NameId, NodeId> inputs_;
  std::unordered_map<NameId, NodeId> params_;
  std::unordered_map<NameId, NodeId> states_;
  std::unordered_map<std::string, std::size_t> kinds_;
  std::unordered_map<std::uint64_t, NodeId> outputs_;
  std::unordered_map<NodeId, NodeId> updated_;
};

}  // namespace

void check_signature(const Graph& graph, std::vector<Breach>& breaches) { SignatureCheck(graph, breaches).run(); }

}  // namespace skirl
