#include "models/model.h"

#include <algorithm>
#include <filesystem>

#include "ir/error.h"
#include "ir/read_file.h"
#include "ir/text.h"
#include "models/builtin.h"
#include "models/gpt2.h"
#include "models/hf_config.h"
#include "models/llama.h"
#include "models/settings.h"

namespace skirl {
namespace {

constexpr double kMostElems = 1e15;  // of one tensor

Graph make_mlp(const ModelCall& call, const ModelOptions& options) {
  MlpParams p;
  configure(call,
            {count_setting("n", p.layers, 1, kMostLayers), count_setting("h", p.width, 1, kMostDim),
             count_setting("batch", p.batch, 1, kMostDim, "B")},
            options);
  return mlp(p, options.dtype);
}

void check_heads(const std::string& model, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  if (heads % kv_heads != 0)
    throw Error("model " + model + ": " + std::to_string(heads) + " heads cannot share " + std::to_string(kv_heads) + " KV heads evenly",
                "", "a number of KV heads that divides the heads");
  if (head_dim % 2 != 0)
    throw Error("model " + model + ": head_dim is " + std::to_string(head_dim) + ", expected an even number: rotary positions turn pairs");
}

Graph make_gpt(GptParams p, const ModelCall& call, const ModelOptions& options) {
  std::int64_t tied = 0;
  configure(call,
            {count_setting("layers", p.layers, 1, kMostLayers),
             count_setting("width", p.width, 1, kMostDim),
             count_setting("heads", p.heads, 1, kMostDim),
             count_setting("kv_heads", p.kv_heads, 1, kMostDim),
             count_setting("head_dim", p.head_dim, 2, kMostDim),
             count_setting("vocab", p.vocab, 2, kMostDim),
             {"dropout", nullptr, &p.dropout, 0, 0, nullptr},
             count_setting("tied", tied, 0, 1),
             count_setting("batch", p.batch, 1, kMostDim, "B"),
             count_setting("seq", p.seq, 1, kMostDim, "S")},
            options);
  p.tied = tied == 1;
  check_heads(call.name, p.heads, p.kv_heads, p.head_dim);
  const auto wide = [](std::int64_t n) { return static_cast<double>(n); };
  const double row = std::max({wide(p.heads) * wide(p.head_dim), 4 * wide(p.width), wide(p.vocab)});
  if (std::max(wide(p.batch) * wide(p.seq), wide(p.width)) * row > kMostElems)
    throw Error("model " + call.name + ": a tensor would have more than 10^15 elements");
  return gpt(p, options.dtype);
}

Graph make_llama(LlamaParams p, const ModelCall& call, const ModelOptions& options) {
  std::int64_t tied = p.tied ? 1 : 0;
  configure(
      call,
      {count_setting("layers", p.layers, 1, kMostLayers), count_setting("width", p.width, 1, kMostDim),
       count_setting("heads", p.heads, 1, kMostDim), count_setting("kv_heads", p.kv_heads, 1, kMostDim),
       count_setting("head_dim", p.head_dim, 2, kMostDim), count_setting("inner", p.inner, 1, kMostDim),
       count_setting("vocab", p.vocab, 2, kMostDim), count_setting("low_rank", p.low_rank, 0, kMostDim, "low_rank"),
       count_setting("tied", tied, 0, 1), count_setting("batch", p.batch, 1, kMostDim, "B"), count_setting("seq", p.seq, 1, kMostDim, "S")},
      options);
  p.tied = tied == 1;
  check_heads(call.name, p.heads, p.kv_heads, p.head_dim);
  return llama(p, options.dtype);
}

LlamaParams qwen3_tiny() {
  LlamaParams p;
  p.head_dim = 24;  // heads · head_dim is not the width
  p.eps = 1e-6;
  p.rope.base = 1e6;
  p.head_norms = true;
  p.tied = true;
  return p;
}

Graph make_gpt2(const ModelCall& call, const ModelOptions& options) {
  Gpt2Params p;
  std::int64_t head_dim = 0;  // not given
  configure(call,
            {count_setting("layers", p.layers, 1, kMostLayers),
             count_setting("width", p.width, 1, kMostDim),
             count_setting("heads", p.heads, 1, kMostDim),
             count_setting("head_dim", head_dim, 1, kMostDim),
             count_setting("inner", p.inner, 1, kMostDim),
             count_setting("vocab", p.vocab, 2, kMostDim),
             count_setting("positions", p.positions, 1, kMostDim),
             {"dropout", nullptr, &p.dropout, 0, 0, nullptr},
             count_setting("batch", p.batch, 1, kMostDim, "B"),
             count_setting("seq", p.seq, 1, kMostDim, "S")},
            options);
  p.embed_dropout = p.dropout;
  if (p.width % p.heads != 0)
    throw Error("model " + call.name + ": " + std::to_string(p.heads) + " heads do not divide the width " + std::to_string(p.width));
  if (head_dim != 0 && head_dim * p.heads != p.width)
    throw Error("model " + call.name + ": head_dim is " + std::to_string(head_dim) + ", expected width / heads, " +
                std::to_string(p.width / p.heads));
  if (p.seq > p.positions)
    throw Error("model " + call.name + ": seq is " + std::to_string(p.seq) + ", expected at most positions, " +
                std::to_string(p.positions));
  return gpt2(p, options.dtype);
}

GptParams gpt_small() {
  GptParams p;
  p.layers = 6;
  p.width = 512;
  p.heads = p.kv_heads = 8;
  p.head_dim = 64;
  p.vocab = 8192;
  p.seq = 256;
  p.batch = 4;
  return p;
}

std::string read_text(const std::string& path) {
  std::string text = read_file(path, "the model file");
  if (text.empty()) throw Error("the model file " + path + " is empty");
  return text;
}

/// Puts `dtype` in the place of f32, and derives the types of all results anew.
void retype(Graph& graph, DType dtype) {
  const auto replaced = [&](DType old) { return old == DType::F32 ? dtype : old; };
  std::vector<TensorType> operands;
  for (const NodeId node : topological_order(graph)) {
    Attrs attrs = graph[graph[node].attrs];
    if (auto* cast = std::get_if<CastAttrs>(&attrs)) cast->dtype = replaced(cast->dtype);
    if (auto* fill = std::get_if<FillAttrs>(&attrs)) fill->dtype = replaced(fill->dtype);
    if (auto* sum = std::get_if<SumAttrs>(&attrs); sum != nullptr && dtype == DType::F64) sum->accumulate = dtype;
    const AttrsId interned = graph.intern(attrs);
    graph[node].attrs = interned;
    if (is_signature(graph[node].op)) {
      if (graph[node].result_count == 0) continue;
      TensorType type = graph.type(graph.result(node));
      type.dtype = replaced(type.dtype);
      const TypeId id = graph.intern(type);
      graph[graph.result(node)].type = id;
      continue;
    }
    operands.clear();
    graph.for_each_operand(node, [&](ValueId value, std::size_t) { operands.push_back(graph.type(value)); });
    const std::vector<TensorType> types = info(graph[node].op).infer({graph[node].op, attrs, operands});
    for (std::size_t r = 0; r < types.size(); ++r) {
      const TypeId id = graph.intern(types[r]);
      graph[graph.result(node, r)].type = id;
    }
  }
}

Graph load_file(const std::string& path, const ModelOptions& options) {
  if (const auto shrink = shrink_options(options); !shrink.empty())
    throw Error(flag_of(shrink.front().first) + " is of built-in models and config.json files, but " + path + " is a model file", "",
                "--set, for a dim of the file");
  Graph graph = parse(read_text(path), path, set_dims(options));
  bool forward = true;
  graph.for_each_node([&](NodeId node) { forward = forward && graph[node].op != Op::State && graph[node].mesh == kHome; });
  if (!forward) throw Error(path + " is a training step, expected a model: its forward part, on no device");
  if (options.dtype != DType::F32) retype(graph, options.dtype);
  return graph;
}

struct Builtin {
  const char* name;
  const char* shown;  // with its arguments, where there is no sense in it without them
  const char* help;
  Graph (*make)(const ModelCall&, const ModelOptions&);
};

const Builtin kBuiltins[] = {
    {"mlp", "mlp(n,h)", "n linear layers of width h with tanh between, squared error; batch=8", make_mlp},
    {"gpt-tiny", "gpt-tiny",
     "a GPT on bytes: 8 layers, width 64, 4 heads with 2 KV heads, seq=64, batch=8; also layers=, width=, heads=, kv_heads=, head_dim=, "
     "vocab=, dropout=, tied=",
     [](const ModelCall& call, const ModelOptions& options) { return make_gpt(GptParams{}, call, options); }},
    {"gpt-small", "gpt-small", "the same with 6 layers, width 512, 8 heads, vocabulary 8192, seq=256, batch=4: 27 M parameters",
     [](const ModelCall& call, const ModelOptions& options) { return make_gpt(gpt_small(), call, options); }},
    {"gpt2-tiny", "gpt2-tiny",
     "a GPT-2 on bytes: 4 layers, width 64, 4 heads, seq=32, batch=8; also layers=, width=, heads=, head_dim=, inner=, vocab=, "
     "positions=, dropout=",
     make_gpt2},
    {"llama-tiny", "llama-tiny",
     "a Llama on bytes: 4 layers, width 64, 4 heads with 2 KV heads, seq=32, batch=8; also layers=, width=, heads=, kv_heads=, head_dim=, "
     "inner=, vocab=, low_rank=, tied=",
     [](const ModelCall& call, const ModelOptions& options) { return make_llama(LlamaParams{}, call, options); }},
    {"qwen3-tiny", "qwen3-tiny", "the same with norms on queries and keys, heads of 24, and a tied head",
     [](const ModelCall& call, const ModelOptions& options) { return make_llama(qwen3_tiny(), call, options); }},
};

}  // namespace

std::vector<ModelInfo> model_table() {
  std::vector<ModelInfo> table;
  for (const Builtin& builtin : kBuiltins) table.push_back({builtin.shown, builtin.help});
  for (ModelInfo& family : hf_family_table()) table.push_back(std::move(family));
  return table;
}

Graph load_model(const std::string& model, const ModelOptions& options) {
  if (!is_float(options.dtype)) throw Error("--dtype is " + std::string(name(options.dtype)) + ", expected f64, f32, bf16 or f16");
  const std::string called = model_name(model);
  std::vector<std::string> known;
  for (const Builtin& builtin : kBuiltins) {
    if (called == builtin.name) return builtin.make(parse_model_call(model), options);
    known.emplace_back(builtin.shown);
  }
  if (model.ends_with(".json")) return load_hf_config(model, options);
  std::error_code none;
  if (model.find('/') != std::string::npos || model.find('.') != std::string::npos || std::filesystem::exists(model, none))
    return load_file(model, options);
  throw Error("there is no model '" + model.substr(0, 64) + "'; known: " + nearest_first(called, known), "",
              "or give the path of a model file or of a config.json");
}

}  // namespace skirl
