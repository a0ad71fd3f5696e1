#include "models/builtin.h"

#include <cmath>

#include "models/builder.h"

namespace skirl {
namespace {

class Gpt {
 public:
  Gpt(const GptParams& params, DType dtype) : p_(params), m_(dtype) {}

  Graph build() {
    const Shape tokens_shape{p_.batch, p_.seq};
    const ValueId tokens = m_.indices("tokens", tokens_shape, 0, p_.vocab, 1);
    const ValueId labels = m_.indices("labels", tokens_shape, 0, p_.vocab, 1);
    ValueId table;
    ValueId x;
    {
      const auto scope = m_.tag("BLOCK", "embed");
      table = m_.param("embed.table", {p_.vocab, p_.width}, p_.tied ? 1 / std::sqrt(wide(p_.width)) : 1);
      x = m_.op(Op::Embedding, {table, tokens}, NoAttrs{}, "embed");
    }
    for (std::int64_t i = 0; i < p_.layers; ++i) {
      const auto layer = m_.tag("LAYER", i);
      layer_ = "l" + std::to_string(i) + ".";
      x = attention(x);
      x = feed_forward(x);
    }
    const auto scope = m_.tag("BLOCK", "head");
    x = m_.layer_norm(x, "head.norm");
    const ValueId logits = p_.tied ? m_.einsum("bsh,vh->bsv", x, table, "head")
                                   : m_.einsum("bsh,hv->bsv", x, m_.param("head.w", {p_.width, p_.vocab}, 0.02), "head");
    m_.softmax_xent("loss", logits, labels, kIgnoredLabel);
    return m_.take();
  }

 private:
  static double wide(std::int64_t n) { return static_cast<double>(n); }
  /// Standard deviation of a matrix with this many inputs.
  static double spread(std::int64_t inputs) { return 1 / std::sqrt(wide(inputs)); }
  /// That of a matrix whose result is added to the residual stream: smaller, so that the stream keeps its size over the depth.
  double residual_spread(std::int64_t inputs) const { return spread(inputs) / std::sqrt(2 * wide(p_.layers)); }

  ValueId attention(ValueId x) {
    const auto scope = m_.tag("BLOCK", "attn");
    const std::string at = layer_ + "attn.";
    const auto [h, n, m, d] = std::tuple(p_.width, p_.heads, p_.kv_heads, p_.head_dim);
    const ValueId normed = m_.layer_norm(x, at + "norm");
    const auto heads = [&](const char* name, std::int64_t count) {
      return m_.linear(normed, at + name, {"h", {h}, "nd", {count, d}, spread(h), true});
    };
    const ValueId q = m_.op(Op::Rope, {heads("q", n)}, RopeAttrs{}, at + "q.rope");
    const ValueId k = m_.op(Op::Rope, {heads("k", m)}, RopeAttrs{}, at + "k.rope");
    const ValueId v = heads("v", m);
    const ValueId mixed = m_.op(Op::Attention, {q, k, v}, AttentionAttrs{true, spread(d)}, at + "mix");
    const ValueId out = m_.linear(mixed, at + "o", {"nd", {n, d}, "h", {h}, residual_spread(n * d), true});
    return m_.op(Op::Add, {x, m_.dropout(out, p_.dropout, at + "drop")}, NoAttrs{}, at + "residual");
  }

  ValueId feed_forward(ValueId x) {
    const auto scope = m_.tag("BLOCK", "mlp");
    const std::string at = layer_ + "mlp.";
    const std::int64_t h = p_.width;
    const ValueId normed = m_.layer_norm(x, at + "norm");
    const ValueId up = m_.linear(normed, at + "up", {"h", {h}, "f", {4 * h}, spread(h), true});
    const ValueId active = m_.op(Op::Gelu, {up}, NoAttrs{}, at + "gelu");
    const ValueId down = m_.linear(active, at + "down", {"f", {4 * h}, "h", {h}, residual_spread(4 * h), true});
    return m_.op(Op::Add, {x, m_.dropout(down, p_.dropout, at + "drop")}, NoAttrs{}, at + "residual");
  }

  const GptParams& p_;
  ModelBuilder m_;
  std::string layer_;  // prefix of names: "l3."
};

}  // namespace

Graph mlp(const MlpParams& params, DType dtype) {
  ModelBuilder m(dtype);
  ValueId x = m.input("x", {params.batch, params.width}, 0);
  const ValueId target = m.input("y", {params.batch, params.width}, 0);
  const double deviation = 1 / std::sqrt(static_cast<double>(params.width));
  for (std::int64_t i = 0; i < params.layers; ++i) {
    const auto layer = m.tag("LAYER", i);
    const std::string name = "l" + std::to_string(i);
    x = m.einsum("bi,ij->bj", x, m.param(name + ".w", {params.width, params.width}, deviation), name);
    if (i + 1 < params.layers) x = m.op(Op::Tanh, {x}, NoAttrs{}, name + ".tanh");
  }
  m.mse("mse", x, target);
  return m.take();
}

Graph gpt(const GptParams& params, DType dtype) { return Gpt(params, dtype).build(); }

}  // namespace skirl
