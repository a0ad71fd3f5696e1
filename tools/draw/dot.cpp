#include "tools/draw/dot.h"

#include <fmt/format.h>
#include <graphviz/cgraph.h>
#include <graphviz/gvc.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "ir/error.h"
#include "tools/draw/picture.h"

namespace skirl {
namespace {

using draw::Box;
using draw::Edge;
using draw::Item;
using draw::Kind;
using draw::Picture;

struct Colours {
  const char* fill;
  const char* line;
};

Colours colours(const Item& item) {
  if (item.kind == Kind::Source) return {"#F1F3F5", "#868E96"};
  if (item.kind == Kind::Output) return {"#FFFFFF", "#495057"};
  switch (item.phase) {
    case Phase::F:
      return {"#DBE9FB", "#2F6DB5"};
    case Phase::BI:
      return {"#FDE6CF", "#D0721B"};
    case Phase::BW:
      return {"#DDF1DC", "#3B8F4A"};
    case Phase::U:
      return {"#E8DFF5", "#7A4FB5"};
  }
  return {"#FFFFFF", "#000000"};
}

const char* shape(Kind kind) {
  switch (kind) {
    case Kind::Compute:
      return "box";
    case Kind::Source:
      return "box";
    case Kind::Output:
      return "box";
    case Kind::Collective:
      return "hexagon";
    case Kind::Send:
      return "rarrow";
    case Kind::Recv:
      return "larrow";
    case Kind::Fence:
      return "diamond";
  }
  return "box";
}

/// The numbers that cgraph knows names by. Its own are addresses, and it writes clusters in their order; these are counted, so that a graph
/// always gives the same text.
struct Numbers {
  std::deque<std::string> names;  // name i has number 2 i; odd numbers stand for nameless edges
  std::unordered_map<std::string_view, IDTYPE> by_name;
  IDTYPE nameless = 1;

  static long find(void* state, int, char* name, IDTYPE* id, int create) {
    Numbers& numbers = *static_cast<Numbers*>(state);
    if (!name) {
      *id = numbers.nameless;
      numbers.nameless += 2;
      return 1;
    }
    const auto it = numbers.by_name.find(name);
    if (it == numbers.by_name.end() && !create) return 0;
    if (it != numbers.by_name.end()) {
      *id = it->second;
    } else {
      *id = numbers.names.size() * 2;
      numbers.by_name.emplace(numbers.names.emplace_back(name), *id);
    }
    return 1;
  }
  static char* text(void* state, int, IDTYPE id) { return id % 2 ? nullptr : static_cast<Numbers*>(state)->names[id / 2].data(); }
};

Agiddisc_t number_discipline = {[](Agraph_t*, Agdisc_t*) -> void* { return new Numbers; },
                                Numbers::find,
                                [](void*, int, IDTYPE) -> long { return 0; },
                                [](void*, int, IDTYPE) {},
                                Numbers::text,
                                [](void* state) { delete static_cast<Numbers*>(state); },
                                [](void*, int, void*) {}};

/// A cgraph graph, closed at the end. cgraph takes char*, but writes to none of the strings.
class Drawing {
 public:
  Drawing() {
    Agdisc_t disciplines = {&AgMemDisc, &number_discipline, &AgIoDisc};
    graph_ = agopen(text("skirl"), Agdirected, &disciplines);
  }
  ~Drawing() { agclose(graph_); }
  Drawing(const Drawing&) = delete;
  Drawing& operator=(const Drawing&) = delete;

  Agraph_t* get() { return graph_; }
  void defaults(int kind, const char* name, const char* value) { agattr(graph_, kind, text(name), text(value)); }
  void set(void* object, const char* name, const std::string& value) { agsafeset(object, text(name), text(value.c_str()), text("")); }
  Agnode_t* node(const std::string& name) { return agnode(graph_, text(name.c_str()), 1); }
  Agedge_t* edge(Agnode_t* from, Agnode_t* to) { return agedge(graph_, from, to, nullptr, 1); }
  Agraph_t* subgraph(const std::string& name) { return agsubg(graph_, text(name.c_str()), 1); }

