#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "ir/error.h"
#include "passes/filter.h"
#include "tools/commands.h"
#include "tools/draw/dot.h"
#include "tools/session.h"

namespace skirl {
namespace {

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// The graph after the pass that --after names (the last of that name), or after all.
Graph wanted_graph(const Options& options, const Session& session) {
  const Graph step = session.one_device_step();
  const std::vector<Directive> directives = session.directives(step);
  if (options.after.empty()) return session.rewritten(step, directives);
  std::optional<Graph> wanted;
  std::vector<std::string> passes;
  session.rewritten(step, directives, [&](const PassReport& report) {
    passes.push_back(report.name);
    if (report.name == options.after) wanted = *report.graph;
  });
  if (!wanted)
    throw Error("--after: no pass '" + options.after.substr(0, 64) + "' ran; those that did: " + nearest_first(options.after, passes));
  return std::move(*wanted);
}

/// Throws Error for a tag that no node has.
void check_tags(const Graph& graph, const std::vector<std::string>& tags) {
  std::set<std::string> known{"PASS"};
  graph.for_each_node([&](NodeId node) {
    for (const Tag& tag : graph[graph[node].tags].tags) known.insert(graph[tag.name]);
  });
  for (const std::string& tag : tags)
    if (known.count(tag) == 0)
      throw Error("--fold: no node has the tag '" + tag.substr(0, 64) + "'; known: " + nearest_first(tag, {known.begin(), known.end()}));
}

}  // namespace

int cmd_dot(const Options& options, Console& console) {
  const bool svg = ends_with(options.output, ".svg");
  if (options.output.empty() && options.json == "-") throw Error("dot --json - needs -o: standard output would be two things");
  if (!options.output.empty() && !svg && !ends_with(options.output, ".dot"))
    throw Error("-o is " + options.output + ", expected a name that ends in .dot or .svg");
  if (options.no_fold && !options.fold.empty()) throw Error("dot takes --fold or --no-fold, not both");
  std::unique_ptr<OutputFile> file;
  if (!options.output.empty()) file = std::make_unique<OutputFile>(options.output);

  const Session session(options);
  const Graph graph = wanted_graph(options, session);
  check_tags(graph, options.fold);
  DrawOptions draw;
  draw.title = options.model + (options.strategy.empty() ? "" : ", " + options.strategy);
  draw.fold = options.fold;
  std::ostream& notes = file ? console.text() : console.notes();
  if (options.fold.empty() && !options.no_fold) {
    draw.fold = default_fold(graph);
    if (!draw.fold.empty()) {
      std::string tags;
      for (const std::string& tag : draw.fold) tags += (tags.empty() ? "" : ",") + tag;
      notes << graph.node_count() << " nodes are more than " << kFoldAbove << ": folded by " << tags
            << " (--fold TAG,… for others, --no-fold for none)\n";
    }
  }
  // The filter and the matcher that refers to it live as long as the drawing.
  Json filter_json = Json::object();
  if (!options.filter.empty()) filter_json = parse_json(options.filter, "--filter");
  const Filter filter = parse_filter(JsonView(filter_json, "--filter"));
  Matcher matches(graph, filter);
  if (!options.filter.empty()) draw.filter = [&](NodeId node) { return matches(node); };

  if (!file) {
    std::cout << to_dot(graph, draw);
  } else if (svg) {
    write_svg(graph, draw, file->temporary_path());
    file->commit();
  } else {
    file->write(to_dot(graph, draw));
  }
  if (file) notes << file->path() << ": " << graph.node_count() << " nodes\n";
  Json document;
  document["nodes"] = graph.node_count();
  document["file"] = file ? Json(file->path()) : Json();
  document["fold"] = draw.fold;
  console.write_json(document);
  return 0;
}

}  // namespace skirl
