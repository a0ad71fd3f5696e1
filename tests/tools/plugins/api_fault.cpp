// Built for another API; its ABI is wrong as well, but the API is looked at first.
#include "strategies/plugin.h"

extern "C" {
extern const skirl::Plugin skirl_plugin;
const skirl::Plugin skirl_plugin = {skirl::kPluginApi + 1, "another", nullptr};
}
