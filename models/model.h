#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace skirl {

struct ModelOptions {
  std::map<std::string, std::int64_t> set;  // --set DIM=N
  std::optional<std::int64_t> batch;        // --batch: the dim B
  std::optional<std::int64_t> seq;          // --seq: the dim S
  DType dtype = DType::F32;                 // of parameters and activations; in a model file it takes the place of f32
};

struct ModelInfo {
  std::string name;  // "gpt-tiny", "mlp(n,h)"
  std::string help;
};

std::vector<ModelInfo> model_table();

/// The forward graph of a built-in model ("gpt-tiny", "gpt-small(layers=4)", "mlp(4,16)") or of a model file in the text form (a path).
/// Throws Error for an unknown name (nearest first), an unreadable file, or an option that the model does not have.
Graph load_model(const std::string& model, const ModelOptions& options);

}  // namespace skirl
