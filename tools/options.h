#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/type.h"
#include "passes/differentiate.h"
#include "tools/schedule_options.h"

namespace skirl {

/// What stands on the command line. The flags mean the same in every command that has them.
struct Options {
  std::string command;

  // the model and its training step
  std::string model;
  std::string strategy;  // empty: one device
  std::string mesh;      // axes of the strategy, outermost first; empty: the usual order
  std::map<std::string, std::int64_t> set;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> seq;
  std::optional<std::int64_t> layers;  // this and the four after it: a smaller model of the same family
  std::optional<std::int64_t> hidden_scale;
  std::optional<std::int64_t> heads;
  std::optional<std::int64_t> kv_heads;
  std::optional<std::int64_t> vocab;
  DType dtype = DType::F32;
  OptimizerParams optimizer;
  std::vector<std::string> plugins;
  std::string dump;
  std::optional<std::size_t> stop_after;

  // running it
  std::int64_t steps = 1;
  std::uint64_t seed = 0;
  std::string data;  // empty: random inputs
  std::string backend = "cpu";

  // what comes out
  std::string json;    // "-" is standard output
  std::string output;  // -o

  // of single commands
  std::string plan;               // run PLAN, show PLAN
  std::string kind;               // list KIND
  std::string after;              // dot
  std::string filter;             // dot
  std::vector<std::string> fold;  // dot
  bool no_fold = false;           // dot
  bool directives = false;        // show
  bool layouts = false;           // show
  bool memory = false;            // show
  ScheduleOptions schedule;       // show
};

/// Reads the command line. Gives none where help was asked for and printed. Throws Error for what cannot be understood.
std::optional<Options> parse_command_line(int argc, char** argv);

}  // namespace skirl
