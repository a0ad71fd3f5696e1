#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/attrs.h"
#include "ir/id.h"
#include "ir/interner.h"
#include "ir/layout.h"
#include "ir/mesh.h"
#include "ir/op.h"
#include "ir/tags.h"
#include "ir/type.h"

namespace skirl {

/// Forward, backward for inputs, backward for weights, update.
enum class Phase : std::uint8_t { F, BI, BW, U };
std::string_view name(Phase phase);

/// What a value stands for in the step; law 1 compares, and memory tables sum, by it.
enum class Role : std::uint8_t { Activation, Input, Param, State, ActGradient, Gradient, Scalar };
std::string_view name(Role role);

using StreamId = std::uint8_t;  // index into Graph::stream_name; 0 is "compute"

/// One operation of the training step, the same on every device of its mesh.
struct Node {
  Op op = Op::Fence;
  Phase phase = Phase::F;
  StreamId stream = 0;
  bool alive = false;
  std::uint16_t operand_count = 0;
  std::uint16_t result_count = 0;
  std::uint32_t first_operand = 0;  // a UseId; the operands are consecutive
  std::uint32_t first_result = 0;   // a ValueId; the results are consecutive
  AttrsId attrs;
  TagSetId tags;
  MeshId mesh = kHome;
  NameId name;      // logical name, shared by clones and by the backward of a forward node; keys random numbers
  OriginId origin;  // offset per factor of the rule, for what depends on position; none: all zero
  OrderEdgeId first_in;   // control edges that end here
  OrderEdgeId first_out;  // control edges that start here
};

struct Value {
  TypeId type;
  LayoutId layout;
  NodeId producer;  // none once erased
  UseId first_use;
  Role role = Role::Activation;
};

/// One operand slot of one node, linked into the list of uses of its value.
struct Use {
  ValueId value;
  NodeId user;
  UseId previous;
  UseId next;
};

/// A control edge: `to` starts after `from` has ended; it carries no data.
struct OrderEdge {
  NodeId from;
  NodeId to;
  OrderEdgeId next_in;   // next edge that ends at `to`
  OrderEdgeId previous_in;
  OrderEdgeId next_out;  // next edge that starts at `from`
  OrderEdgeId previous_out;
};

using Origin = std::vector<std::int64_t>;
struct OriginHash {
  std::size_t operator()(const Origin& origin) const {
    std::size_t h = origin.size();
    for (const std::int64_t o : origin) h = hash_mix(h, static_cast<std::size_t>(o));
    return h;
  }
};

struct ResultInit {
  TypeId type;
  LayoutId layout;
  Role role = Role::Activation;
};

/// Why a value lies as it does along one axis: "follows" the cut of `from`, is "given", … (passes/propagate.h).
struct LayoutReason {
  ValueId value;
  NameId axis;
  const char* rule;
  ValueId from;  // none where the rule names no value
};

/// What a new node is made of.
struct NodeInit {
  Op op = Op::Fence;
  std::span<const ValueId> operands = {};
  std::span<const ResultInit> results = {};
  AttrsId attrs;
  Phase phase = Phase::F;
  TagSetId tags;
  MeshId mesh = kHome;
  StreamId stream = 0;
  NameId name;
  OriginId origin;
};

/// One training step of a whole cluster: nodes, values, control edges, and the interned tables they point into. Flat storage;
/// add and erase are O(1), replace_uses is O(uses). Ids are never reused, and iteration goes in id order, so the same sequence of calls gives the
/// same graph. Input, Param, State and Output are nodes; they are the signature.
class Graph {
 public:
  Graph();

  // nodes
  NodeId add(const NodeInit& init);
  /// Erases a node whose results have no uses, with its control edges.
  void erase(NodeId node);
  bool alive(NodeId node) const { return node.index() < nodes_.size() && nodes_[node.index()].alive; }
  const Node& operator[](NodeId node) const { return nodes_[node.index()]; }
  Node& operator[](NodeId node) { return nodes_[node.index()]; }
  /// Upper bound of node (value) ids: the size for side tables.
  std::size_t node_bound() const { return nodes_.size(); }
  std::size_t value_bound() const { return values_.size(); }
  std::size_t use_bound() const { return uses_.size(); }
  std::size_t node_count() const { return live_nodes_; }

