#include "runtime/backends.h"

#include "ir/error.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/null/null_backend.h"
#include "runtime/reference/interpreter.h"

namespace skirl {

const std::vector<BackendInfo>& backend_table() {
  static const std::vector<BackendInfo> kTable{
      {"reference", "the oracle: interprets the plan's graph, one thread, plain loops", "",
       [](const Plan& plan, std::uint64_t seed) -> std::unique_ptr<StepRunner> { return std::make_unique<Interpreter>(plan.graph, seed); }},
      {"cpu", "all devices as logical devices of this process, on its cores", "",
       [](const Plan& plan, std::uint64_t seed) { return make_cpu_runner(plan, seed); }},
      {"null", "goes through the plan without tensors: for tests of order and overlap", "",
       [](const Plan& plan, std::uint64_t) { return make_null_runner(plan); }},
  };
  return kTable;
}

const BackendInfo& backend_named(std::string_view name) {
  std::vector<std::string> known;
  for (const BackendInfo& backend : backend_table()) {
    if (backend.name == name) {
      if (!backend.unusable.empty()) throw Error("backend '" + backend.name + "' cannot be used here: " + backend.unusable);
      return backend;
    }
    known.push_back(backend.name);
  }
  throw Error("no backend '" + std::string(name) + "'; known: " + nearest_first(name, known));
}

}  // namespace skirl
