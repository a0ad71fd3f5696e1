#include "models/hf_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ir/error.h"
#include "models/gpt2.h"
#include "models/hf_fields.h"
#include "models/llama.h"
#include "models/settings.h"

namespace skirl {
namespace {

constexpr std::int64_t kDefaultBatch = 8;
constexpr std::int64_t kDefaultSeq = 1024;
constexpr const char* kAttentionDropout = "dropout of attention probabilities is not built";

const std::vector<std::string> kFamilies = {"gpt2", "llama", "qwen3"};
const std::vector<std::string> kExpertFamilies = {"deepseek_v2", "deepseek_v3", "gpt_oss",    "mixtral",  "qwen2_moe",
                                                  "qwen3_moe",   "olmoe",       "granitemoe", "glm4_moe", "phimoe"};

/// A field of the config that --set may put to 0.
double dropout_field(HfFields& fields, const char* field, double fallback, std::map<std::string, std::int64_t>& set) {
  const double value = fields.probability(field, fallback);
  const auto found = set.find(field);
  if (found == set.end()) return value;
  if (found->second != 0) throw Error(std::string("--set ") + field + " is " + std::to_string(found->second) + ", expected 0");
  set.erase(found);
  return 0;
}

void refuse_attention_dropout(HfFields& fields, const char* field, double fallback, std::map<std::string, std::int64_t>& set) {
  const double p = dropout_field(fields, field, fallback, set);
  if (p == 0) return;
  const std::string help = std::string("--set ") + field + "=0 trains without it; dropout elsewhere is honoured";
  if (fields.object().has(field)) fields.object().at(field).fail(kAttentionDropout, help);
  fields.object().fail(std::string(kAttentionDropout) + ", and \"" + field + "\", which is absent, is 0.1 by default", help);
}

/// What is only about saving, generating text, other heads, or how transformers itself computes the same.
void ignore_common(HfFields& fields) {
  fields.ignore({"model_type",
                 "_name_or_path",
                 "_commit_hash",
                 "name_or_path",
                 "architectures",
                 "auto_map",
                 "torch_dtype",
                 "dtype",
                 "transformers_version",
                 "use_cache",
                 "bos_token_id",
                 "eos_token_id",
                 "pad_token_id",
                 "unk_token_id",
                 "sep_token_id",
                 "decoder_start_token_id",
                 "task_specific_params",
                 "tokenizer_class",
                 "prefix",
                 "id2label",
                 "label2id",
                 "num_labels",
                 "problem_type",
                 "finetuning_task",
                 "gradient_checkpointing",
                 "output_attentions",
                 "output_hidden_states",
                 "return_dict",
                 "keys_to_ignore_at_inference",
                 "torchscript",
                 "use_bfloat16",
                 "_attn_implementation",
                 "attn_implementation",
                 "is_encoder_decoder",
                 "is_decoder"});
}

void expect_architecture(HfFields& fields, const std::string& wanted) {
  const std::optional<JsonView> found = fields.find("architectures");
  if (!found) return;
  for (std::size_t i = 0; i < found->size(); ++i)
    if (const std::string name = found->at(i).string(); name != wanted)
      found->at(i).fail("the architecture '" + name.substr(0, 64) + "' is not built, expected " + wanted);
}

void refuse_quantized(HfFields& fields) {
  if (const auto found = fields.find("quantization_config")) found->fail("quantized weights are not built");
}

// ---- options

std::int64_t in_range(const std::string& flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    throw Error(flag + " is " + std::to_string(value) + ", expected a whole number from " + std::to_string(least) + " to " +
                std::to_string(most));
  return value;
}

/// A size divided by --hidden-scale, which divides `common`, the greatest common divisor of all that it divides.
void scale_widths(const ModelOptions& options, const std::string& names, std::initializer_list<std::int64_t*> widths, std::int64_t common) {
  if (!options.hidden_scale) return;
  const std::int64_t k = *options.hidden_scale;
  if (k < 1 || common % k != 0) {
    std::vector<std::int64_t> legal;
    for (std::int64_t d = 1; d <= common && d <= kMostDim; ++d)
      if (common % d == 0) legal.push_back(d);
    std::stable_sort(legal.begin(), legal.end(), [&](std::int64_t a, std::int64_t b) { return std::abs(a - k) < std::abs(b - k); });
    std::string list;
    for (std::size_t i = 0; i < std::min<std::size_t>(legal.size(), 6); ++i) list += (i > 0 ? ", " : "") + std::to_string(legal[i]);
    throw Error("--hidden-scale is " + std::to_string(k) + ", which does not divide " + names + "; nearest that do: " + list);
  }
  for (std::int64_t* width : widths) *width /= k;
}

/// Layers, vocabulary, batch and sequence: the same for all families. What is left in `set` is not known.
template <class Params>
void apply_common(Params& p, std::int64_t positions, const ModelOptions& options, std::map<std::string, std::int64_t>& set,
                  const std::vector<std::string>& dims, const std::string& family) {
  if (options.layers) p.layers = in_range("--layers", *options.layers, 1, kMostLayers);
  if (options.vocab) p.vocab = in_range("--vocab", *options.vocab, 2, kMostDim);
  p.batch = kDefaultBatch;
  p.seq = std::min(positions, kDefaultSeq);
  for (const auto& [dim, value] : set) {
    if (dim == "B")
      p.batch = in_range("--batch", value, 1, kMostDim);
    else if (dim == "S")
      p.seq = in_range("--seq", value, 1, positions);
    else
      throw Error("--set: a " + family + " config has no dim " + dim.substr(0, 32) + "; dims: " + nearest_first(dim, dims));
  }
}

// ---- families

Graph load_gpt2(HfFields& fields, const ModelOptions& options, std::map<std::string, std::int64_t> set) {
  Gpt2Params p;
  p.layers = fields.size("n_layer", 1, kMostLayers);
  p.width = fields.size("n_embd", 1, kMostDim);
  p.heads = fields.size("n_head", 1, kMostDim);
  p.inner = fields.size("n_inner", 1, kMostDim, 4 * p.width);
  p.vocab = fields.size("vocab_size", 2, kMostDim);
  const std::int64_t context = fields.size("n_ctx", 1, kMostDim, 0);
  p.positions = context > 0 ? fields.size("n_positions", 1, kMostDim, context) : fields.size("n_positions", 1, kMostDim);
  if (context > 0 && context != p.positions)
    fields.object().at("n_ctx").fail("found " + std::to_string(context) + ", expected n_positions, " + std::to_string(p.positions));
  if (p.width % p.heads != 0)
    fields.object().at("n_head").fail("found " + std::to_string(p.heads) + ", expected a number of heads that divides n_embd, " +
                                      std::to_string(p.width));
  p.eps = fields.positive("layer_norm_epsilon", 1e-5);
  p.deviation = fields.positive("initializer_range", 0.02);
  p.embed_dropout = dropout_field(fields, "embd_pdrop", 0.1, set);
  p.dropout = dropout_field(fields, "resid_pdrop", 0.1, set);
  p.tied = fields.flag("tie_word_embeddings", true);
  p.scaled = fields.flag("scale_attn_weights", true);
  p.scaled_by_layer = fields.flag("scale_attn_by_inverse_layer_idx", false);
  fields.expect_word("activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh"}, "the activation");
  fields.expect_flag("add_cross_attention", false, "attention to an encoder is not built");
  expect_architecture(fields, "GPT2LMHeadModel");
  refuse_quantized(fields);
  ignore_common(fields);
  fields.ignore({"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout",
                 "reorder_and_upcast_attn"});
  refuse_attention_dropout(fields, "attn_pdrop", 0.1, set);
  fields.refuse_others();

