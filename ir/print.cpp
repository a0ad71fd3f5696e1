#include <algorithm>
#include <numeric>
#include <vector>

#include "ir/error.h"
#include "ir/text.h"
#include "ir/text_parts.h"

namespace skirl {
namespace {

struct FieldText {
  std::string& text;

  void operator()(bool value) { text += value ? "true" : "false"; }
  void operator()(std::int64_t value) { append_number(text, value); }
  void operator()(double value) { append_number(text, value); }
  void operator()(DType value) { text += name(value); }
  template <class Number>
  void operator()(const std::optional<Number>& value) {
    append_number(text, *value);
  }
  void operator()(const std::string& value) {
    if (is_word(value))
      text += value;
    else
      append_quoted(text, value);
  }
  void operator()(const std::vector<std::int64_t>& value) {
    text += '[';
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) text += ',';
      append_number(text, value[i]);
    }
    text += ']';
  }
  /// "{0..2 6..8; 2..6}": one list an owner.
  void operator()(const IntervalTable& value) {
    text += '{';
    for (std::size_t owner = 0; owner < value.size(); ++owner) {
      if (owner > 0) text += ';';
      for (const Interval& interval : value[owner]) {
        if (text.back() != '{') text += ' ';
        append_number(text, interval.begin);
        text += "..";
        append_number(text, interval.end);
      }
    }
    text += '}';
  }
};

template <class T>
bool is_absent(const T&) {
  return false;
}
template <class Number>
bool is_absent(const std::optional<Number>& value) {
  return !value;
}
bool is_absent(const IntervalTable& value) { return value.empty(); }

/// One text an id, made when first needed.
class TextCache {
 public:
  explicit TextCache(std::size_t size) : texts_(size), made_(size, false) {}
  template <class Make>
  const std::string& get(std::size_t id, Make&& make) {
    if (!made_[id]) {
      make(texts_[id]);
      made_[id] = true;
    }
    return texts_[id];
  }

 private:
  std::vector<std::string> texts_;
  std::vector<bool> made_;
};

class Printer {
 public:
  Printer(const Graph& graph, std::span<const NodeId> order)
      : g_(graph),
        order_(order),
        number_(graph.value_bound(), 0),
        position_(graph.node_bound(), 0),
        label_(graph.node_bound(), 0),
        types_(graph.type_count()),
        tags_(graph.tag_set_count()),
        layouts_(graph.layout_count()),
        layout_ranks_(graph.layout_count(), 0) {}

  std::string run() {
    text_.reserve(order_.size() * 96 + 256);
    print_streams();
    print_meshes();
    number_values();
    for (const NodeId node : order_) print_node(node);
    return std::move(text_);
  }

 private:
  void word(std::string_view w) {
    if (is_word(w) && !is_reserved(w))
      text_ += w;
    else
      append_quoted(text_, w, '\'');
  }

  void print_streams() {
    if (g_.stream_count() == 1) return;
    text_ += "streams";
    for (std::size_t s = 0; s < g_.stream_count(); ++s) {
      text_ += ' ';
      word(g_.stream_name(static_cast<StreamId>(s)));
    }
    text_ += '\n';
  }

