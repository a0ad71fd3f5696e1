#include "tools/plugin_loader.h"

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>
#include <filesystem>
#include <utility>

#include "ir/error.h"
#include "strategies/plugin.h"

namespace skirl {

std::shared_ptr<void> load_plugin(const std::string& path, Registry& registry) {
  const std::string what = "cannot load the plugin " + path + ": ";
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) throw Error(what + "there is no such file");

  auto library = std::make_shared<boost::dll::shared_library>();
  // An absolute path, so that the loader looks nowhere else.
  library->load(std::filesystem::absolute(path), boost::dll::load_mode::rtld_now, failed);
  if (failed) {
    const char* reason = dlerror();
    throw Error(what + (reason != nullptr ? reason : failed.message()));
  }
  if (!library->has("skirl_plugin"))
    throw Error(what + "it exports no symbol 'skirl_plugin'", "",
                "end one of its source files with SKIRL_PLUGIN(function), from strategies/plugin.h");

  const Plugin& plugin = library->get<const Plugin>("skirl_plugin");
  if (plugin.api != kPluginApi)
    throw Error(what + "its API number is " + std::to_string(plugin.api) + ", expected " + std::to_string(kPluginApi));
  if (plugin.abi == nullptr || std::string(plugin.abi) != kPluginAbi)
    throw Error(what + "its ABI is '" + (plugin.abi == nullptr ? "" : plugin.abi) + "', expected '" + kPluginAbi + "'", "",
                "build it again against this skirl, with the same compiler and sanitizer");
  if (plugin.add == nullptr) throw Error(what + "its function that adds entries is null");

  const std::string outer = std::exchange(registry.origin, path);
  try {
    plugin.add(registry);
  } catch (const std::exception& error) {
    registry.origin = outer;
    throw Error(what + error.what());
  }
  registry.origin = outer;
  return library;
}

}  // namespace skirl
