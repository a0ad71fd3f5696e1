#include "tools/session.h"

#include <algorithm>
#include <set>
#include <thread>

#include "ir/error.h"
#include "ir/read_file.h"
#include "ir/signature.h"
#include "models/model.h"
#include "passes/lower.h"
#include "strategies/compose.h"
#include "tools/plugin_loader.h"

namespace skirl {

Session::Session(const Options& options) : options_(options) {
  for (const std::string& path : options.plugins) plugins_.push_back(load_plugin(path, registry_));
}

Graph Session::one_device_step() const {
  if (options_.model.empty()) throw Error("--model is missing", "", "skirl list models");
  const ModelOptions model{options_.set,   options_.batch,    options_.seq,   options_.layers, options_.hidden_scale,
                           options_.heads, options_.kv_heads, options_.vocab, options_.dtype};
  return differentiate(load_model(options_.model, model), options_.optimizer);
}

std::vector<Directive> Session::directives(const Graph& step) const {
  if (!options_.strategy.empty()) return strategy_directives(options_.strategy, signature_of(step), registry_, options_.mesh);
  Directive place{"place"};
  place.params["devices"] = {0};
  return {place};
}

Graph Session::rewritten(Graph step, std::span<const Directive> directives, const std::function<void(const PassReport&)>& observer,
                         bool verify) const {
  if (options_.stop_after && *options_.stop_after > directives.size())
    throw Error("--stop-after is " + std::to_string(*options_.stop_after) + ", but there are " + std::to_string(directives.size()) +
                " passes");
  ManagerOptions manager;
  manager.verify = verify;
  manager.stop_after = options_.stop_after;
  manager.dump_dir = options_.dump;
  manager.observer = observer;
  return run_passes(std::move(step), directives, registry_.passes(), manager);
}

Plan Session::lowered(Graph rewritten) const {
  std::set<DeviceId> devices;
  for (std::size_t m = 1; m < rewritten.mesh_count(); ++m)
    devices.insert(rewritten[MeshId(m)].devices.begin(), rewritten[MeshId(m)].devices.end());
  LowerParams params;
  params.threads_per_kernel = std::max(1, static_cast<int>(std::thread::hardware_concurrency() / std::max<std::size_t>(1, devices.size())));
  params.model = options_.model;
  params.strategy = options_.strategy;
  return lower(std::move(rewritten), params);
}

Plan Session::saved_plan() const {
  const std::string text = read_file(options_.plan, "the plan");
  if (text.empty()) throw Error("the plan " + options_.plan + " is empty");
  return parse_plan(text, options_.plan);
}

Feed::Feed(const Options& options, const Graph& graph) : graph_(graph), seed_(options.seed) {
  const bool reads = reads_text(graph);
  if (!options.data.empty()) {
    text_.emplace(options.data);
    text_->check_fits(graph);
  }
  for (const auto& [name, type] : whole_inputs(graph))
    if (reads ? name == "tokens" : !type.shape.empty()) tokens_ = std::max(tokens_, reads ? elems(type.shape) : type.shape.front());
}

TensorMap Feed::inputs(std::int64_t step) const {
  TensorMap inputs = random_inputs(graph_, seed_, step);
  if (text_) text_->fill(inputs, seed_, step);
  return inputs;
}

}  // namespace skirl