  void print_meshes() {
    std::size_t plain = 0;
    std::size_t unions = 0;
    mesh_names_.emplace_back("@");
    for (std::size_t i = 1; i < g_.mesh_count(); ++i) {
      const Mesh& mesh = g_[MeshId(i)];
      mesh_names_.push_back(mesh.is_union() ? "@u" + std::to_string(unions++) : "@s" + std::to_string(plain++));
      text_ += "mesh " + mesh_names_.back();
      if (mesh.is_union()) {
        text_ += " =";
        for (const MeshId member : mesh.members) text_ += " " + mesh_names_[member.index()];
      } else {
        text_ += " {";
        for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
          if (a > 0) text_ += ", ";
          word(g_[mesh.axes[a].name]);
          text_ += ':';
          append_number(text_, mesh.axes[a].size);
        }
        text_ += "} devices";
        for (const DeviceId device : mesh.devices) {
          text_ += ' ';
          append_number(text_, device);
        }
      }
      text_ += '\n';
    }
  }

  void number_values() {
    std::uint32_t next = 0;
    std::uint32_t labels = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const NodeId node = order_[i];
      position_[node.index()] = static_cast<std::uint32_t>(i);
      g_.for_each_result(node, [&](ValueId value) { number_[value.index()] = next++; });
      if (g_[node].result_count == 0 && g_[node].first_out.valid()) label_[node.index()] = labels++;
    }
  }

  void value(ValueId v) {
    text_ += '%';
    append_number(text_, number_[v.index()]);
  }

  void print_node(NodeId node) {
    const Node& n = g_[node];
    for (std::size_t r = 0; r < n.result_count; ++r) {
      if (r > 0) text_ += ", ";
      value(g_.result(node, r));
    }
    if (n.result_count == 0 && n.first_out.valid()) {
      text_ += '^';
      append_number(text_, label_[node.index()]);
    }
    if (n.result_count > 0 || n.first_out.valid()) text_ += " = ";
    text_ += info(n.op).name;
    const bool name_first = is_signature(n.op) && n.name.valid();
    if (name_first) quoted_name(n.name);
    print_attrs(n.attrs);
    for (std::size_t i = 0; i < n.operand_count; ++i) {
      text_ += ' ';
      value(g_.operand(node, i));
    }
    for (std::size_t r = 0; r < n.result_count; ++r) {
      text_ += r > 0 ? ", " : " : ";
      print_type(g_.result(node, r));
    }
    if (n.name.valid() && !name_first) quoted_name(n.name);
    text_ += ' ';
    text_ += name(n.phase);
    text_ += tags_.get(n.tags.index(), [&](std::string& text) { make_tags(text, g_[n.tags]); });
    const MeshId implied = n.result_count > 0 ? g_.layout(g_.result(node)).mesh : kHome;
    if (n.mesh != implied) text_ += " mesh=" + mesh_names_[n.mesh.index()];
    if (n.stream != 0) {
      text_ += " stream=";
      word(g_.stream_name(n.stream));
    }
    print_roles(node);
    if (n.origin.valid()) {
      text_ += " origin=";
      FieldText{text_}(g_[n.origin]);
    }
    print_after(node);
    text_ += '\n';
  }

  void quoted_name(NameId id) {
    text_ += ' ';
    append_quoted(text_, g_[id]);
  }

  void print_attrs(AttrsId id) {
    if (attrs_.size() <= id.index()) attrs_.resize(id.index() + 1);
    std::string& known = attrs_[id.index()];
    if (known.empty()) make_attrs(known, g_[id]);
    if (known.size() > 1) text_ += known;
  }

  /// " " for no attributes.
  static void make_attrs(std::string& text, const Attrs& attrs) {
    text = " ";
    if (const auto* einsum = std::get_if<EinsumAttrs>(&attrs)) return append_quoted(text, einsum->spec);
    bool first = true;
    for_each_field(attrs, [&](const char* field, const auto& field_value) {
      if (is_absent(field_value)) return;
      text += first ? "{" : ", ";
      first = false;
      text += field;
      text += '=';
      FieldText{text}(field_value);
    });
    if (!first) text += '}';
  }

  void print_type(ValueId v) {
    const TypeId type = g_[v].type;
    const LayoutId layout = g_[v].layout;
    text_ += types_.get(type.index(), [&](std::string& text) { text = to_string(g_[type]); });
    if (g_[layout].mesh == kHome) return;
    text_ += layout_text(layout, g_[type].shape.size());
  }

  /// Layouts are mostly used at one rank, so one text a layout is kept.
  const std::string& layout_text(LayoutId id, std::size_t rank) {
    const auto make = [&](std::string& text) {
      Layout layout = g_[id];
      layout.canonicalise();
      text = " " + mesh_names_[layout.mesh.index()] + layout_suffix(layout, std::max(rank, layout.dims.size()));
    };
    if (layout_ranks_[id.index()] != 0 && layout_ranks_[id.index()] != rank + 1) {
      make(other_layout_);
      return other_layout_;
    }
    layout_ranks_[id.index()] = static_cast<std::uint32_t>(rank + 1);
    return layouts_.get(id.index(), make);
  }

  std::string layout_suffix(const Layout& layout, std::size_t rank) const {
    const Mesh& mesh = g_[layout.mesh];
    std::string text;
    const auto axis = [&](std::uint8_t a) {
      const std::string_view axis_name = a < mesh.axes.size() ? std::string_view(g_[mesh.axes[a].name]) : "?";
      if (is_word(axis_name) && !is_reserved(axis_name))
        text += axis_name;
      else
        append_quoted(text, axis_name, '\'');
    };
    if (!layout.dims.empty()) {
      text += " [";
      for (std::size_t d = 0; d < rank; ++d) {
        if (d > 0) text += ", ";
        const Cut& cut = layout.cut(d);
        if (cut.empty()) text += '-';
        for (std::size_t a = 0; a < cut.axes.size(); ++a) {
          if (a > 0) text += ' ';
          axis(cut.axes[a]);
        }
        if (!cut.empty() && !cut.table.empty()) FieldText{text += ' '}(cut.table);
      }
      text += ']';
    }
    if (layout.partial.empty()) return text;
    text += " partial(";
    for (std::size_t i = 0; i < layout.partial.size(); ++i) {
      if (i > 0) text += ' ';
      axis(layout.partial[i].axis);
      if (layout.partial[i].reduction == Reduction::Max) text += ":max";
    }
    text += ')';
    return text;
  }

  void make_tags(std::string& text, const TagSet& set) {
    std::vector<std::string> parts;
    const auto append = [](std::string& part, std::string_view w) {
      if (is_word(w) && !is_reserved(w))
        part += w;
      else
        append_quoted(part, w, '\'');
    };
    for (const Tag& tag : set.tags) {
      std::string part = " ";
      append(part, g_[tag.name]);
      if (tag.value.kind != TagValue::Kind::None) part += '=';
      if (tag.value.kind == TagValue::Kind::Integer) append_number(part, tag.value.number);
      if (tag.value.kind == TagValue::Kind::Word) append(part, g_[NameId(static_cast<std::uint32_t>(tag.value.number))]);
      parts.push_back(std::move(part));
    }
    std::sort(parts.begin(), parts.end());
    for (const std::string& part : parts) text += part;
  }

  void print_roles(NodeId node) {
    const Node& n = g_[node];
    bool usual = true;
    bool equal = true;
    for (std::size_t r = 0; r < n.result_count; ++r) {
      const Value& v = g_[g_.result(node, r)];
      usual = usual && v.role == default_role(n.op, n.phase, g_[v.type].shape, r);
      equal = equal && v.role == g_[g_.result(node)].role;
    }
    if (usual) return;
    text_ += " role=";
    if (equal) {
      text_ += name(g_[g_.result(node)].role);
      return;
    }
    for (std::size_t r = 0; r < n.result_count; ++r) {
      text_ += r > 0 ? ',' : '[';
      text_ += name(g_[g_.result(node, r)].role);
    }
    text_ += ']';
  }

  void print_after(NodeId node) {
    if (!g_[node].first_in.valid()) return;
    before_.clear();
    g_.for_each_before(node, [&](NodeId from) { before_.push_back(from); });
    std::sort(before_.begin(), before_.end(), [&](NodeId a, NodeId b) { return position_[a.index()] < position_[b.index()]; });
    text_ += " after=[";
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (i > 0) text_ += ", ";
      const NodeId from = before_[i];
      if (g_[from].result_count > 0) {
        value(g_.result(from));
      } else {
        text_ += '^';
        append_number(text_, label_[from.index()]);
      }
    }
    text_ += ']';
  }

  const Graph& g_;
  std::span<const NodeId> order_;
  std::string text_;
  std::vector<std::string> mesh_names_;
  std::vector<std::uint32_t> number_;    // by value
  std::vector<std::uint32_t> position_;  // by node
  std::vector<std::uint32_t> label_;     // by node without results that others wait for
  TextCache types_;
  TextCache tags_;
  TextCache layouts_;
  std::vector<std::uint32_t> layout_ranks_;  // rank + 1 of the text kept; 0: none yet
  std::string other_layout_;
  std::vector<std::string> attrs_;
  std::vector<NodeId> before_;
};

}  // namespace

std::string print(const Graph& graph, std::span<const NodeId> order) {
  SKIRL_CHECK(order.size() == graph.node_count(), "print: the order does not list every node once");
  return Printer(graph, order).run();
}

std::string print(const Graph& graph) {
  std::vector<NodeId> order = topological_order(graph);
  if (order.size() != graph.node_count()) {
    std::vector<bool> listed(graph.node_bound(), false);
    for (const NodeId node : order) listed[node.index()] = true;
    graph.for_each_node([&](NodeId node) {
      if (!listed[node.index()]) order.push_back(node);
    });
  }
  return print(graph, order);
}

}  // namespace skirl
