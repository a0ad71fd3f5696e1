#include "models/model.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "ir/error.h"
#include "ir/read_file.h"
#include "ir/text.h"
#include "models/builtin.h"

namespace skirl {
namespace {

constexpr std::int64_t kMostDim = 1 << 20;
constexpr double kMostElems = 1e15;  // of one tensor
constexpr std::int64_t kMostLayers = 100'000;

/// A number that a built-in model can be told: as an argument, and, where `dim` is given, by --set.
struct Setting {
  const char* name;
  std::int64_t* count;  // one of these two
  double* fraction;
  std::int64_t least;
  std::int64_t most;
  const char* dim;  // its name for --set; null: arguments only
};

Setting count_setting(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most, const char* dim = nullptr) {
  return {name, &value, nullptr, least, most, dim};
}

/// "mlp(4, h=16)" as name and arguments.
struct Call {
  std::string name;
  std::vector<std::pair<std::string, std::string>> args;  // key (empty: positional) and value
};

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") + 1 - first));
}

Call parse_call(const std::string& model) {
  const std::size_t open = model.find('(');
  Call call{trimmed(std::string_view(model).substr(0, open)), {}};
  if (open == std::string::npos) return call;
  if (model.back() != ')') throw Error("model '" + model + "': the last ')' is missing");
  std::string_view rest(model);
  rest = rest.substr(open + 1, rest.size() - open - 2);
  while (!trimmed(rest).empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view arg = rest.substr(0, comma);
    const std::size_t equals = arg.find('=');
    if (equals == std::string_view::npos)
      call.args.emplace_back("", trimmed(arg));
    else
      call.args.emplace_back(trimmed(arg.substr(0, equals)), trimmed(arg.substr(equals + 1)));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return call;
}

void assign(const std::string& model, const Setting& setting, const std::string& text) {
  const std::string complaint = "model '" + model + "': " + setting.name + " is '" + text.substr(0, 32) + "', expected ";
  const char* end = text.data() + text.size();
  if (setting.count != nullptr) {
    std::int64_t value = 0;
    const auto [stop, fault] = std::from_chars(text.data(), end, value);
    if (fault != std::errc() || stop != end || value < setting.least || value > setting.most)
      throw Error(complaint + "a whole number from " + std::to_string(setting.least) + " to " + std::to_string(setting.most));
    *setting.count = value;
    return;
  }
  double value = 0;
  const auto [stop, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc() || stop != end || !(value >= 0 && value < 1)) throw Error(complaint + "a number of at least 0 and below 1");
  *setting.fraction = value;
}

/// Applies arguments in the order of the settings, or by name, then --set, --batch and --seq.
void configure(const Call& call, const std::vector<Setting>& settings, const ModelOptions& options) {
  std::vector<std::string> names;
  std::vector<std::string> dims;
  for (const Setting& s : settings) {
    names.emplace_back(s.name);
    if (s.dim != nullptr) dims.emplace_back(s.dim);
  }
  std::vector<bool> given(settings.size(), false);
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    const auto& [key, value] = call.args[i];
    const std::size_t at = key.empty() ? i : static_cast<std::size_t>(std::find(names.begin(), names.end(), key) - names.begin());
    if (at >= settings.size() && key.empty())
      throw Error("model " + call.name + " takes at most " + std::to_string(names.size()) + " arguments: " + nearest_first("", names));
    if (at >= settings.size())
      throw Error("model " + call.name + " has no argument '" + key.substr(0, 32) + "'; known: " + nearest_first(key, names));
    if (given[at]) throw Error("model " + call.name + ": the argument " + names[at] + " is given twice");
    given[at] = true;
    assign(call.name, settings[at], value);
  }
  const auto set_dim = [&](const std::string& dim, std::int64_t value, const std::string& option) {
    for (const Setting& s : settings)
      if (s.dim != nullptr && dim == s.dim) return assign(call.name, s, std::to_string(value));
    throw Error(option + ": model " + call.name + " has no dim " + dim.substr(0, 32) + "; dims: " + nearest_first(dim, dims));
  };
  for (const auto& [dim, value] : options.set) set_dim(dim, value, "--set");
  if (options.batch) set_dim("B", *options.batch, "--batch");
  if (options.seq) set_dim("S", *options.seq, "--seq");
}

Graph make_mlp(const Call& call, const ModelOptions& options) {
  MlpParams p;
  configure(call,
            {count_setting("n", p.layers, 1, kMostLayers), count_setting("h", p.width, 1, kMostDim),
             count_setting("batch", p.batch, 1, kMostDim, "B")},
            options);
  return mlp(p, options.dtype);
}

Graph make_gpt(GptParams p, const Call& call, const ModelOptions& options) {
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
  if (p.heads % p.kv_heads != 0)
    throw Error(
        "model " + call.name + ": " + std::to_string(p.heads) + " heads cannot share " + std::to_string(p.kv_heads) + " KV heads evenly",
        "", "a number of KV heads that divides the heads");
  if (p.head_dim % 2 != 0)
    throw Error("model " + call.name + ": head_dim is " + std::to_string(p.head_dim) +
                ", expected an even number: rotary positions turn pairs");
  const auto wide = [](std::int64_t n) { return static_cast<double>(n); };
  const double row = std::max({wide(p.heads) * wide(p.head_dim), 4 * wide(p.width), wide(p.vocab)});
  if (std::max(wide(p.batch) * wide(p.seq), wide(p.width)) * row > kMostElems)
    throw Error("model " + call.name + ": a tensor would have more than 10^15 elements");
  return gpt(p, options.dtype);
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
  std::map<std::string, std::int64_t> set = options.set;
  const auto set_dim = [&](const char* dim, const std::optional<std::int64_t>& value, const char* option) {
    if (!value) return;
    const auto [it, fresh] = set.emplace(dim, *value);
    if (!fresh && it->second != *value)
      throw Error(std::string(option) + " is " + std::to_string(*value) + ", but --set " + dim + "=" + std::to_string(it->second));
  };
  set_dim("B", options.batch, "--batch");
  set_dim("S", options.seq, "--seq");
  Graph graph = parse(read_text(path), path, set);
  bool forward = true;
  graph.for_each_node([&](NodeId node) { forward = forward && graph[node].op != Op::State && graph[node].mesh == kHome; });
  if (!forward) throw Error(path + " is a training step, expected a model: its forward part, on no device");
  if (options.dtype != DType::F32) retype(graph, options.dtype);
  return graph;
}

}  // namespace