  if (options.kv_heads) throw Error("--kv-heads: gpt2 has no KV heads of their own; --heads is both");
  scale_widths(options, "n_embd / n_head, the width of a head, and the width of the MLP", {&p.width, &p.inner},
               std::gcd(p.width / p.heads, p.inner));
  if (options.heads) {
    p.heads = in_range("--heads", *options.heads, 1, p.width);
    if (p.width % p.heads != 0)
      throw Error("--heads is " + std::to_string(p.heads) + ", expected a number that divides the width, " + std::to_string(p.width));
  }
  apply_common(p, p.positions, options, set, {"B", "S", "attn_pdrop", "embd_pdrop", "resid_pdrop"}, fields.family());
  return gpt2(p, options.dtype);
}

/// The frequency scaling of `rope_scaling` (older configs) or `rope_parameters` (newer ones, with rope_theta inside).
RopeAttrs read_rope(HfFields& fields) {
  RopeAttrs rope;
  rope.base = fields.positive("rope_theta", 10000);
  const std::optional<JsonView> older = fields.find("rope_scaling");
  const std::optional<JsonView> newer = fields.find("rope_parameters");
  if (older && newer) newer->fail("rope_scaling is given too, expected one of the two");
  const std::optional<JsonView>& found = older ? older : newer;
  if (!found) return rope;
  HfFields scaling(*found, "rope");
  rope.base = scaling.positive("rope_theta", rope.base);
  const std::string named = scaling.word("type", "default");
  const std::string type = scaling.word("rope_type", named.c_str());
  if (type != "default" && type != "llama3")
    found->at(found->has("rope_type") ? "rope_type" : "type")
        .fail("the rotary scaling '" + type.substr(0, 64) + "' is not built; known: default, llama3");
  if (type == "llama3") {
    for (const char* field : {"factor", "low_freq_factor", "high_freq_factor"}) (void)found->at(field);
    rope.factor = scaling.positive("factor", 1);
    rope.low = scaling.positive("low_freq_factor", 1);
    rope.high = scaling.positive("high_freq_factor", 4);
    rope.original = scaling.size("original_max_position_embeddings", 1, std::int64_t{1} << 40);
    if (*rope.high <= *rope.low)
      found->at("high_freq_factor")
          .fail("found " + found->at("high_freq_factor").raw().dump() + ", expected a number above low_freq_factor");
  }
  scaling.refuse_others();
  return rope;
}

/// Sliding windows change the arithmetic only where they are used.
void refuse_windows(HfFields& fields, std::int64_t layers) {
  fields.expect_flag("use_sliding_window", false, "attention in a sliding window is not built");
  fields.ignore({"sliding_window", "max_window_layers"});
  const auto types = fields.find("layer_types");
  if (!types) return;
  if (types->size() != static_cast<std::size_t>(layers))
    types->fail("found " + std::to_string(types->size()) + " layers, expected num_hidden_layers, " + std::to_string(layers));
  for (std::size_t i = 0; i < types->size(); ++i)
    if (const std::string type = types->at(i).string(); type != "full_attention")
      types->at(i).fail("attention of the kind '" + type.substr(0, 64) + "' is not built, expected full_attention");
}

void apply_heads(LlamaParams& p, const ModelOptions& options) {
  const std::int64_t shared = p.heads / p.kv_heads;
  if (options.heads) p.heads = in_range("--heads", *options.heads, 1, kMostDim);
  if (options.kv_heads) {
    p.kv_heads = in_range("--kv-heads", *options.kv_heads, 1, kMostDim);
  } else if (options.heads) {
    if (p.heads % shared != 0)
      throw Error(
          "--heads is " + std::to_string(p.heads) + ", which does not divide among KV heads of " + std::to_string(shared) + " heads each",
          "", "a multiple of " + std::to_string(shared) + ", or --kv-heads too");
    p.kv_heads = p.heads / shared;
  }
  if (p.heads % p.kv_heads != 0)
    throw Error("--kv-heads: " + std::to_string(p.heads) + " heads cannot share " + std::to_string(p.kv_heads) + " KV heads evenly", "",
                "a number of KV heads that divides the heads");
}

/// Llama, and Qwen3, which states its heads and has norms on them.
Graph load_llama(HfFields& fields, const ModelOptions& options, std::map<std::string, std::int64_t> set) {
  const bool qwen = fields.family() == "qwen3";
  LlamaParams p;
  p.layers = fields.size("num_hidden_layers", 1, kMostLayers);
  p.width = fields.size("hidden_size", 1, kMostDim);
  p.heads = fields.size("num_attention_heads", 1, kMostDim);
  p.kv_heads = qwen ? fields.size("num_key_value_heads", 1, kMostDim) : fields.size("num_key_value_heads", 1, kMostDim, p.heads);
  if (p.heads % p.kv_heads != 0)
    fields.object()
        .at("num_key_value_heads")
        .fail("found " + std::to_string(p.kv_heads) + ", expected a number that divides num_attention_heads, " + std::to_string(p.heads));
  p.head_dim = qwen ? fields.size("head_dim", 2, kMostDim) : fields.size("head_dim", 2, kMostDim, 0);
  if (p.head_dim == 0) {
    if (p.width % p.heads != 0)
      fields.object()
          .at("num_attention_heads")
          .fail("found " + std::to_string(p.heads) + ", expected a number that divides hidden_size, " + std::to_string(p.width),
                "or give head_dim");
    p.head_dim = p.width / p.heads;
  }
  if (p.head_dim % 2 != 0)
    fields.object()
        .at(fields.object().has("head_dim") ? "head_dim" : "num_attention_heads")
        .fail("a head is " + std::to_string(p.head_dim) + " wide, expected an even number: rotary positions turn pairs");
  p.inner = fields.size("intermediate_size", 1, kMostDim);
  p.vocab = fields.size("vocab_size", 2, kMostDim);
  const std::int64_t positions = fields.size("max_position_embeddings", 1, std::int64_t{1} << 40, qwen ? 32768 : 2048);
  p.eps = fields.positive("rms_norm_eps", 1e-6);
  p.deviation = fields.positive("initializer_range", 0.02);
  p.tied = fields.flag("tie_word_embeddings", false);
  p.attention_bias = fields.flag("attention_bias", false);
  p.mlp_bias = !qwen && fields.flag("mlp_bias", false);
  p.head_norms = qwen;
  p.rope = read_rope(fields);
  fields.expect_word("hidden_act", "silu", {"silu", "swish"}, "the activation");
  expect_architecture(fields, qwen ? "Qwen3ForCausalLM" : "LlamaForCausalLM");
  refuse_windows(fields, p.layers);
  refuse_quantized(fields);
  ignore_common(fields);
  fields.ignore({"pretraining_tp"});  // cuts the same products into parts
  refuse_attention_dropout(fields, "attention_dropout", 0, set);
  fields.refuse_others();

  scale_widths(options, "hidden_size, intermediate_size and half the width of a head", {&p.width, &p.inner, &p.head_dim},
               std::gcd(std::gcd(p.width, p.inner), p.head_dim / 2));
  apply_heads(p, options);
  if (const auto rank = set.find("low_rank"); rank != set.end()) {
    p.low_rank = in_range("--set low_rank", rank->second, 1, p.width);
    set.erase(rank);
  }
  apply_common(p, positions, options, set, {"B", "S", "attention_dropout", "low_rank"}, fields.family());
  return llama(p, options.dtype);
}

}  // namespace

