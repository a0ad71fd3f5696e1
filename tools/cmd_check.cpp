#include <chrono>
#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "ir/error.h"
#include "runtime/backends.h"
#include "tools/commands.h"
#include "tools/law1.h"
#include "tools/session.h"

namespace skirl {
namespace {

/// A graph on its way through the passes.
struct Station {
  std::string name;
  Graph graph;
  double ms = 0;
  std::string breaches;  // what verify says
};

struct Line {
  std::string name;
  std::size_t nodes = 0;
  double ms = 0;
  Deviation deviation;
};

/// The graph after each pass, up to the first that verify refuses.
std::vector<Station> stations(const Session& session, const Graph& step, const std::vector<Directive>& directives) {
  struct Refused {};
  std::vector<Station> list;
  try {
    session.rewritten(
        step, directives,
        [&](const PassReport& report) {
          Station station{report.name, *report.graph, report.pass_ms};
          for (const Breach& breach : verify(*report.graph))
            if (station.breaches.size() < 2000) station.breaches += "\n  R" + std::to_string(breach.rule) + " " + breach.message;
          list.push_back(std::move(station));
          if (!list.back().breaches.empty()) throw Refused();
        },
        false);
  } catch (const Refused&) {
  }
  return list;
}

void print_head(std::ostream& out) { out << "pass                 nodes        ms       loss   gradient      param      state\n"; }

void print_line(std::ostream& out, const Line& line) {
  char text[200];
  std::snprintf(text, sizeof text, "%-18s %7zu %9.2f %10.2e %10.2e %10.2e %10.2e\n", line.name.c_str(), line.nodes, line.ms,
                line.deviation.losses, line.deviation.gradients, line.deviation.params, line.deviation.states);
  out << text << std::flush;
}

Json to_json(const Line& line) {
  Json json;
  json["name"] = line.name;
  json["nodes"] = line.nodes;
  json["ms"] = line.ms;
  json["loss"] = line.deviation.losses;
  json["gradient"] = line.deviation.gradients;
  json["param"] = line.deviation.params;
  json["state"] = line.deviation.states;
  return json;
}

/// Prints and judges line after line.
struct Report {
  Console& console;
  double tolerance;
  double worst = 0;
  std::string guilty;
  Json lines = Json::array();

  void add(const Line& line) {
    print_line(console.text(), line);
    lines.push_back(to_json(line));
    const double found = line.deviation.max();
    if (!(found <= tolerance) && guilty.empty()) guilty = line.name;  // a NaN is no agreement
    if (!(found <= worst)) worst = found;
  }

  int conclude(const std::string& complaint) {
    char text[160];
    std::snprintf(text, sizeof text, "largest deviation %.3g, allowed %.0e\n", worst, tolerance);
    console.text() << text;
    Json document;
    document["passes"] = lines;
    document["worst"] = worst;
    document["tolerance"] = tolerance;
    document["guilty"] = guilty.empty() ? Json() : Json(guilty);
    console.write_json(document);
    if (guilty.empty()) return 0;
    console.text() << "check failed: " << complaint << "\n";
    return 1;
  }
};

Line plan_line(const Options& options, const Session& session, const Graph& graph, const Law1& law) {
  const auto start = std::chrono::steady_clock::now();
  const Plan plan = session.lowered(graph);
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return {"plan on " + options.backend, plan.graph.node_count(), ms, law.of(*backend_named(options.backend).make(plan, options.seed))};
}

}  // namespace

int cmd_check(const Options& options, Console& console) {
  const Session session(options);
  backend_named(options.backend);  // refused before anything runs
  if (options.backend == "null") throw Error("check --backend null: it computes no tensors, so there is nothing to compare");
  const Graph step = session.one_device_step();
  const std::vector<Directive> directives = session.directives(step);
  const Feed feed(options, step);
  const std::vector<Station> list = stations(session, step, directives);
  const Law1 law(
      step, [&](std::int64_t s) { return feed.inputs(s); }, static_cast<int>(options.steps), options.seed);
  law.check_finite();

  Report report{console, law1_tolerance(options.dtype)};
  print_head(console.text());
  // Interpreters are of one thread each: as many at once as there are cores, told in the order of the passes.
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::future<Deviation>> running(list.size());
  const auto start = [&](std::size_t i) {
    if (i < list.size() && list[i].breaches.empty())
      running[i] = std::async(std::launch::async, [&law, &graph = list[i].graph] { return law.of(graph); });
  };
  for (std::size_t i = 0; i < cores; ++i) start(i);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Station& station = list[i];
    if (!station.breaches.empty()) {
      console.text() << station.name << " leaves a graph that is not valid:" << station.breaches << "\n";
      report.guilty = station.name;
      return report.conclude("pass " + station.name + " breaks rules of the graph");
    }
    report.add({station.name, station.graph.node_count(), station.ms, running[i].get()});
    if (!report.guilty.empty()) return report.conclude("pass " + report.guilty + " changes what the step computes");
    start(i + cores);
  }
  if (list.size() <= directives.size()) {  // --stop-after
    console.text() << "the plan is not run: --stop-after leaves out " << directives.size() + 1 - list.size() << " passes\n";
    return report.conclude("");
  }
  report.add(plan_line(options, session, list.back().graph, law));
  return report.conclude("the plan computes another step than its graph on backend " + options.backend);
}

}  // namespace skirl
