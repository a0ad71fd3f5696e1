#include <graphviz/cgraph.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "ir/builder.h"
#include "ir/text.h"
#include "tests/support/check_error.h"
#include "tests/support/placed_graphs.h"
#include "tools/draw/dot.h"

using namespace skirl;

namespace {

std::string attribute(void* object, const char* name) {
  const char* value = agget(object, const_cast<char*>(name));
  return value ? value : "";
}

/// What cgraph reads from DOT text: nodes of the graph (not the legend), and edges with their styles.
struct Parsed {
  std::set<std::string> nodes;
  std::map<std::string, std::string> shapes;
  std::map<std::pair<std::string, std::string>, std::string> edges;  // to style

  explicit Parsed(const std::string& dot) {
    Agraph_t* graph = agmemread(dot.c_str());
    REQUIRE(graph);
    for (Agnode_t* node = agfstnode(graph); node; node = agnxtnode(graph, node)) {
      const std::string name = agnameof(node);
      if (name[0] != 'n') continue;
      nodes.insert(name);
      shapes[name] = attribute(node, "shape");
      for (Agedge_t* edge = agfstout(graph, node); edge; edge = agnxtout(graph, edge))
        edges[{name, agnameof(aghead(edge))}] = attribute(edge, "style");
    }
    agclose(graph);
  }

  bool acyclic() const {
    std::map<std::string, int> waiting;
    for (const auto& [edge, style] : edges) ++waiting[edge.second];
    std::vector<std::string> ready;
    for (const std::string& node : nodes)
      if (!waiting.count(node)) ready.push_back(node);
    std::size_t done = 0;
    while (!ready.empty()) {
      const std::string node = ready.back();
      ready.pop_back();
      ++done;
      for (const auto& [edge, style] : edges)
        if (edge.first == node && --waiting[edge.second] == 0) ready.push_back(edge.second);
    }
    return done == nodes.size();
  }
};

std::string dot_name(NodeId node) { return "n" + std::to_string(node.index()); }

/// A chain of `size` nodes on two streams.
Graph long_chain(std::size_t size) {
  Graph graph;
  graph.add_stream("p2p");
  Builder builder(graph);
  ValueId value = builder.source(Op::Input, "x", {DType::F32, {4, 4}}, InputAttrs{});
  for (std::size_t i = 1; i < size; ++i) {
    builder.stream = static_cast<StreamId>(i % 2);
    builder.tags = graph.intern(TagSet{{{graph.intern("LAYER"), TagValue::integer(static_cast<std::int64_t>(i / 100))}}});
    value = builder.op(Op::Tanh, {value});
  }
  return graph;
}

}  // namespace

TEST_CASE("the DOT of a graph has its nodes and edges and no others, and no cycle") {
  for (const Graph& graph : {dp_step(), sharded_step(), pipeline_step()}) {
    const Parsed parsed(to_dot(graph));
    std::set<std::string> nodes;
    std::map<std::pair<std::string, std::string>, std::string> edges;
    graph.for_each_node([&](NodeId node) {
      nodes.insert(dot_name(node));
      graph.for_each_before(node, [&](NodeId before) { edges[{dot_name(before), dot_name(node)}] = "dashed"; });
      graph.for_each_operand(node, [&](ValueId value, std::size_t) { edges[{dot_name(graph[value].producer), dot_name(node)}] = ""; });
    });
    CHECK(parsed.nodes == nodes);
    CHECK(parsed.edges == edges);
    CHECK(parsed.acyclic());
  }
}

TEST_CASE("every send in the DOT reaches its recv, and both have shapes of their own") {
  const Graph graph = pipeline_step();
  const Parsed parsed(to_dot(graph));
  int sends = 0;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op != Op::Send) return;
    ++sends;
    CHECK(parsed.shapes.at(dot_name(node)) == "rarrow");
    bool reached = false;
    for (const auto& [edge, style] : parsed.edges)
      reached = reached || (edge.first == dot_name(node) && parsed.shapes.at(edge.second) == "larrow");
    CHECK(reached);
  });
  CHECK(sends > 0);
}

TEST_CASE("folding by a tag leaves one node for each of its values, devices and stream") {
  const Graph graph = long_chain(1000);
  const Parsed parsed(to_dot(graph, {{}, {"LAYER"}, ""}));
  CHECK(parsed.nodes.size() == 1 + 2 * 10);
  CHECK(to_dot(graph, {{}, {"LAYER"}, ""}).find("1000 nodes, folded by LAYER to 21") != std::string::npos);
}

TEST_CASE("a graph of more than 300 nodes is folded unless asked otherwise") {
  CHECK(default_fold(long_chain(300)).empty());
  CHECK(default_fold(long_chain(301)) == std::vector<std::string>{"LAYER", "PASS"});
}

TEST_CASE("a filter leaves the other nodes and their edges out, and says so") {
  const Graph graph = pipeline_step();
  DrawOptions options;
  options.filter = [&](NodeId node) { return graph[node].op == Op::Einsum; };
  const std::string dot = to_dot(graph, options);
  for (const auto& [name, shape] : Parsed(dot).shapes) CHECK(shape == "box");
  CHECK(dot.find("(filtered)") != std::string::npos);
}

TEST_CASE("the same graph gives the same DOT") { CHECK(to_dot(pipeline_step()) == to_dot(pipeline_step())); }

TEST_CASE("an SVG holds every label, and 10,000 nodes are drawn in under a second") {
  const std::string path = (std::filesystem::temp_directory_path() / ("skirl_dot_test_" + std::to_string(std::rand()) + ".svg")).string();
  write_svg(pipeline_step(), {{}, {}, "two stages"}, path);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str().find("two stages") != std::string::npos);
  CHECK(text.str().find("</svg>") != std::string::npos);
  const Graph graph = long_chain(10000);
  const auto start = std::chrono::steady_clock::now();
  write_svg(graph, {}, path);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::filesystem::remove(path);
  CHECK(seconds < 5);  // 1 s on an idle core; tests may run beside others and under sanitizers
  WARN("10,000 nodes drawn in " << seconds << " s");
}

TEST_CASE("a file that cannot be written is an error") {
  CHECK_ERROR(write_svg(pipeline_step(), {}, "/nonexistent/x.svg"), "cannot write /nonexistent/x.svg");
}
