#include "passes/region.h"

#include <algorithm>

#include "ir/error.h"

namespace skirl {
namespace {

bool works(const Graph& graph, NodeId node) { return graph[node].phase != Phase::U && is_compute(graph[node].op); }

class Region {
 public:
  Region(const Graph& graph, const std::vector<NodeId>& order, NameId axis)
      : graph_(graph), order_(order), axis_(axis), in_(graph.node_bound(), false) {}

  std::vector<bool> run(const Filter& filter, std::vector<DeviceId> devices, const std::string& pass) {
    if (filter.terms.empty() && !filter.phases) {
      for (const NodeId node : order_) in_[node.index()] = has_axis(node);
    } else {
      std::sort(devices.begin(), devices.end());
      add_work(filter, devices, pass);
      add_sources();
      add_updates();
    }
    return std::move(in_);
  }

 private:
  bool has_axis(NodeId node) const { return graph_[graph_[node].mesh].axis_index(axis_) >= 0; }

  void add_work(const Filter& filter, const std::vector<DeviceId>& devices, const std::string& pass) {
    Matcher matches(graph_, filter);
    for (const NodeId node : order_) {
      if (!has_axis(node)) continue;
      if (!works(graph_, node)) {
        if (graph_[node].operand_count > 0)
          in_[node.index()] = in_[graph_[graph_.operand(node, 0)].producer.index()] || graph_[node].op == Op::Recv;
        continue;
      }
      in_[node.index()] = matches(node);
      if (!in_[node.index()] || devices.empty()) continue;
      std::vector<DeviceId> placed = graph_[graph_[node].mesh].devices;
      std::sort(placed.begin(), placed.end());
      if (placed != devices)
        throw Error(pass + ": " + describe(graph_, node) + " is on other devices than the directive lists (mesh @" +
                    graph_.mesh_name(graph_[node].mesh) + ")");
    }
  }

  /// Sources, by their readers.
  void add_sources() {
    for (const NodeId node : order_) {
      const Node& n = graph_[node];
      if (n.operand_count > 0 || n.result_count == 0 || !has_axis(node) || works(graph_, node)) continue;
      bool any = false;
      bool all = true;
      graph_.for_each_use(graph_.result(node), [&](UseId use) {
        const NodeId user = graph_[use].user;
        if (graph_[user].phase == Phase::U && n.op != Op::State) return;
        any = any || in_[user.index()];
        all = all && in_[user.index()];
      });
      in_[node.index()] = n.op == Op::State ? false : any && all;
    }
  }

  /// Updates, by their parameter; states, by their update.
  void add_updates() {
    for (const NodeId node : order_) {
      if (graph_[node].op != Op::Sgd && graph_[node].op != Op::AdamW) continue;
      const bool in = in_[graph_[graph_.operand(node, 0)].producer.index()];
      in_[node.index()] = in;
      for (std::size_t i = 2; i < graph_[node].operand_count; ++i) in_[graph_[graph_.operand(node, i)].producer.index()] = in;
      graph_.for_each_result(node, [&](ValueId v) { graph_.for_each_use(v, [&](UseId use) { in_[graph_[use].user.index()] = in; }); });
    }
  }

  const Graph& graph_;
  const std::vector<NodeId>& order_;
  NameId axis_;
  std::vector<bool> in_;
};

}  // namespace

std::vector<bool> region_on_axis(const Graph& graph, const std::vector<NodeId>& order, const Filter& filter, std::vector<DeviceId> devices,
                                 NameId axis, const std::string& pass) {
  std::vector<bool> region = Region(graph, order, axis).run(filter, std::move(devices), pass);
  if (std::find(region.begin(), region.end(), true) == region.end())
    throw Error(pass + ": the filter " + to_string(filter) + " matches no node on a mesh with axis '" + graph[axis] + "'");
  return region;
}

NameId axis_on_meshes(const Graph& graph, const std::string& axis, const std::string& pass) {
  std::vector<std::string> known;
  for (std::size_t i = 1; i < graph.mesh_count(); ++i)
    for (const Axis& a : graph[MeshId(i)].axes)
      if (std::find(known.begin(), known.end(), graph[a.name]) == known.end()) known.push_back(graph[a.name]);
  if (graph.mesh_count() <= 1) throw Error(pass + ": nothing is placed yet", "", "put place before " + pass);
  if (std::find(known.begin(), known.end(), axis) == known.end())
    throw Error(pass + ": no mesh has an axis '" + axis + "'; axes: " + (known.empty() ? "none" : nearest_first(axis, known)));
  return graph.find_name(axis);
}

void expect_axis_unused(const Graph& graph, const std::vector<bool>& region, NameId axis, const std::string& pass) {
  for (std::size_t i = 0; i < region.size(); ++i) {
    if (!region[i]) continue;
    graph.for_each_result(NodeId(i), [&](ValueId value) {
      const Layout& layout = graph.layout(value);
      const std::uint8_t on = static_cast<std::uint8_t>(graph[layout.mesh].axis_index(axis));
      if (layout.dim_cut_by(on) >= 0 || layout.partial_over(on))
        throw Error(pass + ": axis '" + graph[axis] + "' cuts " + describe(graph, NodeId(i)) + " already", "",
                    "let each node match one " + pass + " directive for an axis");
    });
  }
}

}  // namespace skirl
