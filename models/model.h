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
  std::optional<std::int64_t> layers;       // --layers and the four after it: a smaller model of the same family
  std::optional<std::int64_t> hidden_scale;
  std::optional<std::int64_t> heads;
  std::optional<std::int64_t> kv_heads;
  std::optional<std::int64_t> vocab;
  DType dtype = DType::F32;  // of parameters and activations; in a model file it takes the place of f32
};

struct ModelInfo {
  std::string name;  // "gpt-tiny", "mlp(n,h)"
  std::string help;
};

std::vector<ModelInfo> model_table();

/// The forward graph of a built-in model ("gpt-tiny", "llama-tiny(layers=2)", "mlp(4,16)"), of a Hugging Face config (the path of a .json
/// file, models/hf_config.h), or of a model file in the text form (any other path). Throws Error for an unknown name (nearest first), an
/// unreadable file, or an option that the model does not have.
Graph load_model(const std::string& model, const ModelOptions& options);

}  // namespace skirl
