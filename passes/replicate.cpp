#include "passes/replicate.h"

#include <algorithm>

#include "ir/error.h"
#include "passes/fold_changes.h"
#include "passes/propagate.h"
#include "passes/region.h"
#include "passes/relayout.h"

namespace skirl {
namespace {

std::int64_t degree_on(const Mesh& mesh, NameId axis) { return mesh.axes[static_cast<std::size_t>(mesh.axis_index(axis))].size; }

/// What every device holds at least of a value, by dimension.
Shape least_piece(const Mesh& mesh, const Layout& layout, Shape shape) {
  for (std::size_t d = 0; d < layout.dims.size(); ++d)
    for (const std::uint8_t axis : layout.dims[d].axes) shape[d] /= mesh.axes[axis].size;
  return shape;
}

bool splits_work(const Graph& graph, NameId axis) {
  for (std::size_t i = 1; i < graph.mesh_count(); ++i)
    if (graph[MeshId(i)].axis_index(axis) >= 0 && degree_on(graph[MeshId(i)], axis) > 1) return true;
  return false;
}

}  // namespace

std::optional<std::size_t> storage_dim(const Shape& shape, std::int64_t parts) {
  if (shape.empty()) return std::nullopt;
  std::size_t best = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] >= parts) return d;
    if (shape[d] > shape[best]) best = d;
  }
  return best;
}

Graph replicate(Graph graph, const ReplicateParams& params) {
  const NameId axis = axis_on_meshes(graph, params.axis, "replicate");
  const bool params_too = params.shard_params;
  const bool grads_too = params_too || params.shard_grads;
  const bool states_too = grads_too || params.shard_optimizer;

  Rules rules(graph);
  PropagateParams along;
  along.axis = axis;
  along.region = region_on_axis(graph, topological_order(graph), params.filter, params.devices, axis, "replicate");
  expect_axis_unused(graph, along.region, axis, "replicate");
  const auto stored = [&](ValueId value, bool cut) {
    const Mesh& mesh = graph[graph.layout(value).mesh];
    const std::optional<std::size_t> dim =
        storage_dim(least_piece(mesh, graph.layout(value), graph.type(value).shape), degree_on(mesh, axis));
    return cut && dim ? AxisState::shard(*dim, AxisState::Use::Storage) : AxisState::replicate();
  };
  along.source = [&](NodeId node) {
    const Node& n = graph[node];
    if (n.op == Op::Param) return stored(graph.result(node), params_too);
    if (n.op == Op::State) return stored(graph.result(node), states_too);
    if (n.op == Op::Output) return stored(graph.operand(node, 0), graph.attrs<OutputAttrs>(node).kind == "param" ? params_too : states_too);
    const InputAttrs& attrs = graph.attrs<InputAttrs>(node);
    return attrs.cut ? AxisState::shard(static_cast<std::size_t>(*attrs.cut)) : AxisState::replicate();
  };
  along.update = [&](NodeId node) { return stored(graph.operand(node, 0), states_too); };
  along.reduce_before_sum = grads_too;
  const Propagation plan = propagate(graph, rules, along);
  RelayoutParams changes;
  changes.axis = axis;
  changes.gather_stream = graph.add_stream(params.gather_stream);
  changes.reduce_stream = graph.add_stream(params.reduce_stream);
  if (params.bucket_size) changes.tag = Tag{graph.intern("BUCKET"), TagValue::integer(*params.bucket_size)};
  const std::size_t changed = relayout(graph, plan, changes);
  fold_changes(graph, axis);
  if (changed == 0 && splits_work(graph, axis))
    throw Error("replicate: nothing can be cut over axis '" + params.axis + "': no input of the region has a batch dimension", "",
                "mark one in the model: input … cut 0");
  return graph;
}

PassInfo replicate_pass() {
  return {"replicate",
          "data parallelism over a mesh axis, with the ZeRO switches",
          {{"filter", "filter", "{}", "which nodes"},
           {"axis", "word", "\"dp\"", "the mesh axis"},
           {"devices", "list of devices", "any", "the devices of the mesh, as Piper files say it"},
           {"shard_optimizer", "bool", "false", "ZeRO-1: store optimizer states in parts"},
           {"shard_grads", "bool", "false", "ZeRO-2: gradients too"},
           {"shard_params", "bool", "false", "ZeRO-3: parameters too"},
           {"bucket_size", "count", "none", "MB that communication is gathered into, a wish for bucket"},
           {"gather_stream", "word", "\"gather\"", "stream of the gathers"},
           {"reduce_stream", "word", "\"reduce\"", "stream of the reductions"}},
          kRankStorage,
          [](Graph graph, const Directive& d) {
            const JsonView json(d.params, d.file, d.pointer);
            json.only_keys({"filter", "axis", "devices", "shard_optimizer", "shard_grads", "shard_params", "bucket_size", "gather_stream",
                            "reduce_stream"});
            ReplicateParams params;
            if (json.has("filter")) params.filter = parse_filter(json.at("filter"));
            if (json.has("axis")) params.axis = json.at("axis").string();
            if (json.has("devices"))
              for (std::size_t i = 0; i < json.at("devices").size(); ++i)
                params.devices.push_back(static_cast<DeviceId>(json.at("devices").at(i).integer(0, 1 << 24)));
            if (json.has("shard_optimizer")) params.shard_optimizer = json.at("shard_optimizer").boolean();
            if (json.has("shard_grads")) params.shard_grads = json.at("shard_grads").boolean();
            if (json.has("shard_params")) params.shard_params = json.at("shard_params").boolean();
            if (json.has("bucket_size")) params.bucket_size = json.at("bucket_size").count();
            if (json.has("gather_stream")) params.gather_stream = json.at("gather_stream").string();
            if (json.has("reduce_stream")) params.reduce_stream = json.at("reduce_stream").string();
            return replicate(std::move(graph), params);
          }};
}

}  // namespace skirl
