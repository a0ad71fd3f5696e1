#include "models/llama.h"

#include <cmath>

#include "models/builder.h"

namespace skirl {
namespace {

class Llama {
 public:
  Llama(const LlamaParams& params, DType dtype) : p_(params), m_(dtype) {}

  Graph build() {
    const Shape tokens_shape{p_.batch, p_.seq};
    const ValueId tokens = m_.indices("tokens", tokens_shape, 0, p_.vocab, 1);
    const ValueId labels = m_.indices("labels", tokens_shape, 0, p_.vocab, 1);
    ValueId table;
    ValueId x;
    {
      const auto scope = m_.tag("BLOCK", "embed");
      table = m_.param("embed.table", {p_.vocab, p_.width}, p_.deviation);
      x = m_.op(Op::Embedding, {table, tokens}, NoAttrs{}, "embed");
    }
    for (std::int64_t i = 0; i < p_.layers; ++i) {
      const auto layer = m_.tag("LAYER", i);
      layer_ = "l" + std::to_string(i) + ".";
      x = attention(x);
      x = feed_forward(x);
    }
    const auto scope = m_.tag("BLOCK", "head");
    x = m_.rms_norm(x, "head.norm", p_.eps);
    const ValueId logits = p_.tied ? m_.einsum("bsh,vh->bsv", x, table, "head")
                                   : m_.einsum("bsh,hv->bsv", x, m_.param("head.w", {p_.width, p_.vocab}, p_.deviation), "head");
    m_.softmax_xent("loss", logits, labels, kIgnoredLabel);
    return m_.take();
  }

 private:
  ValueId attention(ValueId x) {
    const auto scope = m_.tag("BLOCK", "attn");
    const std::string at = layer_ + "attn.";
    const std::int64_t d = p_.head_dim;
    const ValueId normed = m_.rms_norm(x, at + "norm", p_.eps);
    const auto heads = [&](const std::string& name, std::int64_t count) {
      return m_.linear(normed, at + name, {"h", {p_.width}, "nd", {count, d}, p_.deviation, p_.attention_bias, p_.low_rank});
    };
    const auto turned = [&](const std::string& name, std::int64_t count) {
      ValueId y = heads(name, count);
      if (p_.head_norms) y = m_.rms_norm(y, at + name + ".norm", p_.eps);
      return m_.op(Op::Rope, {y}, p_.rope, at + name + ".rope");
    };
    const ValueId q = turned("q", p_.heads);
    const ValueId k = turned("k", p_.kv_heads);
    const ValueId v = heads("v", p_.kv_heads);
    const AttentionAttrs attrs{true, 1 / std::sqrt(static_cast<double>(d))};
    const ValueId mixed = m_.op(Op::Attention, {q, k, v}, attrs, at + "mix");
    const ValueId out = m_.linear(mixed, at + "o", {"nd", {p_.heads, d}, "h", {p_.width}, p_.deviation, p_.attention_bias, p_.low_rank});
    return m_.op(Op::Add, {x, out}, NoAttrs{}, at + "residual");
  }

  ValueId feed_forward(ValueId x) {
    const auto scope = m_.tag("BLOCK", "mlp");
    const std::string at = layer_ + "mlp.";
    const ValueId normed = m_.rms_norm(x, at + "norm", p_.eps);
    const LinearParams widen{"h", {p_.width}, "f", {p_.inner}, p_.deviation, p_.mlp_bias, p_.low_rank};
    const ValueId gate = m_.linear(normed, at + "gate", widen);
    const ValueId up = m_.linear(normed, at + "up", widen);
    const ValueId gated = m_.op(Op::Swiglu, {gate, up}, NoAttrs{}, at + "swiglu");
    const ValueId down = m_.linear(gated, at + "down", {"f", {p_.inner}, "h", {p_.width}, p_.deviation, p_.mlp_bias, p_.low_rank});
    return m_.op(Op::Add, {x, down}, NoAttrs{}, at + "residual");
  }

  const LlamaParams& p_;
  ModelBuilder m_;
  std::string layer_;  // prefix of names: "l3."
};

}  // namespace

Graph llama(const LlamaParams& params, DType dtype) { return Llama(params, dtype).build(); }

}  // namespace skirl
