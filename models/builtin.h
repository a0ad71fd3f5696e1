#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace skirl {

/// `layers` linear layers of width `width` with tanh between them; mean squared error between the last one and the target.
/// Inputs x, y [batch, width]; tags LAYER=0… .
struct MlpParams {
  std::int64_t layers = 2;
  std::int64_t width = 16;
  std::int64_t batch = 8;
};
Graph mlp(const MlpParams& params, DType dtype);

/// A decoder: embedding, blocks of causal attention (rotary positions, grouped-query) and a gelu MLP, each behind a layer norm and with
/// biases, a last norm and a head. Inputs tokens, labels [batch, seq]; labels of −1 do not count. Tags: LAYER=i with BLOCK=attn or mlp;
/// BLOCK=embed and BLOCK=head alone.
struct GptParams {
  std::int64_t layers = 8;
  std::int64_t width = 64;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 16;
  std::int64_t vocab = 256;
  std::int64_t seq = 64;
  std::int64_t batch = 8;
  double dropout = 0;
  bool tied = false;  // the head is the embedding table
};
Graph gpt(const GptParams& params, DType dtype);

}  // namespace skirl
