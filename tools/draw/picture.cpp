#include "tools/draw/picture.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace skirl::draw {
namespace {

constexpr double kCharWidth = 5.4;  // of the label's font, 9 points
constexpr double kLineHeight = 11;
constexpr double kColumnGap = 26;
constexpr double kRowGap = 14;
constexpr double kLaneGap = 18;
constexpr double kLabelHeight = 26;
constexpr double kLegendHeight = 58;
constexpr double kMargin = 16;
constexpr std::size_t kMaxLine = 30;
constexpr std::size_t kComputeRows = 3;  // nodes of one lane that may stand at the same place, above one another

Kind kind_of(Op op) {
  if (op == Op::Output) return Kind::Output;
  if (is_signature(op) || op == Op::Fill) return Kind::Source;
  if (op == Op::Send) return Kind::Send;
  if (op == Op::Recv) return Kind::Recv;
  if (is_communication(op)) return Kind::Collective;
  return op == Op::Fence ? Kind::Fence : Kind::Compute;
}

std::string shortened(std::string line) {
  if (line.size() > kMaxLine) line = line.substr(0, kMaxLine - 3) + "...";
  return line;
}

/// "0-3,6": device ids with runs written as ranges.
std::string device_list(const Mesh& mesh) {
  std::vector<DeviceId> ids = mesh.devices;
  std::sort(ids.begin(), ids.end());
  std::string text;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t last = i;
    while (last + 1 < ids.size() && ids[last + 1] == ids[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(ids[i]);
    if (last > i) text += (last == i + 1 ? "," : "-") + std::to_string(ids[last]);
    i = last + 1;
  }
  return text;
}

std::string devices_text(const Graph& graph, MeshId mesh) {
  const Mesh& m = graph[mesh];
  if (m.is_home()) return "one device";
  return (m.devices.size() == 1 ? "device " : "devices ") + device_list(m);
}

std::vector<std::string> label_lines(const Graph& graph, NodeId node) {
  const Node& n = graph[node];
  std::vector<std::string> lines = {info(n.op).name};
  if (n.name.valid()) lines.push_back(shortened(graph[n.name]));
  const std::string tags = to_string(graph, graph[n.tags]);
  if (!tags.empty()) lines.push_back(shortened(tags));
  const ValueId value = n.result_count > 0 ? graph.result(node) : n.operand_count > 0 ? graph.operand(node, 0) : ValueId{};
  if (!value.valid()) return lines;
  lines.push_back(shortened(to_string(graph.type(value))));
  const Layout& layout = graph.layout(value);
  if (!layout.is_replicate()) {
    std::string text = to_string(graph, layout, graph.type(value).shape.size());
    text.erase(0, std::min(text.size(), text.find(' ') + 1));  // the mesh is told by the cluster
    lines.push_back(shortened(text));
  }
  return lines;
}

/// The value of `tag` at a node as text; PASS is its phase. Empty where it has none.
std::string tag_text(const Graph& graph, NodeId node, const std::string& tag) {
  if (tag == "PASS") return "PASS=" + std::string(name(graph[node].phase));
  const NameId id = graph.find_name(tag);
  const TagValue* value = id.valid() ? graph[graph[node].tags].find(id) : nullptr;
  if (!value) return "";
  return to_string(graph, TagSet{{{id, *value}}});
}

/// Sums up nodes that are folded: how many of which operator, most frequent first.
std::string summary(const std::map<Op, std::size_t>& ops) {
  std::vector<std::pair<std::size_t, Op>> sorted;
  for (const auto& [op, count] : ops) sorted.emplace_back(count, op);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::string text;
  for (std::size_t i = 0; i < sorted.size() && i < 2; ++i)
    text += (i ? ", " : "") + std::to_string(sorted[i].first) + " " + info(sorted[i].second).name;
  return sorted.size() > 2 ? text + ", ..." : text;
}

std::string words(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& word : list) text += (text.empty() ? "" : ", ") + word;
  return text;
}

class Arranger {
 public:
  Arranger(const Graph& graph, const DrawOptions& options) : graph_(graph), options_(options), item_of_(graph.node_bound(), kNone) {}

