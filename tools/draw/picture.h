#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tools/draw/dot.h"

/// Where everything in a picture stands, in points, y upwards.
namespace skirl::draw {

enum class Kind : std::uint8_t { Compute, Source, Output, Collective, Send, Recv, Fence };

/// One node of the picture: a node of the graph, or several that are folded.
struct Item {
  NodeId first;
  std::size_t nodes = 1;
  Kind kind = Kind::Compute;
  Phase phase = Phase::F;
  std::size_t lane = 0;
  std::vector<std::string> lines;  // of the label
  double x = 0, y = 0, width = 0, height = 0;
};

struct Edge {
  std::size_t from, to;  // items
  std::size_t count = 1;
  bool control = false;
  bool crosses = false;  // to other devices
};

/// The rows of one stream of one mesh.
struct Lane {
  MeshId mesh;
  StreamId stream = 0;
  std::string label;
  double low = 0, high = 0;
};

struct Box {
  double left = 0, low = 0, right = 0, high = 0;
};

/// All lanes of one mesh.
struct Cluster {
  MeshId mesh;
  std::string label;
  Box box;
};

struct Picture {
  std::vector<Item> items;  // in topological order of their first nodes
  std::vector<Edge> edges;
  std::vector<Lane> lanes;
  std::vector<Cluster> clusters;
  std::string note;  // what is folded or left out
  Box box;
};

Picture arrange(const Graph& graph, const DrawOptions& options);

}  // namespace skirl::draw