Graph load_hf_config(const std::string& path, const ModelOptions& options) {
  const Json document = read_json_file(path);
  const JsonView config(document, path);
  if (!config.has("model_type"))
    config.fail("the field \"model_type\" is missing, which says the family of a Hugging Face config; known: gpt2, llama, qwen3");
  const JsonView type = config.at("model_type");
  const std::string family = type.string();
  HfFields fields(config, family);
  if (family == "gpt2") return load_gpt2(fields, options, set_dims(options));
  if (family == "llama" || family == "qwen3") return load_llama(fields, options, set_dims(options));
  if (std::find(kExpertFamilies.begin(), kExpertFamilies.end(), family) != kExpertFamilies.end())
    type.fail("the family " + family + " is a mixture of experts, which is not built yet; known: " + nearest_first(family, kFamilies));
  type.fail("unknown family '" + family.substr(0, 64) + "'; known: " + nearest_first(family, kFamilies));
}

std::vector<ModelInfo> hf_family_table() {
  return {{"gpt2 (config.json)", "the path of a Hugging Face config of GPT-2; --layers, --hidden-scale, --heads, --vocab shrink it"},
          {"llama (config.json)", "the same of Llama; also --kv-heads and --set low_rank=R"},
          {"qwen3 (config.json)", "the same of Qwen3, dense"}};
}

}  // namespace skirl
