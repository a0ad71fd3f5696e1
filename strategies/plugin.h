#pragma once

#include "strategies/registry.h"

/// A plugin is a shared library that exports one symbol, `skirl_plugin`, and adds passes, strategies and schedules when it is loaded:
///
///   static void add(skirl::Registry& registry) { registry.add(skirl::StrategyInfo{…}); }
///   SKIRL_PLUGIN(add)
///
/// It links skirl::skirl (one shared library for the program and all plugins) and is built with the compiler that built skirl.
namespace skirl {

/// Grows when what plugins see changes.
inline constexpr int kPluginApi = 1;

// C++ objects cross the border, so all of this must be equal on both sides.
#if defined(__SANITIZE_ADDRESS__)
#define SKIRL_ABI_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define SKIRL_ABI_SANITIZER "thread"
#else
#define SKIRL_ABI_SANITIZER "none"
#endif
#if defined(__clang__)
#define SKIRL_ABI_COMPILER "clang " __clang_version__
#else
#define SKIRL_ABI_COMPILER "gcc " __VERSION__
#endif
inline constexpr const char* kPluginAbi = "skirl " SKIRL_VERSION ", " SKIRL_ABI_COMPILER ", sanitizer " SKIRL_ABI_SANITIZER;

/// What `skirl_plugin` is. Checked in this order: `api`, then `abi`, then `add` is called.
struct Plugin {
  int api;
  const char* abi;
  void (*add)(Registry&);
};

}  // namespace skirl

#define SKIRL_PLUGIN(add_function)                                                                 \
  extern "C" {                                                                                     \
  extern __attribute__((visibility("default"))) const ::skirl::Plugin skirl_plugin;                \
  const ::skirl::Plugin skirl_plugin = {::skirl::kPluginApi, ::skirl::kPluginAbi, (add_function)}; \
  }
