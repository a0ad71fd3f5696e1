#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace skirl {

/// GPT-2: embedding and learned positions, blocks of causal attention and a gelu (tanh form) MLP, each behind a layer norm and with biases,
/// a last norm, and the embedding table as the head.
///
/// Inputs tokens, labels [batch, seq]; labels of −1 do not count. Tags: LAYER=i with BLOCK=attn or mlp; BLOCK=embed and BLOCK=head alone.
/// Heads are a dimension of their own in the weights of attention: q, k and v [h, n, d], o [n, d, h].
///
/// Source    Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
struct Gpt2Params {
  std::int64_t layers = 4;
  std::int64_t width = 64;
  std::int64_t heads = 4;    // divides the width
  std::int64_t inner = 256;  // width within the MLP
  std::int64_t vocab = 256;
  std::int64_t positions = 64;  // rows of the table of positions; at least seq
  std::int64_t seq = 32;
  std::int64_t batch = 8;
  double eps = 1e-5;
  double deviation = 0.1;  // of initial weights; those that add to the residual stream get 1/√(2·layers) of it
  double embed_dropout = 0;
  double dropout = 0;            // of what is added to the residual stream
  bool tied = true;              // the head is the embedding table
  bool scaled = true;            // attention scores are divided by √(head width)
  bool scaled_by_layer = false;  // and by 1, 2, … from layer to layer
};
Graph gpt2(const Gpt2Params& params, DType dtype);

}  // namespace skirl
