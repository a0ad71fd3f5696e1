#include "models/hf_config.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/json.h"
#include "ir/read_file.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

const std::string kConfigs = SKIRL_TEST_DATA "/models/";

std::int64_t parameters(const Graph& g) {
  std::int64_t count = 0;
  g.for_each_node([&](NodeId node) { count += g[node].op == Op::Param ? elems(g.type(g.result(node)).shape) : 0; });
  return count;
}

std::int64_t count_of(const Graph& g, Op op) {
  std::int64_t count = 0;
  g.for_each_node([&](NodeId node) { count += g[node].op == op ? 1 : 0; });
  return count;
}

ModelOptions without_attention_dropout() {
  ModelOptions options;
  options.set["attn_pdrop"] = 0;
  return options;
}

/// A config of the data folder with fields changed (null: taken out), as a file; gives its path.
std::string changed(const std::string& name, const Json& changes) {
  Json config = read_json_file(kConfigs + name);
  for (const auto& [key, value] : changes.items()) {
    if (value.is_null())
      config.erase(key);
    else
      config[key] = value;
  }
  const std::string path = (std::filesystem::temp_directory_path() / "skirl_changed_config.json").string();
  std::ofstream(path) << config.dump(2);
  return path;
}

/// What loading the changed Qwen3-0.6B says, without the path.
std::string complaint(const Json& changes, const std::string& name = "qwen3-0.6b.json", const ModelOptions& options = {}) {
  const std::string path = changed(name, changes);
  try {
    load_model(path, options);
  } catch (const Error& error) {
    const std::string at = error.at().substr(0, path.size()) == path ? error.at().substr(path.size()) : error.at();
    return at + (at.empty() ? "" : ": ") + error.complaint();
  }
  return "no error";
}

}  // namespace

TEST_CASE("configs of published models have their published numbers of parameters") {
  const std::pair<const char*, std::int64_t> published[] = {
      {"gpt2.json", 124439808},
      {"gpt2-medium.json", 354823168},
      {"llama-3.1-8b.json", 8030261248},
      {"llama-3.1-70b.json", 70553706496},
      {"llama-3.1-405b.json", 405853388800},
      {"qwen3-0.6b.json", 596049920},
      {"qwen3-8b.json", 8190735360},
  };
  for (const auto& [name, count] : published) {
    INFO(name);
    const bool gpt2 = std::string(name).substr(0, 4) == "gpt2";
    const Graph g = load_model(kConfigs + name, gpt2 ? without_attention_dropout() : ModelOptions{});
    CHECK(parameters(g) == count);
    CHECK(verify(g).empty());
  }
}

TEST_CASE("families are built of what their configs say") {
  const Graph gpt2 = load_model(kConfigs + "gpt2.json", without_attention_dropout());
  CHECK(count_of(gpt2, Op::LayerNorm) == 25);
  CHECK(count_of(gpt2, Op::Iota) == 1);
  CHECK(count_of(gpt2, Op::Dropout) == 25);  // behind the embedding and in both halves of 12 layers
  const Graph qwen = load_model(kConfigs + "qwen3-0.6b.json", {});
  CHECK(count_of(qwen, Op::RmsNorm) == 4 * 28 + 1);  // two a layer, and two on heads
  CHECK(count_of(qwen, Op::Swiglu) == 28);
  CHECK(count_of(qwen, Op::Rope) == 2 * 28);
  CHECK(print(load_model(kConfigs + "llama-3.1-8b.json", {})).find("factor=8") != std::string::npos);
}

TEST_CASE("options shrink a config and keep its shape") {
  ModelOptions small;
  small.layers = 2;
  small.hidden_scale = 16;
  small.heads = 4;
  small.kv_heads = 2;
  small.vocab = 100;
  small.batch = 2;
  small.seq = 8;
  const Graph g = load_model(kConfigs + "qwen3-0.6b.json", small);
  const std::int64_t h = 1024 / 16, d = 128 / 16, f = 3072 / 16;
  const std::int64_t layer = 2 * h * 4 * d + 2 * h * 2 * d + 3 * h * f + 2 * h + 2 * d;
  CHECK(parameters(g) == 2 * layer + h + 100 * h);
  ModelOptions low_rank = small;
  low_rank.set["low_rank"] = 4;
  CHECK(parameters(load_model(kConfigs + "qwen3-0.6b.json", low_rank)) ==
        2 * (4 * (2 * (h + 4 * d) + 2 * (h + 2 * d) + 3 * (h + f)) + 2 * h + 2 * d) + h + 100 * h);
}

