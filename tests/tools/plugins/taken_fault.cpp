// Adds a pass whose name is taken.
#include "strategies/plugin.h"

static void add(skirl::Registry& registry) {
  registry.add(skirl::PassInfo{"split", "", {}, 0, [](skirl::Graph graph, const skirl::Directive&) { return graph; }});
}
SKIRL_PLUGIN(add)
