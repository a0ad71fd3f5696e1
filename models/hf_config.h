#pragma once

#include <string>
#include <vector>

#include "models/model.h"

namespace skirl {

/// The forward graph of a Hugging Face config.json of a dense family: gpt2, llama or qwen3, by its `model_type`. Shapes, norms,
/// activations, biases, positions, dropout, ties and the spread of initial weights are the config's; a field that is absent or null has the
/// value that the family's class in transformers gives it. Sizes that do not follow from others must be there. Batch 8 and a sequence of at most
/// 1024 unless told.
///
/// Options   --layers; --hidden-scale K divides hidden size, MLP width and head width by K and leaves the numbers of heads; --heads and
///           --kv-heads (--heads alone keeps the queries a KV head); --vocab; --batch, --seq; --set B, S, low_rank (llama, qwen3: each
///           linear layer of the blocks is a product of two of this rank) and the dropout fields of the config, 0 in place of what the file
///           says.
/// Errors    throws Error, with the JSON pointer of the field, for an unknown family or field, a mixture of experts, a type or value that
///           cannot be, and whatever changes the arithmetic in a way that is not built: attention dropout, sliding windows, other
///           activations, rotary scalings other than llama3, quantized weights. An option that does not fit says so with its nearest legal
///           values.
/// Source    docs/models.md; transformers, models/{gpt2,llama,qwen3}/configuration_*.py.
Graph load_hf_config(const std::string& path, const ModelOptions& options);

/// What `skirl list models` says of the families.
std::vector<ModelInfo> hf_family_table();

}  // namespace skirl
