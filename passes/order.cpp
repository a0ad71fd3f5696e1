#include "passes/order.h"

#include <algorithm>
#include <unordered_map>

#include "ir/error.h"

namespace skirl {
namespace {

/// Compute nodes by tag set, and tag sets by one tag, so that a cell is found without a walk over the graph.
class CellFinder {
 public:
  explicit CellFinder(const Graph& graph) : g_(graph), nodes_(graph.tag_set_count()) {
    graph.for_each_node([&](NodeId node) {
      if (is_compute(graph[node].op)) nodes_[graph[node].tags.index()].push_back(node);
    });
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!nodes_[i].empty())
        for (const Tag& tag : graph[TagSetId(i)].tags)
          if (tag.value.kind == TagValue::Kind::Integer) sets_[key(tag.name, tag.value.number)].push_back(static_cast<std::uint32_t>(i));
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!nodes_[i].empty()) all_.push_back(static_cast<std::uint32_t>(i));
  }

  /// Appends the matching compute nodes.
  void find(const Filter& filter, std::vector<NodeId>& found) {
    const std::vector<std::uint32_t>* candidates = &all_;
    static const std::vector<std::uint32_t> kNone;
    for (const FilterTerm& term : filter.terms) {
      if (term.kind != FilterTerm::Kind::Integer) continue;
      const NameId name = g_.find_name(term.tag);
      const auto it = name.valid() ? sets_.find(key(name, term.low)) : sets_.end();
      const std::vector<std::uint32_t>& sets = it == sets_.end() ? kNone : it->second;
      if (sets.size() < candidates->size()) candidates = &sets;
    }
    Matcher matches(g_, filter);
    for (const std::uint32_t set : *candidates)
      for (const NodeId node : nodes_[set])
        if (matches(node)) found.push_back(node);
  }

 private:
  static std::uint64_t key(NameId name, std::int64_t value) {
    return (static_cast<std::uint64_t>(name.index()) << 32) ^ static_cast<std::uint64_t>(value);
  }

  const Graph& g_;
  std::vector<std::vector<NodeId>> nodes_;  // by tag set
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> sets_;
  std::vector<std::uint32_t> all_;
};

std::string cell_text(const std::vector<Filter>& cell) {
  std::string text;
  for (const Filter& filter : cell) text += (text.empty() ? "" : " & ") + to_string(filter);
  return text;
}

class Ordering {
 public:
  Ordering(Graph& graph, const OrderParams& params) : g_(graph), params_(params), cell_of_(graph.node_bound(), kNone) {}

