#include "ir/error.h"
#include "tools/commands.h"
#include "tools/session.h"

#include <nlohmann/json.hpp>

namespace skirl {

int cmd_plan(const Options& options, Console& console) {
  OutputFile file(options.output);
  const Session session(options);
  const Graph step = session.one_device_step();
  const Plan plan = session.lowered(session.rewritten(step, session.directives(step)));
  const std::string text = print(plan);
  file.write(text);

  std::size_t instructions = 0;
  std::int64_t most_bytes = 0;
  for (const DeviceProgram& device : plan.devices) {
    instructions += device.instructions.size();
    most_bytes = std::max(most_bytes, device.arena_bytes);
  }
  console.text() << file.path() << ": " << plan.devices.size() << " devices, " << instructions << " instructions, at most " << most_bytes
                 << " bytes on a device\n";
  Json document;
  document["plan"] = file.path();
  document["devices"] = plan.devices.size();
  document["nodes"] = plan.graph.node_count();
  document["instructions"] = instructions;
  document["arena_bytes"] = most_bytes;
  console.write_json(document);
  return 0;
}

}  // namespace skirl
