#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/json.h"
#include <nlohmann/json.hpp>

namespace skirl {

/// One line of a strategy: the name of a pass and its parameters as JSON (without "op").
struct Directive {
  std::string op;
  Json params = Json::object();
  std::string file;     // where it was written, for messages
  std::string pointer;  // JSON pointer in that file
};

struct ParamInfo {
  std::string name;
  std::string type;      // "filter", "devices", "integer", "bool", "word", …
  std::string fallback;  // its default; empty: it must be given
  std::string help;
};

/// An entry of the pass table. `rank` is its place in the legal order; passes of one rank may stand in any order.
struct PassInfo {
  std::string name;
  std::string help;
  std::vector<ParamInfo> params;
  int rank = 0;
  std::function<Graph(Graph, const Directive&)> run;
  std::string origin = "built-in";  // or the plugin it comes from
};

/// partition 10, split 20, place 30, layouts 40 (shard_tensor), storage 45 (replicate: what ZeRO stores lies within what is computed with),
/// recompute 50, order 60, bucket, prefetch, fuse 70.
inline constexpr int kRankPartition = 10;
inline constexpr int kRankSplit = 20;
inline constexpr int kRankPlace = 30;
inline constexpr int kRankLayout = 40;
inline constexpr int kRankStorage = 45;
inline constexpr int kRankRecompute = 50;
inline constexpr int kRankOrder = 60;
inline constexpr int kRankLate = 70;

}  // namespace skirl
