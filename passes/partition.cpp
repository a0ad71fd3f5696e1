#include "passes/partition.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "ir/error.h"

namespace skirl {
namespace {

constexpr std::int32_t kUnknown = -1;
constexpr std::int32_t kSeveral = -2;  // its terms come from several stages

/// Layer numbers, ascending, of the nodes that have the tag.
std::vector<std::int64_t> layers_of(const Graph& graph, NameId tag) {
  std::vector<char> used(graph.tag_set_count(), 0);
  graph.for_each_node([&](NodeId node) { used[graph[node].tags.index()] = 1; });
  std::vector<std::int64_t> layers;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    const TagValue* value = graph[TagSetId(i)].find(tag);
    if (value != nullptr && value->kind == TagValue::Kind::Integer) layers.push_back(value->number);
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

std::vector<std::int64_t> stage_sizes(const PartitionParams& params, std::size_t layers) {
  const std::int64_t count = static_cast<std::int64_t>(layers);
  if (params.sizes.empty()) {
    if (params.stages > count)
      throw Error("partition: " + std::to_string(params.stages) + " stages of " + std::to_string(count) + " layers leave stage " +
                      std::to_string(count) + " without layers",
                  "", "at most " + std::to_string(count) + " stages");
    std::vector<std::int64_t> sizes;
    for (std::int64_t s = 0; s < params.stages; ++s) sizes.push_back(piece({0, count}, params.stages, s).size());
    return sizes;
  }
  const std::int64_t total = std::accumulate(params.sizes.begin(), params.sizes.end(), std::int64_t{0});
  if (total != count)
    throw Error("partition: the sizes add up to " + std::to_string(total) + " layers, the model has " + std::to_string(count));
  if (const auto zero = std::find(params.sizes.begin(), params.sizes.end(), 0); zero != params.sizes.end())
    throw Error("partition: stage " + std::to_string(zero - params.sizes.begin()) + " has no layers");
  return params.sizes;
}

class Stages {
 public:
  Stages(const Graph& graph, NameId tag, const std::vector<std::int64_t>& layers, const std::vector<std::int64_t>& sizes)
      : graph_(graph), order_(topological_order(graph)), stage_(graph.node_bound(), kUnknown) {
    std::unordered_map<std::int64_t, std::int32_t> of_layer;
    std::size_t next = 0;
    for (std::size_t s = 0; s < sizes.size(); ++s)
      for (std::int64_t i = 0; i < sizes[s]; ++i) of_layer[layers[next++]] = static_cast<std::int32_t>(s);
    std::vector<std::int32_t> of_tags(graph.tag_set_count(), kUnknown);
    for (std::size_t i = 0; i < of_tags.size(); ++i) {
      const TagValue* value = graph[TagSetId(i)].find(tag);
      if (value != nullptr && value->kind == TagValue::Kind::Integer && of_layer.count(value->number) != 0)
        of_tags[i] = of_layer[value->number];
    }
    for (const NodeId node : order_)
      if (works(node)) stage_[node.index()] = of_tags[graph[node].tags.index()];
  }

  std::vector<std::int32_t> run() {
    forward_by_data();
    backward_by_name();
    sources_by_readers();
    updates_by_operands();
    return std::move(stage_);
  }

 private:
  bool works(NodeId node) const { return graph_[node].phase != Phase::U && !is_signature(graph_[node].op); }
  std::int32_t& stage(NodeId node) { return stage_[node.index()]; }

  void forward_by_data() {
    for (const NodeId node : order_) {
      if (!works(node) || graph_[node].phase != Phase::F || stage(node) != kUnknown) continue;
      graph_.for_each_operand(node, [&](ValueId v, std::size_t) { stage(node) = std::max(stage(node), stage(graph_[v].producer)); });
    }
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const NodeId node = *it;
      if (!works(node) || graph_[node].phase != Phase::F || stage(node) != kUnknown) continue;
      graph_.for_each_result(node, [&](ValueId v) {
        graph_.for_each_use(v, [&](UseId u) {
          const NodeId user = graph_[u].user;
          if (!works(user) || graph_[user].phase != Phase::F || stage(user) < 0) return;
          stage(node) = stage(node) == kUnknown ? stage(user) : std::min(stage(node), stage(user));
        });
      });
      if (stage(node) == kUnknown) stage(node) = 0;
    }
  }

  void backward_by_name() {
    std::vector<std::int32_t> by_name(graph_.name_count(), kUnknown);
    for (const NodeId node : order_)
      if (works(node) && graph_[node].phase == Phase::F && graph_[node].name.valid()) by_name[graph_[node].name.index()] = stage(node);
    for (const NodeId node : order_) {
      if (!works(node) || graph_[node].phase == Phase::F || stage(node) != kUnknown) continue;
      if (graph_[node].name.valid()) stage(node) = by_name[graph_[node].name.index()];
      if (stage(node) == kUnknown)
        throw Error("partition: " + describe(graph_, node) + " has neither a layer nor the name of a forward node, so it has no stage");
    }
  }

  void sources_by_readers() {
    for (const NodeId node : order_) {
      if (!is_signature(graph_[node].op) || graph_[node].op == Op::Output) continue;
      std::int32_t common = kUnknown;
      graph_.for_each_use(graph_.result(node), [&](UseId u) {
        const std::int32_t s = stage(graph_[u].user);
        if (works(graph_[u].user)) common = common == kUnknown || common == s ? s : kSeveral;
      });
      stage(node) = common;
    }
  }

  /// The first operand decides (a gradient before a coefficient, a parameter before its gradient); a sum has the stage that all its terms
  /// have.
  void updates_by_operands() {
    for (const NodeId node : order_) {
      const bool update = !works(node) && (graph_[node].op == Op::Output || !is_signature(graph_[node].op));
      if (!update || graph_[node].operand_count == 0) continue;
      std::int32_t common = stage(graph_[graph_.operand(node, 0)].producer);
      if (graph_[node].op == Op::Sum)
        graph_.for_each_operand(node, [&](ValueId v, std::size_t) { common = stage(graph_[v].producer) == common ? common : kSeveral; });
      stage(node) = common;
    }
    for (const NodeId node : order_)  // a state goes with its update
      if (graph_[node].op == Op::State) graph_.for_each_use(graph_.result(node), [&](UseId u) { stage(node) = stage(graph_[u].user); });
  }

  const Graph& graph_;
  std::vector<NodeId> order_;
  std::vector<std::int32_t> stage_;
};

}  // namespace

Graph partition(Graph graph, const PartitionParams& params) {
  const NameId tag = graph.find_name(params.tag);
  const std::vector<std::int64_t> layers = layers_of(graph, tag);
  if (layers.empty())
    throw Error("partition: no node has an integer tag " + params.tag, "", "tag the layers of the model, for example LAYER=0");
  const std::vector<std::int64_t> sizes = stage_sizes(params, layers.size());
  const std::vector<std::int32_t> stage = Stages(graph, tag, layers, sizes).run();
  const NameId into = graph.intern(params.into);
  std::unordered_map<std::uint64_t, TagSetId> tagged;
  for (std::size_t i = 0; i < stage.size(); ++i) {
    const NodeId node(i);
    if (!graph.alive(node) || stage[i] < 0) continue;
    const auto [it, fresh] =
        tagged.try_emplace((static_cast<std::uint64_t>(graph[node].tags.index()) << 32) | static_cast<std::uint32_t>(stage[i]));
    if (fresh) it->second = graph.intern(with_tag(graph[graph[node].tags], {into, TagValue::integer(stage[i])}));
    graph[node].tags = it->second;
  }
  return graph;
}

PassInfo partition_pass() {
  return {"partition",
          "gives layers a stage tag, by count or by an explicit list",
          {{"tag", "word", "\"LAYER\"", "what numbers the layers"},
           {"into", "word", "\"PP\"", "the stage tag"},
           {"stages", "count", "as many as sizes", "how many stages"},
           {"sizes", "list of counts", "equal", "layers of each stage"}},
          kRankPartition,
          [](Graph graph, const Directive& d) {
            const JsonView json(d.params, d.file, d.pointer);
            json.only_keys({"tag", "into", "stages", "sizes"});
            PartitionParams params;
            if (json.has("tag")) params.tag = json.at("tag").string();
            if (json.has("into")) params.into = json.at("into").string();
            if (params.into == "PASS") json.at("into").fail("into is \"PASS\", which filters read as the phase", "use \"PP\"");
            if (params.into == params.tag) json.fail("into and tag are both \"" + params.tag + "\": the stages would overwrite the layers");
            if (json.has("sizes")) {
              const JsonView sizes = json.at("sizes");
              for (std::size_t i = 0; i < sizes.size(); ++i) params.sizes.push_back(sizes.at(i).count());
              params.stages = static_cast<std::int64_t>(params.sizes.size());
              if (json.has("stages") && json.at("stages").count() != params.stages)
                json.at("stages").fail("stages is " + std::to_string(json.at("stages").count()) + ", but sizes lists " +
                                       std::to_string(params.stages));
            } else {
              params.stages = json.at("stages").count();
            }
            return partition(std::move(graph), params);
          }};
}

}  // namespace skirl