  Picture run() {
    make_items();
    make_edges();
    make_lanes();
    place();
    return std::move(picture_);
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  void make_items() {
    std::vector<NodeId> order = topological_order(graph_);
    if (order.size() < graph_.node_count()) {  // a cycle: its nodes come last, in id order
      std::vector<char> seen(graph_.node_bound(), 0);
      for (const NodeId node : order) seen[node.index()] = 1;
      graph_.for_each_node([&](NodeId node) {
        if (!seen[node.index()]) order.push_back(node);
      });
    }
    std::map<std::tuple<std::uint32_t, StreamId, Kind, std::string>, std::size_t> folded;
    std::vector<std::map<Op, std::size_t>> ops;
    for (const NodeId node : order) {
      if (options_.filter && !options_.filter(node)) continue;
      ++drawn_nodes_;
      const Node& n = graph_[node];
      const Kind kind = kind_of(n.op);
      std::string key;
      for (const std::string& tag : options_.fold) {
        const std::string text = tag_text(graph_, node, tag);
        if (!text.empty()) key += (key.empty() ? "" : " ") + text;
      }
      std::size_t item = picture_.items.size();
      if (!options_.fold.empty()) {
        const auto [it, added] = folded.try_emplace({n.mesh.index(), n.stream, kind, key}, item);
        item = it->second;
      }
      if (item == picture_.items.size()) {
        picture_.items.push_back({node, 0, kind, n.phase, lane_of(n, node), {}, 0, 0, 0, 0});
        if (!options_.fold.empty()) {
          ops.emplace_back();
          picture_.items.back().lines.push_back(key);
        }
      }
      ++picture_.items[item].nodes;
      if (!options_.fold.empty()) ++ops[item][n.op];
      item_of_[node.index()] = static_cast<std::uint32_t>(item);
    }
    for (std::size_t i = 0; i < picture_.items.size(); ++i) {
      Item& item = picture_.items[i];
      if (options_.fold.empty() || item.nodes == 1) {
        item.lines = label_lines(graph_, item.first);
      } else {
        std::string key = item.lines[0];
        item.lines.clear();
        if (!key.empty()) item.lines.push_back(shortened(std::move(key)));
        item.lines.push_back(std::to_string(item.nodes) + " nodes");
        item.lines.push_back(shortened(summary(ops[i])));
      }
      std::size_t longest = 6;
      for (const std::string& line : item.lines) longest = std::max(longest, line.size());
      item.width = static_cast<double>(longest) * kCharWidth + 14;
      item.height = static_cast<double>(item.lines.size()) * kLineHeight + 10;
      if (item.kind == Kind::Collective || item.kind == Kind::Send || item.kind == Kind::Recv) item.width += 18;
      if (item.kind == Kind::Fence) item.lines.clear(), item.width = item.height = 9;
    }
    if (!options_.fold.empty())
      picture_.note =
          std::to_string(drawn_nodes_) + " nodes, folded by " + words(options_.fold) + " to " + std::to_string(picture_.items.size());
    else
      picture_.note = std::to_string(drawn_nodes_) + " nodes";
    if (drawn_nodes_ < graph_.node_count()) picture_.note += " of " + std::to_string(graph_.node_count()) + " (filtered)";
  }

  /// A fence that lives nowhere stands where what it waits for does.
  std::size_t lane_of(const Node& n, NodeId node) {
    if (n.op == Op::Fence && n.mesh == kHome) {
      std::size_t lane = kNone;
      graph_.for_each_before(node, [&](NodeId before) {
        if (lane == kNone && item_of_[before.index()] != kNone) lane = picture_.items[item_of_[before.index()]].lane;
      });
      if (lane != kNone) return lane;
    }
    const auto [it, added] = lane_index_.try_emplace({n.mesh.index(), n.stream}, picture_.lanes.size());
    if (added) picture_.lanes.push_back({n.mesh, n.stream, devices_text(graph_, n.mesh) + " \u00B7 " + graph_.stream_name(n.stream), 0, 0});
    return it->second;
  }

  void make_edges() {
    std::unordered_map<std::uint64_t, std::size_t> known;
    const auto add = [&](NodeId from_node, NodeId to_node, bool control) {
      const std::uint32_t from = item_of_[from_node.index()], to = item_of_[to_node.index()];
      if (from == kNone || to == kNone || from == to) return;
      const std::uint64_t key = (static_cast<std::uint64_t>(from) << 32 | to) * 2 + (control ? 1 : 0);
      const auto [it, added] = known.try_emplace(key, picture_.edges.size());
      if (added)
        picture_.edges.push_back({from, to, 1, control, picture_.items[from].kind == Kind::Send && picture_.items[to].kind == Kind::Recv});
      else
        ++picture_.edges[it->second].count;
    };
    graph_.for_each_node([&](NodeId node) {
      graph_.for_each_operand(node, [&](ValueId value, std::size_t) { add(graph_[value].producer, node, false); });
      graph_.for_each_before(node, [&](NodeId before) { add(before, node, true); });
    });
  }

  /// Lanes from the home down, by first device; the streams of a mesh side by side.
  void make_lanes() {
    std::vector<std::size_t> order(picture_.lanes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto key = [&](std::size_t i) {
      const Lane& lane = picture_.lanes[i];
      const Mesh& mesh = graph_[lane.mesh];
      const std::int64_t first =
          mesh.is_home() ? -1 : static_cast<std::int64_t>(*std::min_element(mesh.devices.begin(), mesh.devices.end()));
      return std::make_tuple(mesh.is_union(), first, lane.mesh.index(), lane.stream);
    };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    std::vector<std::size_t> place(order.size());
    std::vector<Lane> lanes;
    for (std::size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      lanes.push_back(picture_.lanes[order[i]]);
    }
    picture_.lanes = std::move(lanes);
    for (Item& item : picture_.items) item.lane = place[item.lane];
  }

  /// Each item gets the first free column of its lane after all that it waits for; sources stand just before their first reader.
  void place() {
    const std::size_t n = picture_.items.size();
    std::vector<std::vector<std::size_t>> before(n);
    for (const Edge& edge : picture_.edges)
      if (edge.from < edge.to) before[edge.to].push_back(edge.from);  // folded groups may wait for one another; the first one leads
    std::vector<std::size_t> column(n, 0), row(n, 0);
    std::vector<std::vector<std::size_t>> used(picture_.lanes.size());  // items of a lane in each column
    const std::size_t rows = options_.fold.empty() ? kComputeRows : 1;
    const auto is_source = [&](std::size_t i) { return picture_.items[i].kind == Kind::Source; };
    for (std::size_t i = 0; i < n; ++i) {
      if (is_source(i)) continue;
      std::size_t at = 1;
      for (const std::size_t b : before[i])
        if (!is_source(b)) at = std::max(at, column[b] + 1);
      std::vector<std::size_t>& lane = used[picture_.items[i].lane];
      while (at < lane.size() && lane[at] >= rows) ++at;
      if (lane.size() <= at) lane.resize(at + 1, 0);
      column[i] = at;
      row[i] = lane[at]++;
    }
    std::vector<std::size_t> first_reader(n, kNone);
    for (const Edge& edge : picture_.edges)
      if (is_source(edge.from)) first_reader[edge.from] = std::min(first_reader[edge.from], column[edge.to]);
    std::vector<std::vector<std::size_t>> source_rows(picture_.lanes.size());
    std::vector<std::size_t> compute_rows(picture_.lanes.size(), 0);
    for (std::size_t i = 0; i < n; ++i)
      if (!is_source(i)) compute_rows[picture_.items[i].lane] = std::max(compute_rows[picture_.items[i].lane], row[i] + 1);
    for (std::size_t i = 0; i < n; ++i) {
      if (!is_source(i)) continue;
      column[i] = first_reader[i] == kNone ? 0 : first_reader[i] - (first_reader[i] > 0 ? 1 : 0);
      std::vector<std::size_t>& lane = source_rows[picture_.items[i].lane];
      if (lane.size() <= column[i]) lane.resize(column[i] + 1, 0);
      row[i] = compute_rows[picture_.items[i].lane] + lane[column[i]]++;
    }
    set_coordinates(column, row);
  }

  void set_coordinates(const std::vector<std::size_t>& column, const std::vector<std::size_t>& row) {
    std::vector<double> column_width, x;
    double row_height = 24;
    std::vector<std::size_t> lane_rows(picture_.lanes.size(), 1);
    for (std::size_t i = 0; i < picture_.items.size(); ++i) {
      const Item& item = picture_.items[i];
      if (column_width.size() <= column[i]) column_width.resize(column[i] + 1, 0);
      column_width[column[i]] = std::max(column_width[column[i]], item.width);
      row_height = std::max(row_height, item.height);
      lane_rows[item.lane] = std::max(lane_rows[item.lane], row[i] + 1);
    }
    double right = kMargin + 12;
    for (const double width : column_width) {
      x.push_back(right + width / 2);
      right += width > 0 ? width + kColumnGap : 0;
    }
    right = std::max(right, 620.0);
    // from the top down; y is negative and grows upwards
    double y = -kLegendHeight - kMargin;
    for (std::size_t l = 0; l < picture_.lanes.size(); ++l) {
      Lane& lane = picture_.lanes[l];
      const bool opens = l == 0 || picture_.lanes[l - 1].mesh != lane.mesh;
      if (opens) {
        std::string label = lane.mesh == kHome ? "home \u00B7 not placed yet"
                                               : "mesh " + graph_.mesh_name(lane.mesh) + " " + axes_to_string(graph_, graph_[lane.mesh]);
        picture_.clusters.push_back({lane.mesh, std::move(label), {kMargin, 0, right, y}});
        y -= 6;
      }
      y -= kLabelHeight - 6;
      lane.high = y;
      y -= static_cast<double>(lane_rows[l]) * (row_height + kRowGap);
      lane.low = y;
      picture_.clusters.back().box.low = y - 6;
      const bool closes = l + 1 == picture_.lanes.size() || picture_.lanes[l + 1].mesh != lane.mesh;
      if (closes) y -= kLaneGap;
    }
    for (std::size_t i = 0; i < picture_.items.size(); ++i) {
      Item& item = picture_.items[i];
      item.x = x[column[i]];
      item.y = picture_.lanes[item.lane].high - (static_cast<double>(row[i]) + 0.5) * (row_height + kRowGap);
    }
    picture_.box = {0, y, right + kMargin, 0};
  }

  const Graph& graph_;
  const DrawOptions& options_;
  std::vector<std::uint32_t> item_of_;
  std::map<std::pair<std::uint32_t, StreamId>, std::size_t> lane_index_;
  std::size_t drawn_nodes_ = 0;
  Picture picture_;
};

}  // namespace

Picture arrange(const Graph& graph, const DrawOptions& options) { return Arranger(graph, options).run(); }

}  // namespace skirl::draw

namespace skirl {

/// Boxes that a person takes in at once.
constexpr std::size_t kReadable = 100;

std::vector<std::string> default_fold(const Graph& graph) {
  if (graph.node_count() <= kFoldAbove) return {};
  std::vector<std::string> tags;
  for (const char* tag : {"LAYER", "MB", "PP", "PASS"})  // the first is dropped first
    if (std::string(tag) == "PASS" || graph.find_name(tag).valid()) tags.emplace_back(tag);
  while (tags.size() > 1) {
    DrawOptions options;
    options.fold = tags;
    if (draw::arrange(graph, options).items.size() <= kReadable) break;
    tags.erase(tags.begin());
  }
  return tags;
}

}  // namespace skirl