TEST_CASE("options that do not fit are refused with what would") {
  ModelOptions options;
  options.hidden_scale = 7;
  CHECK_ERROR(
      load_model(kConfigs + "qwen3-0.6b.json", options),
      "--hidden-scale is 7, which does not divide hidden_size, intermediate_size and half the width of a head; nearest that do: 8, 4, 2, "
      "1, 16, 32");
  options = {};
  options.heads = 7;
  CHECK_ERROR(load_model(kConfigs + "qwen3-0.6b.json", options), "--heads is 7, which does not divide among KV heads of 2 heads each");
  options = {};
  options.seq = 4'000'000;
  CHECK_ERROR(load_model(kConfigs + "qwen3-0.6b.json", options), "--seq is 4000000, expected a whole number from 1 to 40960");
  options = without_attention_dropout();
  options.kv_heads = 2;
  CHECK_ERROR(load_model(kConfigs + "gpt2.json", options), "--kv-heads: gpt2 has no KV heads of their own; --heads is both");
  options = {};
  options.set["X"] = 2;
  CHECK_ERROR(load_model(kConfigs + "qwen3-0.6b.json", options),
              "--set: a qwen3 config has no dim X; dims: B, S, low_rank, attention_dropout");
  options = {};
  options.heads = 2;
  CHECK_ERROR(load_model("mlp(2, 4)", options), "--heads: model mlp has no argument 'heads'; known: h, n, batch");
}

TEST_CASE("what changes the arithmetic and is not built is refused by name") {
  CHECK_ERROR(load_model(kConfigs + "gpt2.json", {}), "dropout of attention probabilities is not built");
  CHECK(complaint({{"attention_dropout", 0.1}}) == " /attention_dropout: dropout of attention probabilities is not built");
  CHECK(complaint({{"use_sliding_window", true}}) == " /use_sliding_window: attention in a sliding window is not built");
  CHECK(complaint({{"hidden_act", "relu"}}) == " /hidden_act: the activation 'relu' is not built; known: silu, swish");
  CHECK(complaint({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}}) ==
        " /rope_scaling/rope_type: the rotary scaling 'yarn' is not built; known: default, llama3");
  CHECK(complaint({{"quantization_config", Json::object()}}) == " /quantization_config: quantized weights are not built");
}

TEST_CASE("unknown families and fields, and values that cannot be, are refused at their place") {
  CHECK(complaint({{"model_type", "lama"}}) == " /model_type: unknown family 'lama'; known: llama, gpt2, qwen3");
  CHECK(complaint({}, "mixtral-8x7b.json") ==
        " /model_type: the family mixtral is a mixture of experts, which is not built yet; known: gpt2, llama, qwen3");
  CHECK(complaint({{"hiden_size", 4}}).substr(0, 40) == " /hiden_size: unknown field \"hiden_size\"");
  CHECK(complaint({{"num_key_value_heads", 3}}) ==
        " /num_key_value_heads: found 3, expected a number that divides num_attention_heads, 16");
  CHECK(complaint({{"hidden_size", "wide"}}).substr(0, 14) == " /hidden_size:");
  CHECK(complaint({{"hidden_size", -4}}).substr(0, 14) == " /hidden_size:");
  CHECK(complaint({{"hidden_size", nullptr}}).find("hidden_size") != std::string::npos);
  CHECK(complaint({{"head_dim", 7}}) == " /head_dim: a head is 7 wide, expected an even number: rotary positions turn pairs");
  CHECK(complaint({{"rms_norm_eps", 0}}) == " /rms_norm_eps: found 0, expected a number above zero");
  CHECK(complaint({{"tie_word_embeddings", "yes"}}) == " /tie_word_embeddings: found \"yes\", expected true or false");
  CHECK(complaint({{"vocab_size", 1}}) == " /vocab_size: found 1, expected a whole number from 2 to 1048576");
  CHECK(complaint({{"hidden_size", 1024.5}}) == " /hidden_size: found 1024.5, expected a whole number from 1 to 1048576");
  CHECK(complaint({{"model_type", 3}}) == " /model_type: found 3, expected a string");
  CHECK(complaint({{"model_type", nullptr}}).find("the field \"model_type\" is missing") != std::string::npos);
  CHECK(complaint({{"architectures", {"Qwen3ForSequenceClassification"}}}) ==
        " /architectures/0: the architecture 'Qwen3ForSequenceClassification' is not built, expected Qwen3ForCausalLM");
  CHECK(complaint({{"layer_types", {"full_attention"}}}) == " /layer_types: found 1 layers, expected num_hidden_layers, 28");
  CHECK(complaint({{"n_head", 7}}, "gpt2.json") == " /n_head: found 7, expected a number of heads that divides n_embd, 768");
  CHECK(complaint({{"n_ctx", 512}}, "gpt2.json") == " /n_ctx: found 512, expected n_positions, 1024");
  CHECK(complaint({{"embd_pdrop", 1}}, "gpt2.json") == " /embd_pdrop: found 1, expected a number of at least 0 and below 1");
  CHECK(complaint({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}}, "llama-3.1-8b.json") ==
        " /rope_scaling: the key \"low_freq_factor\" is missing");
}

TEST_CASE("every family of mixtures of experts with a published config is refused as not built yet") {
  for (const std::string family : {"mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss"})
    CHECK(complaint({{"model_type", family}})
              .rfind(" /model_type: the family " + family + " is a mixture of experts, which is not built yet; known: ", 0) == 0);
}
