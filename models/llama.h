#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace skirl {

/// A decoder of the Llama family: embedding, blocks of causal grouped-query attention with rotary positions and a gated MLP,
/// down(silu(gate x) · up x), each behind an RMS norm, a last norm and a head. Qwen3 is the same with norms on queries and keys.
///
/// Inputs tokens, labels [batch, seq]; labels of −1 do not count. Tags: LAYER=i with BLOCK=attn or mlp; BLOCK=embed and BLOCK=head alone.
/// Heads are a dimension of their own in the weights of attention: q [h, n, d], k and v [h, m, d], o [n, d, h].
///
/// Source    Touvron et al., arXiv:2302.13971; Yang et al., arXiv:2505.09388; low rank after BOOST, bottleneck-optimised training.
struct LlamaParams {
  std::int64_t layers = 4;
  std::int64_t width = 64;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 16;
  std::int64_t inner = 192;  // width within the MLP
  std::int64_t vocab = 256;
  std::int64_t seq = 32;
  std::int64_t batch = 8;
  double eps = 1e-5;
  double deviation = 0.1;  // of initial weights
  RopeAttrs rope;
  bool tied = false;  // the head is the embedding table
  bool attention_bias = false;
  bool mlp_bias = false;
  bool head_norms = false;    // an RMS norm over each head of queries and keys
  std::int64_t low_rank = 0;  // above 0: each linear layer of the blocks is a product of two of this rank
};
Graph llama(const LlamaParams& params, DType dtype);

}  // namespace skirl