 private:
  static char* text(const char* s) { return const_cast<char*>(s); }
  Agraph_t* graph_;
};

std::string point(double x, double y) { return fmt::format("{:.1f},{:.1f}", x, y); }
std::string box_text(const Box& box) { return fmt::format("{:.1f},{:.1f},{:.1f},{:.1f}", box.left, box.low, box.right, box.high); }
std::string inches(double points) { return fmt::format("{:.3f}", points / 72); }

/// An edge leaves to the right and comes in from the left; one that jumps over neighbours in its row, or goes back, bows over them.
std::string spline(const Item& from, const Item& to) {
  const double x0 = from.x + from.width / 2, x1 = to.x - to.width / 2 - 5;
  const double distance = x1 - x0;
  const double end = to.x - to.width / 2;
  if (distance < 0) {
    const double bow = std::max(from.height, to.height) * 0.9;
    return fmt::format("e,{} {} {} {} {}", point(end, to.y), point(x0, from.y), point(x0 + 40, from.y + bow), point(x1 - 40, to.y + bow),
                       point(x1, to.y));
  }
  const double bow = std::abs(from.y - to.y) < 1 && distance > 40 ? std::min(34 + distance * 0.02, 60.0) : 0;
  const double reach = std::min(std::max(distance * 0.5, 10.0), 90.0);
  return fmt::format("e,{} {} {} {} {}", point(end, to.y), point(x0, from.y), point(x0 + reach, from.y + bow),
                     point(x1 - reach, to.y + bow), point(x1, to.y));
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

/// A label that stands free, its left end at x.
void add_text(Drawing& drawing, const std::string& name, const std::string& label, double x, double y, double size, const char* colour,
              bool bold) {
  Agnode_t* node = drawing.node(name);
  const double width = static_cast<double>(label.size()) * size * 0.55 + 8;
  drawing.set(node, "shape", "plaintext");
  drawing.set(node, "style", "");
  drawing.set(node, "label", label + "\\l");
  drawing.set(node, "fontsize", fmt::format("{}", size));
  drawing.set(node, "fontcolor", colour);
  if (bold) drawing.set(node, "fontname", "Helvetica-Bold,Arial,sans-serif");
  drawing.set(node, "width", inches(width));
  drawing.set(node, "height", inches(size + 6));
  drawing.set(node, "pos", point(x + width / 2, y));
}

void add_legend(Drawing& drawing, const Picture& picture, const std::string& title) {
  add_text(drawing, "title", title.empty() ? picture.note : title + "  \u00B7  " + picture.note, 16, picture.box.high - 14, 13, "#212529",
           true);
  struct Entry {
    const char* label;
    Kind kind;
    Phase phase;
  };
  double x = 24;
  const double y = picture.box.high - 44;
  int number = 0;
  for (const Entry& entry :
       {Entry{"forward", Kind::Compute, Phase::F}, Entry{"backward, inputs", Kind::Compute, Phase::BI},
        Entry{"backward, weights", Kind::Compute, Phase::BW}, Entry{"update", Kind::Compute, Phase::U},
        Entry{"input, parameter, state", Kind::Source, Phase::F}, Entry{"output", Kind::Output, Phase::U},
        Entry{"collective", Kind::Collective, Phase::F}, Entry{"send", Kind::Send, Phase::F}, Entry{"recv", Kind::Recv, Phase::F}}) {
    Agnode_t* node = drawing.node("legend" + std::to_string(number++));
    const Item sample{NodeId{}, 1, entry.kind, entry.phase, 0, {}, 0, 0, 0, 0};
    const bool wide = entry.kind == Kind::Collective || entry.kind == Kind::Send || entry.kind == Kind::Recv;
    const double width = static_cast<double>(std::string(entry.label).size()) * 5.2 + (wide ? 38 : 16);
    drawing.set(node, "shape", shape(entry.kind));
    drawing.set(node, "label", entry.label);
    drawing.set(node, "fillcolor", colours(sample).fill);
    drawing.set(node, "color", colours(sample).line);
    drawing.set(node, "width", inches(width));
    drawing.set(node, "height", inches(wide ? 28 : 18));
    drawing.set(node, "pos", point(x + width / 2, y));
    x += width + 10;
  }
}

void set_defaults(Drawing& drawing, const Picture& picture) {
  const char* fonts = "Helvetica,Arial,sans-serif";
  for (const auto& [name, value] : {std::pair{"bgcolor", "#FFFFFF"},
                                    {"splines", "true"},
                                    {"outputorder", "edgesfirst"},
                                    {"fontname", fonts},
                                    {"pad", "0.1"},
                                    {"bb", ""},
                                    {"label", ""},
                                    {"lp", ""},
                                    {"style", ""},
                                    {"fillcolor", ""},
                                    {"pencolor", ""},
                                    {"fontsize", "10"}})
    drawing.defaults(AGRAPH, name, value);
  for (const auto& [name, value] : {std::pair{"shape", "box"},
                                    {"style", "filled,rounded"},
                                    {"fontname", fonts},
                                    {"fontsize", "9"},
                                    {"fontcolor", "#212529"},
                                    {"fixedsize", "true"},
                                    {"penwidth", "1.1"},
                                    {"margin", "0"},
                                    {"label", ""},
                                    {"pos", ""},
                                    {"width", ""},
                                    {"height", ""},
                                    {"color", "#000000"},
                                    {"fillcolor", "#FFFFFF"},
                                    {"class", ""}})
    drawing.defaults(AGNODE, name, value);
  for (const auto& [name, value] : {std::pair{"color", "#868E96"},
                                    {"penwidth", "0.8"},
                                    {"arrowsize", "0.5"},
                                    {"fontname", fonts},
                                    {"fontsize", "8"},
                                    {"fontcolor", "#868E96"},
                                    {"style", ""},
                                    {"pos", ""},
                                    {"label", ""},
                                    {"lp", ""}})
    drawing.defaults(AGEDGE, name, value);
  drawing.set(drawing.get(), "bb", box_text(picture.box));
}

void fill(Drawing& drawing, const Graph& graph, const Picture& picture, const std::string& title) {
  set_defaults(drawing, picture);
  add_legend(drawing, picture, title);
  std::vector<Agraph_t*> cluster_of_mesh(graph.mesh_count(), nullptr);
  for (const draw::Cluster& cluster : picture.clusters) {
    Agraph_t* sub = drawing.subgraph("cluster_" + std::to_string(cluster.mesh.index()));
    cluster_of_mesh[cluster.mesh.index()] = sub;
    drawing.set(sub, "bb", box_text(cluster.box));
    drawing.set(sub, "style", "filled,rounded");
    drawing.set(sub, "fillcolor", "#FAFBFC");
    drawing.set(sub, "pencolor", "#CED4DA");
  }
  for (std::size_t l = 0; l < picture.lanes.size(); ++l) {
    const draw::Lane& lane = picture.lanes[l];
    std::string label = lane.label;
    for (const draw::Cluster& cluster : picture.clusters)
      if (cluster.mesh == lane.mesh && (l == 0 || picture.lanes[l - 1].mesh != lane.mesh)) label += "   " + cluster.label;
    add_text(drawing, "lane" + std::to_string(l), label, 22, lane.high + 9, 11, "#495057", true);
  }
  std::vector<Agnode_t*> nodes;
  nodes.reserve(picture.items.size());
  for (const Item& item : picture.items) {
    Agnode_t* node = drawing.node("n" + std::to_string(item.first.index()));
    nodes.push_back(node);
    drawing.set(node, "label", joined(item.lines));
    if (item.kind != Kind::Compute) drawing.set(node, "shape", shape(item.kind));
    if (item.kind == Kind::Compute || item.kind == Kind::Output) drawing.set(node, "style", "filled");
    if (item.nodes > 1) drawing.set(node, "penwidth", "1.8");
    const Colours colour = colours(item);
    drawing.set(node, "fillcolor", item.kind == Kind::Fence ? "#ADB5BD" : colour.fill);
    drawing.set(node, "color", colour.line);
    drawing.set(node, "class", std::string(name(item.phase)));
    drawing.set(node, "width", inches(item.width));
    drawing.set(node, "height", inches(item.height));
    drawing.set(node, "pos", point(item.x, item.y));
    agsubnode(cluster_of_mesh[picture.lanes[item.lane].mesh.index()], node, 1);
  }
  for (const Edge& e : picture.edges) {
    const Item& from = picture.items[e.from];
    const Item& to = picture.items[e.to];
    Agedge_t* edge = drawing.edge(nodes[e.from], nodes[e.to]);
    drawing.set(edge, "pos", spline(from, to));
    if (e.control) {
      drawing.set(edge, "style", "dashed");
      drawing.set(edge, "color", "#ADB5BD");
    } else if (e.crosses) {
      drawing.set(edge, "penwidth", "1.6");
      drawing.set(edge, "color", "#C92A2A");
    }
    if (e.count > 1) {
      drawing.set(edge, "label", "x" + std::to_string(e.count));
      drawing.set(edge, "lp", point((from.x + from.width / 2 + to.x - to.width / 2) / 2, (from.y + to.y) / 2 + 7));
    }
  }
}

struct Closer {
  void operator()(GVC_t* context) const { gvFreeContext(context); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::string to_dot(const Graph& graph, const DrawOptions& options) {
  const Picture picture = draw::arrange(graph, options);
  Drawing drawing;
  fill(drawing, graph, picture, options.title);
  char* memory = nullptr;
  std::size_t size = 0;
  std::unique_ptr<std::FILE, Closer> file(open_memstream(&memory, &size));
  SKIRL_CHECK(file, "no memory for a stream");
  agwrite(drawing.get(), file.get());
  file.reset();
  std::string text(memory, size);
  std::free(memory);
  return text;
}

void write_svg(const Graph& graph, const DrawOptions& options, const std::string& path) {
  const Picture picture = draw::arrange(graph, options);
  Drawing drawing;
  fill(drawing, graph, picture, options.title);
  const std::unique_ptr<std::FILE, Closer> file(std::fopen(path.c_str(), "w"));
  if (!file) throw Error("cannot write " + path);
  const std::unique_ptr<GVC_t, Closer> context(gvContext());
  const bool laid_out = gvLayout(context.get(), drawing.get(), "nop2") == 0;
  const bool drawn = laid_out && gvRender(context.get(), drawing.get(), "svg", file.get()) == 0;
  if (laid_out) gvFreeLayout(context.get(), drawing.get());
  if (!drawn || std::fflush(file.get()) != 0) throw Error("cannot write " + path + ": Graphviz did not draw the graph as SVG");
}

}  // namespace skirl