  void run() {
    find_cells();
    for (std::size_t c = 0; c + 1 < cells_.size(); ++c) fence(c);
    sort_sums();
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  void find_cells() {
    CellFinder finder(g_);
    for (std::size_t written = 0; written < params_.cells.size(); ++written) {
      const std::vector<Filter>& filters = params_.cells[written];
      std::vector<NodeId> nodes;
      const std::uint32_t c = static_cast<std::uint32_t>(cells_.size());
      for (const Filter& filter : filters) {
        const std::size_t before = nodes.size();
        finder.find(filter, nodes);
        if (nodes.size() == before && !idle(finder, filter))
          throw Error("order: cell " + std::to_string(written) + ": the filter " + to_string(filter) + " matches no compute node");
      }
      if (nodes.empty()) continue;
      for (const NodeId node : nodes) {
        if (cell_of_[node.index()] != kNone && cell_of_[node.index()] != c)
          throw Error("order: " + describe(g_, node) + " stands in cell " + std::to_string(written_[cell_of_[node.index()]]) +
                      " and in cell " + std::to_string(written));
        cell_of_[node.index()] = c;
        if (!mesh_.valid()) mesh_ = g_[node].mesh;
        if (g_[node].mesh != mesh_)
          throw Error("order: cell " + std::to_string(written) + " " + cell_text(filters) + " holds " + describe(g_, node) + " on mesh @" +
                          g_.mesh_name(g_[node].mesh) + ", the cells before are on @" + g_.mesh_name(mesh_),
                      "", "one order directive for each set of devices");
      }
      cells_.push_back(std::move(nodes));
      written_.push_back(written);
    }
  }

  /// Whether the nodes that the filter names are there and have no work of its PASS: a frozen stage has no backward.
  static bool idle(CellFinder& finder, Filter filter) {
    if (!filter.phases) return false;
    filter.phases.reset();
    std::vector<NodeId> nodes;
    finder.find(filter, nodes);
    return !nodes.empty();
  }

  bool ends_cell(NodeId node, std::uint32_t c) const {
    bool ends = true;
    g_.for_each_result(node, [&](ValueId v) { g_.for_each_use(v, [&](UseId u) { ends = ends && cell_at(g_[u].user) != c; }); });
    return ends;
  }
  bool starts_cell(NodeId node, std::uint32_t c) const {
    bool starts = true;
    g_.for_each_operand(node, [&](ValueId v, std::size_t) { starts = starts && cell_at(g_[v].producer) != c; });
    return starts;
  }
  std::uint32_t cell_at(NodeId node) const { return node.index() < cell_of_.size() ? cell_of_[node.index()] : kNone; }

  void fence(std::size_t c) {
    const NodeId fence = g_.add({Op::Fence, {}, {}, AttrsId(), g_[cells_[c].front()].phase, TagSetId(), mesh_, 0, NameId(), OriginId()});
    for (const NodeId node : cells_[c])
      if (ends_cell(node, static_cast<std::uint32_t>(c))) g_.add_order(node, fence);
    for (const NodeId node : cells_[c + 1])
      if (starts_cell(node, static_cast<std::uint32_t>(c + 1))) g_.add_order(fence, node);
  }

  /// The cell that makes a term: its producer's, looked for behind changes of layout.
  std::uint32_t cell_behind(ValueId value) const {
    NodeId node = g_[value].producer;
    while (is_communication(g_[node].op) && g_[node].operand_count > 0)
      node = g_[g_.operand(node, g_.result_index(value) < g_[node].operand_count ? g_.result_index(value) : 0)].producer;
    return cell_at(node);
  }

  void sort_sums() {
    std::vector<NodeId> sums;
    for (const auto& cell : cells_)
      for (const NodeId node : cell) g_.for_each_result(node, [&](ValueId v) { collect_sums(v, sums); });
    std::sort(sums.begin(), sums.end());
    sums.erase(std::unique(sums.begin(), sums.end()), sums.end());
    for (const NodeId sum : sums) {
      std::vector<ValueId> terms = g_.operand_list(sum);
      std::stable_sort(terms.begin(), terms.end(), [&](ValueId a, ValueId b) { return cell_behind(a) < cell_behind(b); });
      g_.set_operands(sum, terms);
    }
  }

  void collect_sums(ValueId value, std::vector<NodeId>& sums) const {
    g_.for_each_use(value, [&](UseId use) {
      const NodeId user = g_[use].user;
      if (g_[user].op == Op::Sum && g_[user].phase == Phase::U) sums.push_back(user);
      if (is_collective(g_[user].op)) collect_sums(g_.result(user), sums);
    });
  }

  Graph& g_;
  const OrderParams& params_;
  std::vector<std::uint32_t> cell_of_;  // by node
  std::vector<std::vector<NodeId>> cells_;
  std::vector<std::size_t> written_;  // by cell: its place in the list given, where cells without work stand too
  MeshId mesh_;
};

/// Nodes of one cycle among those that no topological order reaches, as "%4 = … -> %9 = … -> %4 = …".
std::string cycle_text(const Graph& graph, const std::vector<NodeId>& reached) {
  std::vector<bool> done(graph.node_bound(), false);
  for (const NodeId node : reached) done[node.index()] = true;
  NodeId at;
  graph.for_each_node([&](NodeId node) {
    if (!at.valid() && !done[node.index()]) at = node;
  });
  std::vector<NodeId> path;
  std::vector<std::int32_t> seen(graph.node_bound(), -1);
  while (seen[at.index()] < 0) {  // every unreached node has an unreached predecessor
    seen[at.index()] = static_cast<std::int32_t>(path.size());
    path.push_back(at);
    NodeId before;
    graph.for_each_operand(at, [&](ValueId v, std::size_t) {
      if (!done[graph[v].producer.index()]) before = graph[v].producer;
    });
    graph.for_each_before(at, [&](NodeId node) {
      if (!done[node.index()]) before = node;
    });
    at = before;
  }
  std::string text = describe(graph, at);
  for (std::size_t i = path.size(); i-- > static_cast<std::size_t>(seen[at.index()]);)
    if (graph[path[i]].op != Op::Fence) text += " -> " + describe(graph, path[i]);
  return text;
}

}  // namespace

Graph order(Graph graph, const OrderParams& params) {
  if (params.cells.size() < 2) throw Error("order: got " + std::to_string(params.cells.size()) + " cells, expected at least 2");
  Ordering(graph, params).run();
  const std::vector<NodeId> reached = topological_order(graph);
  if (reached.size() != graph.node_count())
    throw Error("order: the cells contradict the data: " + cycle_text(graph, reached), "",
                "put each cell after those whose results it reads");
  return graph;
}

PassInfo order_pass() {
  return {"order",
          "control edges along a list of cells, the order in which a device works",
          {{"filters", "list of cells", "", "each cell a list of filters; several in one cell are interleaved"}},
          kRankOrder,
          [](Graph graph, const Directive& d) {
            const JsonView json(d.params, d.file, d.pointer);
            json.only_keys({"filters"});
            const JsonView cells = json.at("filters");
            OrderParams params;
            for (std::size_t c = 0; c < cells.size(); ++c) {
              const JsonView cell = cells.at(c);
              if (!cell.is_array() || cell.size() == 0) cell.fail("a cell is a list of one or more filters");
              std::vector<Filter> filters;
              for (std::size_t f = 0; f < cell.size(); ++f) filters.push_back(parse_filter(cell.at(f)));
              params.cells.push_back(std::move(filters));
            }
            return order(std::move(graph), params);
          }};
}

}  // namespace skirl
