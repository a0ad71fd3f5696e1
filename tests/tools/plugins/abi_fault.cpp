// Built by another compiler.
#include "strategies/plugin.h"

extern "C" {
extern const skirl::Plugin skirl_plugin;
const skirl::Plugin skirl_plugin = {skirl::kPluginApi, "skirl 0.0.1, another compiler", nullptr};
}
