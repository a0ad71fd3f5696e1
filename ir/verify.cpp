#include "ir/verify.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/verifier.h"

namespace skirl {

std::uint32_t KeyTable::number(std::span<const std::uint32_t> key, bool& fresh) {
  std::uint64_t hash = key.size();
  for (const std::uint32_t part : key) hash = (hash ^ part) * 0x9E3779B97F4A7C15ull, hash ^= hash >> 29;
  for (std::size_t slot = hash & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot] == 0) {
      const std::uint32_t begin = static_cast<std::uint32_t>(keys_.size());
      keys_.insert(keys_.end(), key.begin(), key.end());
      entries_.push_back({hash, begin, static_cast<std::uint32_t>(keys_.size())});
      slots_[slot] = static_cast<std::uint32_t>(entries_.size());
      if (entries_.size() * 2 > slots_.size()) grow();
      fresh = true;
      return static_cast<std::uint32_t>(entries_.size() - 1);
    }
    const Entry& entry = entries_[slots_[slot] - 1];
    if (entry.hash == hash && entry.end - entry.begin == key.size() && std::equal(key.begin(), key.end(), keys_.begin() + entry.begin)) {
      fresh = false;
      return slots_[slot] - 1;
    }
  }
}

void KeyTable::grow() {
  slots_.assign(slots_.size() * 4, 0);
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    std::size_t slot = entries_[e].hash & (slots_.size() - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = static_cast<std::uint32_t>(e + 1);
  }
}

namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : g_(graph), rules_(graph) {}

  std::vector<Breach> run() {
    g_.for_each_node([&](NodeId node) {
      if (!check_uses(node)) sound_ = false;
    });
    if (!sound_) return std::move(breaches_);  // nothing else can be looked at
    g_.for_each_node([&](NodeId node) { check_node(node); });
    check_cycles(g_, breaches_);
    check_order_edges(g_, breaches_);
    check_signature(g_, breaches_);
    std::stable_sort(breaches_.begin(), breaches_.end(), [](const Breach& a, const Breach& b) { return a.rule < b.rule; });
    return std::move(breaches_);
  }

 private:
  /// What is known of all nodes of one operator, attributes and types.
  struct Typed {
    bool good = false;
    std::uint32_t factors = 0;
    std::vector<Complaint> complaints;
  };

  void breach(int rule, NodeId node, const std::string& text) { breaches_.push_back({rule, node, describe(g_, node) + ": " + text}); }

  // ---- R1

  bool check_uses(NodeId node) {
    const Node& n = g_[node];
    bool good = true;
    const auto wrong = [&](const std::string& text) {
      good = false;
      breach(1, node, text);
    };
    if (n.mesh.index() >= g_.mesh_count()) wrong("its mesh is none of the graph's");
    for (std::size_t i = 0; i < n.operand_count; ++i) {
      const UseId id = g_.use(node, i);
      const Use& use = g_[id];
      if (use.value.index() >= g_.value_bound() || !g_[use.value].producer.valid() || !g_.alive(g_[use.value].producer)) {
        wrong("operand " + std::to_string(i) + " has no producer");
        continue;
      }
      const bool listed = use.previous.valid() ? g_[use.previous].next == id : g_[use.value].first_use == id;
      if (use.user != node || !listed || (use.next.valid() && g_[use.next].previous != id))
        wrong("operand " + std::to_string(i) + " is not in the list of uses of its value");
    }
    for (std::size_t r = 0; r < n.result_count; ++r) {
      const Value& value = g_[g_.result(node, r)];
      if (value.producer != node) wrong("result " + std::to_string(r) + " says that another node makes it");
      if (g_[value.layout].mesh.index() >= g_.mesh_count())
        wrong("the layout of result " + std::to_string(r) + " is on no mesh of the graph");
    }
    return good;
  }

  // ---- R3 to R8, node by node

  void check_node(NodeId node) {
    const Node& n = g_[node];
    const std::uint32_t kind = check_types(node);
    const Typed& typed = typed_[kind];
    for (const Complaint& complaint : typed.complaints) breach(complaint.rule, node, complaint.text);
    if (n.origin.valid() && typed.good && g_[n.origin].size() > typed.factors)
      breach(3, node,
             "its origin has " + std::to_string(g_[n.origin].size()) + " entries, its rule " + std::to_string(typed.factors) + " factors");
    for (const Complaint& complaint : check_layouts(node, kind)) breach(complaint.rule, node, complaint.text);
    if (is_transfer(n.op)) check_transfer(g_, node, breaches_);
  }

  std::uint32_t check_types(NodeId node) {
    const Node& n = g_[node];
    key_.clear();
    key_.push_back((static_cast<std::uint32_t>(n.op) << 16) | n.operand_count);
    key_.push_back(n.attrs.index());
    g_.for_each_operand(node, [&](ValueId v, std::size_t) { key_.push_back(g_[v].type.index()); });
    g_.for_each_result(node, [&](ValueId v) { key_.push_back(g_[v].type.index()); });
    bool fresh = false;
    const std::uint32_t number = kinds_.number(key_, fresh);
    if (fresh) typed_.push_back(typed(node));
    return number;
  }

  Typed typed(NodeId node) {
    const Node& n = g_[node];
    const OpInfo& entry = info(n.op);
    Typed result;
    const auto wrong = [&](std::string text) {
      result.complaints.push_back({3, std::move(text)});
      return result;
    };
    if (n.operand_count < entry.min_operands || (entry.max_operands >= 0 && n.operand_count > entry.max_operands))
      return wrong("got " + std::to_string(n.operand_count) + " operands, expected " + std::to_string(entry.min_operands) +
                   (entry.max_operands == entry.min_operands ? ""
                    : entry.max_operands < 0                 ? " or more"
                                                             : " to " + std::to_string(entry.max_operands)));
    if (g_[n.attrs].index() != entry.attrs_index) return wrong("its attributes are of another operator");
    std::vector<TensorType> operands;
    std::vector<TensorType> results;
    g_.for_each_operand(node, [&](ValueId v, std::size_t) { operands.push_back(g_.type(v)); });
    g_.for_each_result(node, [&](ValueId v) { results.push_back(g_.type(v)); });
    const bool is_source = is_signature(n.op) && entry.max_operands == 0;
    if (is_source && results.size() != 1) return wrong("it has " + std::to_string(results.size()) + " results, expected 1");
    std::vector<TensorType> expected;
    try {
      expected = entry.infer({n.op, g_[n.attrs], operands, results});
    } catch (const Error& error) {
      return wrong(error.complaint());
    }
    if (expected != results) return wrong("its results are " + types_text(results) + ", expected " + types_text(expected));
    result.good = true;
    result.factors = static_cast<std::uint32_t>(rules_.of(node).factors.size());
    return result;
  }

  static std::string types_text(const std::vector<TensorType>& types) {
    std::string text;
    for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
    return text.empty() ? "none" : text;
  }

  /// Once for each distinct kind of node, mesh and layouts.
  const std::vector<Complaint>& check_layouts(NodeId node, std::uint32_t kind) {
    const Node& n = g_[node];
    key_.clear();
    key_.push_back(kind);
    key_.push_back(n.mesh.index());
    g_.for_each_operand(node, [&](ValueId v, std::size_t) { key_.push_back(g_[v].layout.index()); });
    g_.for_each_result(node, [&](ValueId v) { key_.push_back(g_[v].layout.index()); });
    bool fresh = false;
    const std::uint32_t number = laid_out_.number(key_, fresh);
    if (fresh) layouts_.push_back(laid_out(node, typed_[kind].good));
    return layouts_[number];
  }

  std::vector<Complaint> laid_out(NodeId node, bool types_good) {
    const Node& n = g_[node];
    std::vector<Complaint> complaints = meshes(node);
    g_.for_each_result(node, [&](ValueId v) {
      for (Complaint& complaint : layout_complaints(g_, g_.layout(v), g_.type(v).shape)) {
        complaint.text = "result " + std::to_string(g_.result_index(v)) + " " + complaint.text;
        complaints.push_back(std::move(complaint));
      }
    });
    bool operands_legal = true;  // else their producers say so
    g_.for_each_operand(node, [&](ValueId v, std::size_t) {
      operands_legal = operands_legal && layout_complaints(g_, g_.layout(v), g_.type(v).shape).empty();
    });
    if (!complaints.empty() || !operands_legal || !types_good || n.mesh == kHome) return complaints;
    if (is_collective(n.op) || n.op == Op::View || n.op == Op::Join) return change_complaints(g_, node);
    if (is_transfer(n.op) || n.op == Op::Fence) return complaints;
    return rule_complaints(g_, node, rules_.of(node));
  }

  // ---- R6

  std::vector<Complaint> meshes(NodeId node) {
    const Node& n = g_[node];
    std::vector<Complaint> complaints;
    const auto mesh_text = [&](MeshId mesh) { return mesh == kHome ? std::string("at home") : "on @" + g_.mesh_name(mesh); };
    g_.for_each_result(node, [&](ValueId v) {
      if (g_.layout(v).mesh == n.mesh) return;
      complaints.push_back(
          {6, "result " + std::to_string(g_.result_index(v)) + " is " + mesh_text(g_.layout(v).mesh) + ", the node " + mesh_text(n.mesh)});
    });
    const bool crosses = n.op == Op::Recv || n.op == Op::View || n.op == Op::Join;
    g_.for_each_operand(node, [&](ValueId v, std::size_t i) {
      const MeshId mesh = g_.layout(v).mesh;
      if (n.mesh == kHome && mesh != kHome && g_.layout(v).is_partial())
        complaints.push_back({6, "operand " + std::to_string(i) + " is " + to_string(g_, g_.layout(v), g_.type(v).shape.size()) +
                                     ", but what is read at home is never Partial"});
      if (mesh == n.mesh || mesh == kHome || n.mesh == kHome || crosses) return;
      complaints.push_back({6, "operand " + std::to_string(i) + " is " + mesh_text(mesh) + ", the node " + mesh_text(n.mesh) +
                                   "; only recv, view and join read other meshes"});
    });
    if (n.mesh == kHome && (is_communication(n.op)))
      complaints.push_back({6, std::string(info(n.op).name) + " is at home, expected on a mesh"});
    return complaints;
  }

  const Graph& g_;
  Rules rules_;
  std::vector<Breach> breaches_;
  bool sound_ = true;
  std::vector<std::uint32_t> key_;
  KeyTable kinds_;
  std::vector<Typed> typed_;
  KeyTable laid_out_;
  std::vector<std::vector<Complaint>> layouts_;
};

}  // namespace

std::vector<Breach> verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace skirl
