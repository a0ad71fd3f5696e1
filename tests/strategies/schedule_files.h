#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "strategies/schedule.h"

/// A text file of tests/data/schedules/; one that is missing fails the test.
inline std::string schedule_text(const std::string& name) {
  std::ifstream in(SKIRL_TEST_DATA "/schedules/" + name, std::ios::binary);
  if (!in) throw std::runtime_error("no golden schedule " + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// An entry of the index: what a public generator printed, and what it costs in unit times.
struct GoldenSchedule {
  std::string name;
  std::string family;
  skirl::ScheduleParams params;
  std::int64_t stages_per_rank = 1;
  double makespan = 0, bubble = 0, span_bubble = 0;
  std::vector<std::int64_t> peak_activations;
  skirl::Placement placement;
  double fast_pairs_makespan = 0;    // where a pair takes 2 instead of 3; 0: there are none
  std::vector<std::string> lowered;  // forms with transfers
};

inline std::vector<GoldenSchedule> golden_schedules() {
  std::vector<GoldenSchedule> list;
  for (const auto& e : nlohmann::json::parse(schedule_text("index.json"))) {
    GoldenSchedule g;
    g.name = e.at("name");
    g.family = e.at("family");
    g.params.ranks = e.at("ranks");
    g.params.microbatches = e.at("microbatches");
    g.stages_per_rank = e.at("stages_per_rank");
    g.makespan = e.at("makespan");
    g.bubble = e.at("bubble_time");
    g.span_bubble = e.at("span_bubble");
    g.peak_activations = e.at("peak_activations").get<std::vector<std::int64_t>>();
    g.placement.rank = e.at("placement").get<std::vector<std::int64_t>>();
    if (e.contains("reverse")) {
      g.placement.reverse_rank = e.at("reverse").get<std::vector<std::int64_t>>();
      g.placement.reverse_from = e.at("reverse_from");
    }
    if (e.contains("group")) g.params.group = e.at("group").get<std::int64_t>();
    if (e.contains("parts")) g.params.sequence_parts = e.at("parts").get<std::int64_t>();
    if (e.contains("memory")) g.params.memory = e.at("memory").get<std::int64_t>();
    if (e.contains("fast_pairs")) g.fast_pairs_makespan = e.at("fast_pairs");
    if (e.contains("lowered")) g.lowered = e.at("lowered").get<std::vector<std::string>>();
    list.push_back(std::move(g));
  }
  return list;
}
