#include "models/gpt2.h"

#include <cmath>

#include "models/builder.h"

namespace skirl {
namespace {

class Gpt2 {
 public:
  Gpt2(const Gpt2Params& params, DType dtype) : p_(params), m_(dtype) {}

  Graph build() {
    const Shape tokens_shape{p_.batch, p_.seq};
    const ValueId tokens = m_.indices("tokens", tokens_shape, 0, p_.vocab, 1);
    const ValueId labels = m_.indices("labels", tokens_shape, 0, p_.vocab, 1);
    ValueId table;
    ValueId x;
    {
      const auto scope = m_.tag("BLOCK", "embed");
      table = m_.param("embed.table", {p_.vocab, p_.width}, p_.deviation);
      const ValueId rows = m_.op(Op::Embedding, {table, tokens}, NoAttrs{}, "embed");
      const ValueId positions = m_.param("embed.positions", {p_.positions, p_.width}, p_.deviation);
      const ValueId places =
          m_.op(Op::Embedding, {positions, m_.op(Op::Iota, {}, ShapeAttrs{{p_.seq}}, "embed.iota")}, NoAttrs{}, "embed.place");
      x = m_.dropout(m_.op(Op::Add, {rows, places}, NoAttrs{}, "embed.sum"), p_.embed_dropout, "embed.drop");
    }
    for (std::int64_t i = 0; i < p_.layers; ++i) {
      const auto layer = m_.tag("LAYER", i);
      layer_ = i;
      x = attention(x);
      x = feed_forward(x);
    }
    const auto scope = m_.tag("BLOCK", "head");
    x = m_.layer_norm(x, "head.norm", p_.eps);
    const ValueId logits = p_.tied ? m_.einsum("bsh,vh->bsv", x, table, "head")
                                   : m_.einsum("bsh,hv->bsv", x, m_.param("head.w", {p_.width, p_.vocab}, p_.deviation), "head");
    m_.softmax_xent("loss", logits, labels, kIgnoredLabel);
    return m_.take();
  }

 private:
  double residual_deviation() const { return p_.deviation / std::sqrt(2 * static_cast<double>(p_.layers)); }

  /// Factor of q·k in the layer that is being built.
  double score_scale() const {
    double scale = p_.scaled ? 1 / std::sqrt(static_cast<double>(p_.width / p_.heads)) : 1;
    if (p_.scaled_by_layer) scale /= static_cast<double>(layer_ + 1);
    return scale;
  }

  ValueId added(ValueId x, ValueId change, const std::string& at) {
    return m_.op(Op::Add, {x, m_.dropout(change, p_.dropout, at + "drop")}, NoAttrs{}, at + "residual");
  }

  ValueId attention(ValueId x) {
    const auto scope = m_.tag("BLOCK", "attn");
    const std::string at = "l" + std::to_string(layer_) + ".attn.";
    const Shape heads{p_.heads, p_.width / p_.heads};
    const ValueId normed = m_.layer_norm(x, at + "norm", p_.eps);
    const LinearParams split{"h", {p_.width}, "nd", heads, p_.deviation, true};
    const ValueId q = m_.linear(normed, at + "q", split);
    const ValueId k = m_.linear(normed, at + "k", split);
    const ValueId v = m_.linear(normed, at + "v", split);
    const ValueId mixed = m_.op(Op::Attention, {q, k, v}, AttentionAttrs{true, score_scale()}, at + "mix");
    return added(x, m_.linear(mixed, at + "o", {"nd", heads, "h", {p_.width}, residual_deviation(), true}), at);
  }

  ValueId feed_forward(ValueId x) {
    const auto scope = m_.tag("BLOCK", "mlp");
    const std::string at = "l" + std::to_string(layer_) + ".mlp.";
    const ValueId normed = m_.layer_norm(x, at + "norm", p_.eps);
    const ValueId up = m_.linear(normed, at + "up", {"h", {p_.width}, "f", {p_.inner}, p_.deviation, true});
    const ValueId active = m_.op(Op::Gelu, {up}, NoAttrs{}, at + "gelu");
    return added(x, m_.linear(active, at + "down", {"f", {p_.inner}, "h", {p_.width}, residual_deviation(), true}), at);
  }

  const Gpt2Params& p_;
  ModelBuilder m_;
  std::int64_t layer_ = 0;
};

}  // namespace

Graph gpt2(const Gpt2Params& params, DType dtype) { return Gpt2(params, dtype).build(); }

}  // namespace skirl
