#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "ir/error.h"
#include "strategies/compose.h"
#include "tools/commands.h"
#include "tools/session.h"

namespace skirl {
namespace {

/// Where one value lies and why.
struct LayoutRow {
  std::string op;
  std::string name;
  std::string tags;
  std::string type;
  std::string layout;
  std::int64_t most_bytes = 0;  // on the device that holds most of it
  std::string why;
};

/// What passes wrote down of why each value lies as it does: "tp follows l0.mlp.up.w; dp given".
std::unordered_map<std::uint32_t, std::string> reasons_of(const Graph& graph) {
  std::unordered_map<std::uint32_t, std::string> reasons;
  for (const LayoutReason& reason : graph.layout_reasons) {
    const NodeId producer = graph[reason.value].producer;
    if (!producer.valid()) continue;
    std::string& text = reasons[reason.value.index()];
    text += (text.empty() ? "" : "; ") + graph[reason.axis] + " " + reason.rule;
    const NodeId from = reason.from.valid() ? graph[reason.from].producer : NodeId();
    if (from.valid()) text += " " + std::string(info(graph[from].op).name) + " " + graph[graph[from].name];
  }
  return reasons;
}

LayoutRow layout_row(const Graph& graph, NodeId node, ValueId value) {
  const TensorType& type = graph.type(value);
  const Layout& layout = graph.layout(value);
  const Mesh& mesh = graph[layout.mesh];
  const bool leaves = graph[node].op == Op::Output;
  LayoutRow row{leaves ? graph.attrs<OutputAttrs>(node).kind : std::string(info(graph[node].op).name),
                graph[graph[node].name],
                to_string(graph, graph[graph[node].tags]),
                to_string(type),
                mesh.is_home() ? "@" : to_string(graph, layout, type.shape.size()),
                0,
                ""};
  for (std::int64_t p = 0; p < mesh.size(); ++p)
    row.most_bytes = std::max(row.most_bytes, elems(local_shape(mesh, layout, type.shape, p)) * size_bytes(type.dtype));
  return row;
}

Json show_layouts(const Graph& graph, std::ostream& out) {
  Json meshes = Json::array();
  for (std::size_t m = 1; m < graph.mesh_count(); ++m) {
    const MeshId id(m);
    Json mesh;
    mesh["name"] = graph.mesh_name(id);
    mesh["axes"] = axes_to_string(graph, graph[id]);
    mesh["devices"] = graph[id].devices;
    out << "mesh @" << graph.mesh_name(id) << " " << axes_to_string(graph, graph[id]) << " devices";
    for (const DeviceId device : graph[id].devices) out << " " << device;
    out << "\n";
    meshes.push_back(mesh);
  }
  const std::unordered_map<std::uint32_t, std::string> reasons = reasons_of(graph);
  Json rows = Json::array();
  const auto add = [&](NodeId node, ValueId value) {
    LayoutRow row = layout_row(graph, node, value);
    if (const auto why = reasons.find(value.index()); why != reasons.end()) row.why = why->second;
    char line[512];
    std::snprintf(line, sizeof line, "%-16s %-24s %-20s %-16s %-28s %12lld bytes a device%s%s\n", row.op.c_str(), row.name.c_str(),
                  row.tags.c_str(), row.type.c_str(), row.layout.c_str(), static_cast<long long>(row.most_bytes),
                  row.why.empty() ? "" : "  ", row.why.c_str());
    out << line;
    rows.push_back({{"op", row.op},
                    {"name", row.name},
                    {"tags", row.tags},
                    {"type", row.type},
                    {"layout", row.layout},
                    {"bytes", row.most_bytes},
                    {"why", row.why}});
  };
  for (const NodeId node : topological_order(graph)) {
    graph.for_each_result(node, [&](ValueId value) { add(node, value); });
    if (graph[node].op == Op::Output) add(node, graph.operand(node, 0));
  }
  return {{"meshes", meshes}, {"values", rows}};
}

Json show_memory(const Plan& plan, std::ostream& out) {
  Json devices = Json::array();
  out << "device   arena bytes   buffers   instructions\n";
  for (const DeviceProgram& device : plan.devices) {
    char line[128];
    std::snprintf(line, sizeof line, "%6u %13lld %9zu %14zu\n", device.device, static_cast<long long>(device.arena_bytes),
                  device.buffers.size(), device.instructions.size());
    out << line;
    devices.push_back({{"device", device.device},
                       {"arena_bytes", device.arena_bytes},
                       {"buffers", device.buffers.size()},
                       {"instructions", device.instructions.size()}});
  }
  return {{"devices", devices}};
}

Json show_summary(const Plan& plan, std::ostream& out) {
  std::map<std::string, std::size_t> counts;
  plan.graph.for_each_node([&](NodeId node) { ++counts[info(plan.graph[node].op).name]; });
  if (!plan.model.empty()) out << "model     " << plan.model << "\n";
  if (!plan.strategy.empty()) out << "strategy  " << plan.strategy << "\n";
  out << "nodes     " << plan.graph.node_count() << ":";
  for (const auto& [op, count] : counts) out << " " << op << " " << count;
  out << "\nthreads   " << plan.threads_per_kernel << " a kernel\n";
  Json document = show_memory(plan, out);
  document["model"] = plan.model;
  document["strategy"] = plan.strategy;
  document["nodes"] = plan.graph.node_count();
  document["ops"] = counts;
  document["threads_per_kernel"] = plan.threads_per_kernel;
  return document;
}

}  // namespace

int cmd_show(const Options& options, Console& console) {
  if (options.directives + options.layouts + options.memory > 1) throw Error("show takes one of --directives, --layouts and --memory");
  const Session session(options);
  std::ostream& out = console.text();
  if (!options.plan.empty()) {
    if (options.directives) throw Error("show --directives takes --model and --strategy: a plan holds no directives");
    const Plan plan = session.saved_plan();
    console.write_json(options.layouts ? show_layouts(plan.graph, out) : options.memory ? show_memory(plan, out) : show_summary(plan, out));
    return 0;
  }
  Graph step = session.one_device_step();
  step.keeps_layout_reasons = options.layouts;
  const std::vector<Directive> directives = session.directives(step);
  if (options.directives) {
    out << directives_to_text(directives);
    console.write_json(directives_to_json(directives));
    return 0;
  }
  Graph graph = session.rewritten(step, directives);
  if (options.layouts) {
    console.write_json(show_layouts(graph, out));
    return 0;
  }
  const Plan plan = session.lowered(std::move(graph));
  console.write_json(options.memory ? show_memory(plan, out) : show_summary(plan, out));
  return 0;
}

}  // namespace skirl
