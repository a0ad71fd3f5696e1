#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "runtime/backends.h"
#include "runtime/reference/interpreter.h"
#include "tools/commands.h"
#include "tools/session.h"

namespace skirl {
namespace {

/// What a step says about itself.
struct StepLine {
  std::int64_t step = 0;
  double loss = 0;  // sum of the (weighted) losses
  std::map<std::string, double> losses;
  double grad_norm = 0;
  double tokens_per_s = 0;
};

bool starts_with(const std::string& text, std::string_view prefix) { return text.compare(0, prefix.size(), prefix) == 0; }

StepLine summary(const StepResult& result, std::int64_t step, double seconds, std::int64_t tokens) {
  StepLine line{step};
  double squares = 0;
  for (const auto& [name, tensor] : result.outputs) {
    if (starts_with(name, "loss/")) {
      line.losses[name.substr(5)] = tensor.get(0);
      line.loss += tensor.get(0);
    } else if (starts_with(name, "gradient/")) {
      for (std::int64_t i = 0; i < tensor.elems(); ++i) squares += tensor.get(i) * tensor.get(i);
    }
  }
  // The norm before clipping, where the graph computes it.
  const auto metric = result.outputs.find("metric/grad_norm");
  line.grad_norm = metric == result.outputs.end() ? std::sqrt(squares) : metric->second.get(0);
  line.tokens_per_s = static_cast<double>(tokens) / seconds;
  return line;
}

Json to_json(const StepLine& line) {
  Json json;
  json["step"] = line.step;
  json["loss"] = line.loss;
  if (line.losses.size() > 1)
    for (const auto& [name, loss] : line.losses) json["loss_" + name] = loss;
  json["grad_norm"] = line.grad_norm;
  json["tokens_per_s"] = line.tokens_per_s;
  return json;
}

std::string to_text(const StepLine& line, const char* unit) {
  char text[160];
  std::snprintf(text, sizeof text, "step %5lld   loss %.6f   grad_norm %.4f   %.0f %s/s", static_cast<long long>(line.step), line.loss,
                line.grad_norm, line.tokens_per_s, unit);
  return text;
}

/// Lines on the way: the first and the last, and at most some twenty between them.
bool is_printed(std::int64_t step, std::int64_t steps) {
  const std::int64_t every = std::max<std::int64_t>(1, steps / 20);
  return step == 1 || step == steps || step % every == 0;
}

int train(const Options& options, Console& console, const Graph& graph, StepRunner& runner) {
  const Feed feed(options, graph);
  const char* unit = reads_text(graph) ? "tokens" : "samples";
  Json steps = Json::array();
  const auto write_steps = [&] {
    Json document;
    document["steps"] = steps;
    console.write_json(document);
  };
  for (std::int64_t step = 1; step <= options.steps; ++step) {
    const TensorMap inputs = feed.inputs(step);
    const auto start = std::chrono::steady_clock::now();
    const StepResult result = runner.run(inputs, step);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (result.outputs.empty()) {  // a backend without tensors
      console.progress("step " + std::to_string(step));
      continue;
    }
    const StepLine line = summary(result, step, seconds, feed.tokens());
    steps.push_back(to_json(line));
    if (is_printed(step, options.steps))
      console.text() << to_text(line, unit) << std::endl;
    else
      console.progress(to_text(line, unit));
    if (!std::isfinite(line.loss)) {
      write_steps();
      throw RunError("step " + std::to_string(step) + ": the loss is not a finite number");
    }
  }
  if (steps.empty())
    console.text() << options.steps << " steps went through backend " << options.backend << ", which computes no tensors\n";
  write_steps();
  return 0;
}

}  // namespace

int cmd_run(const Options& options, Console& console) {
  const Session session(options);
  if (!options.plan.empty()) {
    const Plan plan = session.saved_plan();
    return train(options, console, plan.graph, *backend_named(options.backend).make(plan, options.seed));
  }
  const Graph step = session.one_device_step();
  const std::vector<Directive> directives = session.directives(step);
  Graph graph = session.rewritten(step, directives);
  if (options.backend == "reference") {  // it interprets graphs in any state
    Interpreter interpreter(graph, options.seed);
    return train(options, console, graph, interpreter);
  }
  const BackendInfo& backend = backend_named(options.backend);
  const Plan plan = session.lowered(std::move(graph));
  return train(options, console, plan.graph, *backend.make(plan, options.seed));
}

}  // namespace skirl