  // values
  const Value& operator[](ValueId value) const { return values_[value.index()]; }
  Value& operator[](ValueId value) { return values_[value.index()]; }
  ValueId operand(NodeId node, std::size_t i) const { return uses_[nodes_[node.index()].first_operand + i].value; }
  ValueId result(NodeId node, std::size_t i = 0) const { return ValueId(nodes_[node.index()].first_result + static_cast<std::uint32_t>(i)); }
  std::size_t result_index(ValueId value) const { return value.index() - nodes_[values_[value.index()].producer.index()].first_result; }
  std::vector<ValueId> operand_list(NodeId node) const;
  const TensorType& type(ValueId value) const { return types_[values_[value.index()].type]; }
  const Layout& layout(ValueId value) const { return layouts_[values_[value.index()].layout]; }

  // uses
  bool has_uses(ValueId value) const { return values_[value.index()].first_use.valid(); }
  std::size_t use_count(ValueId value) const;
  const Use& operator[](UseId use) const { return uses_[use.index()]; }
  /// Operand number of a use within its node.
  std::size_t operand_index(UseId use) const { return use.index() - nodes_[uses_[use.index()].user.index()].first_operand; }
  UseId use(NodeId node, std::size_t operand) const { return UseId(nodes_[node.index()].first_operand + static_cast<std::uint32_t>(operand)); }
  void set_operand(UseId use, ValueId value);
  void set_operand(NodeId node, std::size_t i, ValueId value) { set_operand(use(node, i), value); }
  void set_operands(NodeId node, std::span<const ValueId> operands);
  void replace_uses(ValueId from, ValueId to);
  /// The uses of a value as they are now (a copy, so the caller may edit).
  std::vector<UseId> uses(ValueId value) const;

  // control edges
  OrderEdgeId add_order(NodeId from, NodeId to);
  void erase_order(OrderEdgeId edge);
  const OrderEdge& operator[](OrderEdgeId edge) const { return order_edges_[edge.index()]; }
  std::size_t order_edge_count() const { return live_order_edges_; }

