// Fails while it adds its entries.
#include <stdexcept>

#include "strategies/plugin.h"

static void add(skirl::Registry&) { throw std::runtime_error("no licence"); }
SKIRL_PLUGIN(add)