std::vector<ModelInfo> model_table() {
  return {{"mlp(n,h)", "n linear layers of width h with tanh between, squared error; batch=8"},
          {"gpt-tiny",
           "a GPT on bytes: 8 layers, width 64, 4 heads with 2 KV heads, seq=64, batch=8; also layers=, width=, heads=, kv_heads=, "
           "head_dim=, vocab=, dropout=, tied="},
          {"gpt-small", "the same with 6 layers, width 512, 8 heads, vocabulary 8192, seq=256, batch=4: 27 M parameters"}};
}

Graph load_model(const std::string& model, const ModelOptions& options) {
  if (!is_float(options.dtype)) throw Error("--dtype is " + std::string(name(options.dtype)) + ", expected f64, f32, bf16 or f16");
  const std::size_t open = model.find('(');
  const std::string head = trimmed(std::string_view(model).substr(0, open));
  if (head == "mlp" || head == "gpt-tiny" || head == "gpt-small") {
    const Call call = parse_call(model);
    if (head == "mlp") return make_mlp(call, options);
    return make_gpt(head == "gpt-tiny" ? GptParams{} : gpt_small(), call, options);
  }
  std::error_code none;
  if (model.find('/') != std::string::npos || model.find('.') != std::string::npos || std::filesystem::exists(model, none))
    return load_file(model, options);
  throw Error("there is no model '" + model.substr(0, 64) + "'; known: " + nearest_first(head, {"mlp(n,h)", "gpt-tiny", "gpt-small"}), "",
              "or give the path of a model file");
}

}  // namespace skirl
