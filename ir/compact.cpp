#include <vector>

#include "ir/error.h"
#include "ir/plan.h"

namespace skirl {
namespace {

/// Copies what a graph points at into another one, each table entry once.
class Copier {
 public:
  explicit Copier(const Graph& from)
      : from_(from),
        values_(from.value_bound()),
        nodes_(from.node_bound()),
        types_(from.type_count()),
        layouts_(from.layout_count()),
        tags_(from.tag_set_count()),
        names_(from.name_count()) {
    to_.reserve(from.node_count());
    for (std::size_t s = 1; s < from.stream_count(); ++s) to_.add_stream(from.stream_name(static_cast<StreamId>(s)));
    for (std::size_t m = 1; m < from.mesh_count(); ++m) copy_mesh(from[MeshId(m)]);
    SKIRL_CHECK(to_.mesh_count() == from.mesh_count(), "a copied mesh is not new");
  }

  Graph run(std::span<const NodeId> order) {
    for (const NodeId node : order) copy_node(node);
    for (const NodeId node : order) copy_edges(node);
    return std::move(to_);
  }

 private:
  void copy_mesh(const Mesh& mesh) {
    if (mesh.is_union()) {
      to_.union_of(mesh.members);
      return;
    }
    std::vector<Axis> axes;
    for (const Axis& axis : mesh.axes) axes.push_back({name(axis.name), axis.size});
    to_.add_mesh(mesh.devices, axes);
  }

  NameId name(NameId id) {
    if (!id.valid()) return id;
    NameId& known = slot(names_, id.index());
    if (!known.valid()) known = to_.intern(std::string_view(from_[id]));
    return known;
  }
  TypeId type(TypeId id) {
    TypeId& known = types_[id.index()];
    if (!known.valid()) known = to_.intern(from_[id]);
    return known;
  }
  LayoutId layout(LayoutId id) {
    LayoutId& known = layouts_[id.index()];
    if (!known.valid()) known = to_.intern(from_[id]);
    return known;
  }
  AttrsId attrs(AttrsId id) {
    AttrsId& known = slot(attrs_, id.index());
    if (!known.valid()) known = to_.intern(from_[id]);
    return known;
  }
  OriginId origin(OriginId id) {
    if (!id.valid()) return id;
    OriginId& known = slot(origins_, id.index());
    if (!known.valid()) known = to_.intern(from_[id]);
    return known;
  }
  TagSetId tags(TagSetId id) {
    TagSetId& known = tags_[id.index()];
    if (known.valid()) return known;
    TagSet set;
    for (const Tag& tag : from_[id].tags) {
      Tag copy{name(tag.name), tag.value};
      if (tag.value.kind == TagValue::Kind::Word) copy.value = TagValue::word(name(NameId(static_cast<std::uint32_t>(tag.value.number))));
      set = with_tag(std::move(set), copy);
    }
    return known = to_.intern(set);
  }
  template <class IdType>
  static IdType& slot(std::vector<IdType>& table, std::size_t index) {
    if (table.size() <= index) table.resize(index + 1);
    return table[index];
  }

  void copy_node(NodeId id) {
    const Node& n = from_[id];
    SKIRL_CHECK(n.alive && !nodes_[id.index()].valid(), "compact: the order lists a node that is not live, or one twice");
    operands_.clear();
    results_.clear();
    from_.for_each_operand(id, [&](ValueId value, std::size_t) {
      SKIRL_CHECK(values_[value.index()].valid(), "compact: the order lists a node before its operand");
      operands_.push_back(values_[value.index()]);
    });
    from_.for_each_result(id, [&](ValueId value) {
      const Value& v = from_[value];
      results_.push_back({type(v.type), layout(v.layout), v.role});
    });
    const NodeId copy =
        to_.add({n.op, operands_, results_, attrs(n.attrs), n.phase, tags(n.tags), n.mesh, n.stream, name(n.name), origin(n.origin)});
    nodes_[id.index()] = copy;
    for (std::size_t r = 0; r < n.result_count; ++r) values_[n.first_result + r] = to_.result(copy, r);
  }

  void copy_edges(NodeId id) {
    before_.clear();
    from_.for_each_before(id, [&](NodeId before) { before_.push_back(nodes_[before.index()]); });
    for (auto it = before_.rbegin(); it != before_.rend(); ++it) to_.add_order(*it, nodes_[id.index()]);
  }

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> values_;
  std::vector<NodeId> nodes_;
  std::vector<TypeId> types_;
  std::vector<LayoutId> layouts_;
  std::vector<TagSetId> tags_;
  std::vector<NameId> names_;
  std::vector<AttrsId> attrs_;
  std::vector<OriginId> origins_;
  std::vector<ValueId> operands_;
  std::vector<ResultInit> results_;
  std::vector<NodeId> before_;
};

}  // namespace

Graph compact(const Graph& graph, std::span<const NodeId> order) {
  SKIRL_CHECK(order.size() == graph.node_count(), "compact: the order does not list every live node once");
  return Copier(graph).run(order);
}

Graph compact(const Graph& graph) { return compact(graph, topological_order(graph)); }

}  // namespace skirl
