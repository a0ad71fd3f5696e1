#include "ir/graph.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ir/error.h"

namespace skirl {
namespace {

std::uint64_t device_set_hash(const std::vector<DeviceId>& devices) {
  std::uint64_t hash = devices.size();
  for (const DeviceId device : devices) hash += hash_mix(0x51ull, device) * 0xD6E8FEB86659FD93ull;
  return hash;
}

}  // namespace

std::string_view name(Phase phase) {
  constexpr std::array<std::string_view, 4> kNames{"F", "BI", "BW", "U"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::string_view name(Role role) {
  constexpr std::array<std::string_view, 7> kNames{"activation", "input", "param", "state", "act_gradient", "gradient", "scalar"};
  return kNames[static_cast<std::size_t>(role)];
}

Graph::Graph() {
  meshes_.emplace_back();
  streams_.emplace_back("compute");
  intern(TagSet{});
  intern(Layout{});
  intern(Attrs{NoAttrs{}});
}

// ---- nodes and uses

NodeId Graph::add(const NodeInit& init) {
  const NodeId id(nodes_.size());
  Node node;
  node.op = init.op;
  node.phase = init.phase;
  node.stream = init.stream;
  node.alive = true;
  node.operand_count = static_cast<std::uint16_t>(init.operands.size());
  node.result_count = static_cast<std::uint16_t>(init.results.size());
  SKIRL_CHECK(init.operands.size() <= 0xFFFF && init.results.size() <= 0xFFFF, "more than 65,535 operands");
  node.first_operand = static_cast<std::uint32_t>(uses_.size());
  node.first_result = static_cast<std::uint32_t>(values_.size());
  node.attrs = init.attrs.valid() ? init.attrs : AttrsId(0u);
  node.tags = init.tags.valid() ? init.tags : TagSetId(0u);
  node.mesh = init.mesh;
  node.name = init.name;
  node.origin = init.origin;
  nodes_.push_back(node);
  ++live_nodes_;
  for (const ValueId operand : init.operands) {
    uses_.push_back({operand, id, UseId(), UseId()});
    link(UseId(uses_.size() - 1));
  }
  for (const ResultInit& result : init.results) values_.push_back({result.type, result.layout, id, UseId(), result.role});
  return id;
}

void Graph::erase(NodeId id) {
  Node& node = nodes_[id.index()];
  SKIRL_CHECK(node.alive, "erased twice");
  for (std::size_t i = 0; i < node.result_count; ++i) {
    Value& value = values_[node.first_result + i];
    SKIRL_CHECK(!value.first_use.valid(), "an erased node's result is still used");
    value.producer = NodeId();
  }
  for (std::size_t i = 0; i < node.operand_count; ++i) unlink(UseId(node.first_operand + i));
  while (node.first_in.valid()) erase_order(node.first_in);
  while (node.first_out.valid()) erase_order(node.first_out);
  node.alive = false;
  --live_nodes_;
}

void Graph::link(UseId id) {
  Use& use = uses_[id.index()];
  Value& value = values_[use.value.index()];
  use.previous = UseId();
  use.next = value.first_use;
  if (use.next.valid()) uses_[use.next.index()].previous = id;
  value.first_use = id;
}

void Graph::unlink(UseId id) {
  const Use& use = uses_[id.index()];
  if (use.previous.valid())
    uses_[use.previous.index()].next = use.next;
  else
    values_[use.value.index()].first_use = use.next;
  if (use.next.valid()) uses_[use.next.index()].previous = use.previous;
}

std::vector<ValueId> Graph::operand_list(NodeId node) const {
  std::vector<ValueId> list;
  list.reserve(nodes_[node.index()].operand_count);
  for_each_operand(node, [&](ValueId value, std::size_t) { list.push_back(value); });
  return list;
}

std::size_t Graph::use_count(ValueId value) const {
  std::size_t n = 0;
  for_each_use(value, [&](UseId) { ++n; });
  return n;
}

void Graph::set_operand(UseId use, ValueId value) {
  if (uses_[use.index()].value == value) return;
  unlink(use);
  uses_[use.index()].value = value;
  link(use);
}

void Graph::set_operands(NodeId id, std::span<const ValueId> operands) {
  Node& node = nodes_[id.index()];
  SKIRL_CHECK(operands.size() <= 0xFFFF, "more than 65,535 operands");
  for (std::size_t i = 0; i < node.operand_count; ++i) unlink(UseId(node.first_operand + i));
  if (operands.size() > node.operand_count) {  // the slots left behind stay unlinked and unused
    node.first_operand = static_cast<std::uint32_t>(uses_.size());
    uses_.resize(uses_.size() + operands.size());
  }
  node.operand_count = static_cast<std::uint16_t>(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const UseId use(node.first_operand + i);
    uses_[use.index()] = {operands[i], id, UseId(), UseId()};
    link(use);
  }
}

void Graph::replace_uses(ValueId from, ValueId to) {
  while (values_[from.index()].first_use.valid()) set_operand(values_[from.index()].first_use, to);
}

std::vector<UseId> Graph::uses(ValueId value) const {
  std::vector<UseId> list;
  for_each_use(value, [&](UseId use) { list.push_back(use); });
  std::reverse(list.begin(), list.end());  // linked newest first
  return list;
}

// ---- control edges

OrderEdgeId Graph::add_order(NodeId from, NodeId to) {
  const OrderEdgeId id(order_edges_.size());
  Node& source = nodes_[from.index()];
  Node& target = nodes_[to.index()];
  order_edges_.push_back({from, to, target.first_in, OrderEdgeId(), source.first_out, OrderEdgeId()});
  if (target.first_in.valid()) order_edges_[target.first_in.index()].previous_in = id;
  if (source.first_out.valid()) order_edges_[source.first_out.index()].previous_out = id;
  target.first_in = id;
  source.first_out = id;
  ++live_order_edges_;
  return id;
}

void Graph::erase_order(OrderEdgeId id) {
  const OrderEdge edge = order_edges_[id.index()];
  if (edge.previous_in.valid())
    order_edges_[edge.previous_in.index()].next_in = edge.next_in;
  else
    nodes_[edge.to.index()].first_in = edge.next_in;
  if (edge.next_in.valid()) order_edges_[edge.next_in.index()].previous_in = edge.previous_in;
  if (edge.previous_out.valid())
    order_edges_[edge.previous_out.index()].next_out = edge.next_out;
  else
    nodes_[edge.from.index()].first_out = edge.next_out;
  if (edge.next_out.valid()) order_edges_[edge.next_out.index()].previous_out = edge.previous_out;
  --live_order_edges_;
}

// ---- tables

const std::string& Graph::operator[](NameId id) const {
  static const std::string kEmpty;
  return id.valid() ? names_[id] : kEmpty;
}

MeshId Graph::add_mesh(const std::vector<DeviceId>& devices, const std::vector<Axis>& axes) {
  Mesh mesh{axes, devices, {}};
  std::int64_t product = 1;
  for (const Axis& axis : axes) product *= axis.size;
  if (devices.empty() || product != mesh.size())
    throw Error("a mesh of axes " + axes_to_string(*this, mesh) + " needs " + std::to_string(product) + " devices, got " +
                std::to_string(devices.size()));
  std::vector<DeviceId> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    throw Error("device " + std::to_string(*twice) + " is listed twice in a mesh");
  const std::uint64_t hash = device_set_hash(devices);
  const auto [first, last] = meshes_by_devices_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Mesh& known = meshes_[it->second.index()];
    if (known.is_union()) continue;
    if (known == mesh) return it->second;
    std::vector<DeviceId> other = known.devices;
    std::sort(other.begin(), other.end());
    if (other == sorted)
      throw Error("the devices of a new mesh " + axes_to_string(*this, mesh) + " already form mesh @" + mesh_name(it->second) + " " +
                      axes_to_string(*this, known),
                  "", "use the same axes and the same order of devices for one set of devices");
  }
  meshes_.push_back(std::move(mesh));
  meshes_by_devices_.emplace(hash, MeshId(meshes_.size() - 1));
  return MeshId(meshes_.size() - 1);
}

MeshId Graph::union_of(std::span<const MeshId> members) {
  std::vector<MeshId> distinct(members.begin(), members.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.empty()) return MeshId();
  if (distinct.size() == 1) return distinct.front();
  Mesh united;
  const Mesh& first = meshes_[distinct.front().index()];
  united.axes.push_back({intern("copy"), static_cast<std::int64_t>(distinct.size())});
  united.axes.insert(united.axes.end(), first.axes.begin(), first.axes.end());
  for (const MeshId member : distinct) {
    const Mesh& mesh = meshes_[member.index()];
    if (mesh.is_home() || mesh.is_union() || mesh.axes != first.axes) return MeshId();
    united.devices.insert(united.devices.end(), mesh.devices.begin(), mesh.devices.end());
  }
  std::vector<DeviceId> sorted = united.devices;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return MeshId();
  united.members = distinct;
  const std::uint64_t hash = device_set_hash(united.devices);
  const auto [begin, end] = meshes_by_devices_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (meshes_[it->second.index()] == united) return it->second;
  meshes_.push_back(std::move(united));
  meshes_by_devices_.emplace(hash, MeshId(meshes_.size() - 1));
  return MeshId(meshes_.size() - 1);
}

std::string Graph::mesh_name(MeshId mesh) const {
  if (!mesh.valid() || mesh == kHome) return "";
  const bool is_union = meshes_[mesh.index()].is_union();
  std::size_t number = 0;
  for (std::size_t i = 1; i < mesh.index(); ++i) number += meshes_[i].is_union() == is_union ? 1 : 0;
  return (is_union ? "u" : "s") + std::to_string(number);
}

StreamId Graph::add_stream(std::string_view name) {
  const auto it = std::find(streams_.begin(), streams_.end(), name);
  if (it != streams_.end()) return static_cast<StreamId>(it - streams_.begin());
  if (streams_.size() == 255) throw Error("more than 255 streams");
  streams_.emplace_back(name);
  return static_cast<StreamId>(streams_.size() - 1);
}

std::size_t Graph::memory_bytes() const {
  return nodes_.capacity() * sizeof(Node) + values_.capacity() * sizeof(Value) + uses_.capacity() * sizeof(Use) +
         order_edges_.capacity() * sizeof(OrderEdge) +
         (types_.size() + layouts_.size() + tag_sets_.size() + attrs_.size() + origins_.size() + names_.size()) * 128;
}

void Graph::reserve(std::size_t nodes) {
  nodes_.reserve(nodes);
  values_.reserve(nodes + nodes / 4);
  uses_.reserve(nodes * 2);
}

// ---- order

namespace {

/// A set of node ids with O(1) insert and pop-smallest: one bit an id, and a tree of words that says where bits are.
class SmallestFirst {
 public:
  explicit SmallestFirst(std::size_t bound) {
    do {
      bound = (bound + 63) / 64;
      levels_.emplace_back(bound, 0);
    } while (bound > 1);
  }
  void insert(std::size_t id) {
    for (auto& level : levels_) {
      level[id / 64] |= std::uint64_t{1} << (id % 64);
      id /= 64;
    }
  }
  bool empty() const { return levels_.back()[0] == 0; }
  std::size_t pop() {
    std::size_t id = 0;
    for (std::size_t l = levels_.size(); l-- > 0;) id = id * 64 + static_cast<std::size_t>(std::countr_zero(levels_[l][id]));
    std::size_t at = id;
    for (auto& level : levels_) {
      level[at / 64] &= ~(std::uint64_t{1} << (at % 64));
      if (level[at / 64] != 0) break;
      at /= 64;
    }
    return id;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace

std::vector<NodeId> topological_order(const Graph& graph) {
  std::vector<std::uint32_t> waiting(graph.node_bound(), 0);
  std::vector<NodeId> order;
  order.reserve(graph.node_count());
  if (graph.node_bound() == 0) return order;
  SmallestFirst ready(graph.node_bound());
  graph.for_each_node([&](NodeId node) {
    std::uint32_t n = graph[node].operand_count;
    graph.for_each_before(node, [&](NodeId) { ++n; });
    waiting[node.index()] = n;
    if (n == 0) ready.insert(node.index());
  });
  const auto arrived = [&](NodeId node) {
    if (--waiting[node.index()] == 0) ready.insert(node.index());
  };
  while (!ready.empty()) {
    NodeId next(ready.pop());
    while (next.valid()) {
      order.push_back(next);
      NodeId recv;
      graph.for_each_result(next, [&](ValueId value) {
        graph.for_each_use(value, [&](UseId use) {
          const NodeId user = graph[use].user;
          if (graph[next].op == Op::Send && graph[user].op == Op::Recv && waiting[user.index()] == 1 && (!recv.valid() || user < recv)) {
            if (recv.valid()) ready.insert(recv.index());
            waiting[user.index()] = 0;
            recv = user;
          } else {
            arrived(user);
          }
        });
      });
      graph.for_each_after(next, arrived);
      next = recv;
    }
  }
  return order;
}

// ---- text of parts

std::string to_string(const Graph& graph, const TagSet& tags) {
  std::vector<std::string> parts;
  for (const Tag& tag : tags.tags) {
    std::string part = graph[tag.name];
    if (tag.value.kind == TagValue::Kind::Integer) part += "=" + std::to_string(tag.value.number);
    if (tag.value.kind == TagValue::Kind::Word) part += "=" + graph[NameId(static_cast<std::uint32_t>(tag.value.number))];
    parts.push_back(std::move(part));
  }
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " ") + part;
  return text;
}

std::string describe(const Graph& graph, NodeId node) {
  const Node& n = graph[node];
  std::string text = n.result_count > 0 ? "%" + std::to_string(n.first_result) + " = " : "node " + std::to_string(node.index()) + " ";
  text += info(n.op).name;
  if (n.name.valid()) text += " \"" + graph[n.name] + "\"";
  const std::string tags = to_string(graph, graph[n.tags]);
  text += " (" + std::string(name(n.phase)) + (tags.empty() ? "" : " " + tags) + ")";
  return text;
}

std::string axes_to_string(const Graph& graph, const Mesh& mesh) {
  std::string text = "{";
  for (std::size_t i = 0; i < mesh.axes.size(); ++i)
    text += (i ? ", " : "") + graph[mesh.axes[i].name] + ":" + std::to_string(mesh.axes[i].size);
  return text + "}";
}

std::string to_string(const Graph& graph, const Layout& layout, std::size_t rank) {
  const Mesh& mesh = graph[layout.mesh];
  if (mesh.is_home()) return "";
  std::string text = "@" + graph.mesh_name(layout.mesh);
  if (!layout.dims.empty()) {
    text += " [";
    for (std::size_t d = 0; d < rank; ++d) {
      const Cut& cut = layout.cut(d);
      text += d ? ", " : "";
      if (cut.empty()) text += "-";
      for (std::size_t a = 0; a < cut.axes.size(); ++a) text += (a ? " " : "") + graph[mesh.axes[cut.axes[a]].name];
      if (cut.table.empty()) continue;
      text += " {";
      for (std::size_t c = 0; c < cut.table.size(); ++c) {
        text += c ? "; " : "";
        for (std::size_t i = 0; i < cut.table[c].size(); ++i)
          text += (i ? " " : "") + std::to_string(cut.table[c][i].begin) + ".." + std::to_string(cut.table[c][i].end);
      }
      text += "}";
    }
    text += "]";
  }
  if (!layout.partial.empty()) {
    text += " partial(";
    for (std::size_t i = 0; i < layout.partial.size(); ++i) {
      text += (i ? " " : "") + graph[mesh.axes[layout.partial[i].axis].name];
      if (layout.partial[i].reduction == Reduction::Max) text += ":max";
    }
    text += ")";
  }
  return text;
}

}  // namespace skirl