  // iteration, in id order
  template <class F>
  void for_each_node(F&& f) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].alive) f(NodeId(i));
  }
  template <class F>
  void for_each_operand(NodeId node, F&& f) const {
    const Node n = nodes_[node.index()];  // a copy: f may add nodes
    for (std::size_t i = 0; i < n.operand_count; ++i) f(uses_[n.first_operand + i].value, i);
  }
  template <class F>
  void for_each_result(NodeId node, F&& f) const {
    const Node n = nodes_[node.index()];  // a copy: f may add nodes
    for (std::size_t i = 0; i < n.result_count; ++i) f(ValueId(n.first_result + static_cast<std::uint32_t>(i)));
  }
  template <class F>
  void for_each_use(ValueId value, F&& f) const {
    for (UseId u = values_[value.index()].first_use; u.valid(); u = uses_[u.index()].next) f(u);
  }
  /// Control predecessors (successors) of a node.
  template <class F>
  void for_each_before(NodeId node, F&& f) const {
    for (OrderEdgeId e = nodes_[node.index()].first_in; e.valid(); e = order_edges_[e.index()].next_in) f(order_edges_[e.index()].from);
  }
  template <class F>
  void for_each_after(NodeId node, F&& f) const {
    for (OrderEdgeId e = nodes_[node.index()].first_out; e.valid(); e = order_edges_[e.index()].next_out) f(order_edges_[e.index()].to);
  }

  // interned tables
  TypeId intern(const TensorType& type) { return types_.intern(type); }
  LayoutId intern(const Layout& layout) { return layouts_.intern(layout); }
  TagSetId intern(const TagSet& tags) { return tag_sets_.intern(tags); }
  AttrsId intern(const Attrs& attrs) { return attrs_.intern(attrs); }
  OriginId intern(const Origin& origin) { return origins_.intern(origin); }
  NameId intern(std::string_view name) { return names_.intern(std::string(name)); }
  NameId find_name(std::string_view name) const { return names_.find(std::string(name)); }
  const TensorType& operator[](TypeId id) const { return types_[id]; }
  const Layout& operator[](LayoutId id) const { return layouts_[id]; }
  const TagSet& operator[](TagSetId id) const { return tag_sets_[id]; }
  const Attrs& operator[](AttrsId id) const { return attrs_[id]; }
  const Origin& operator[](OriginId id) const { return origins_[id]; }
  /// The text of a name; empty for none.
  const std::string& operator[](NameId id) const;
  const Mesh& operator[](MeshId id) const { return meshes_[id.index()]; }
  std::size_t tag_set_count() const { return tag_sets_.size(); }
  std::size_t layout_count() const { return layouts_.size(); }
  std::size_t type_count() const { return types_.size(); }
  std::size_t name_count() const { return names_.size(); }
  template <class A>
  const A& attrs(NodeId node) const {
    return std::get<A>(attrs_[nodes_[node.index()].attrs]);
  }

  /// Replicate on a mesh.
  LayoutId replicate(MeshId mesh) { return intern(Layout{mesh, {}, {}}); }

  // meshes, in order of creation; the first is the home @
  std::size_t mesh_count() const { return meshes_.size(); }
  /// The mesh of these devices and axes, made if new. Throws Error if the sizes do not multiply to the devices, a device
  /// stands twice, or the same device set has a mesh with other axes.
  MeshId add_mesh(const std::vector<DeviceId>& devices, const std::vector<Axis>& axes);
  /// The union of like meshes (one that is listed once is itself), or none where they have no union: unlike axes, or a device in two of them.
  MeshId union_of(std::span<const MeshId> members);
  /// "s0", "s1", … for meshes of devices, "u0", … for unions, "" for the home.
  std::string mesh_name(MeshId mesh) const;

  // streams
  StreamId add_stream(std::string_view name);
  const std::string& stream_name(StreamId stream) const { return streams_[stream]; }
  std::size_t stream_count() const { return streams_.size(); }

  // for people: layout passes write here why they chose what they chose, where somebody asks for it
  bool keeps_layout_reasons = false;
  std::vector<LayoutReason> layout_reasons;

  /// Bytes that the graph holds, tables included.
  std::size_t memory_bytes() const;
  void reserve(std::size_t nodes);

 private:
  void link(UseId use);
  void unlink(UseId use);

  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<Use> uses_;
  std::vector<OrderEdge> order_edges_;
  std::size_t live_nodes_ = 0;
  std::size_t live_order_edges_ = 0;
  Interner<TensorType, TypeId> types_;
  Interner<Layout, LayoutId> layouts_;
  Interner<TagSet, TagSetId> tag_sets_;
  Interner<Attrs, AttrsId, AttrsHash> attrs_;
  Interner<Origin, OriginId, OriginHash> origins_;
  Interner<std::string, NameId> names_;
  std::vector<Mesh> meshes_;
  std::unordered_multimap<std::uint64_t, MeshId> meshes_by_devices_;  // by a hash that does not depend on the order of devices
  std::vector<std::string> streams_;
};

/// Live nodes in the one topological order that everything uses: data and control edges respected, the smallest id first among
/// those ready, and a recv directly after its send (the two halves of a transfer are one event). If there is a cycle, its nodes are missing.
std::vector<NodeId> topological_order(const Graph& graph);

/// "%12 = matmul (LAYER=3, MB=1)": how messages name a node.
std::string describe(const Graph& graph, NodeId node);
/// "LAYER=3 MB=1", empty for no tags.
std::string to_string(const Graph& graph, const TagSet& tags);
/// "f32[8,64] @s0 [dp, -] partial(tp)"; the layout part is left out at home.
std::string to_string(const Graph& graph, const Layout& layout, std::size_t rank);
/// "{dp:2, tp:4}".
std::string axes_to_string(const Graph& graph, const Mesh& mesh);

}  // namespace skirl
