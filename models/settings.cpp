#include "models/settings.h"

#include <algorithm>
#include <charconv>

#include "ir/error.h"

namespace skirl {
namespace {

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") + 1 - first));
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

}  // namespace

Setting count_setting(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most, const char* dim) {
  return {name, &value, nullptr, least, most, dim};
}

std::string model_name(std::string_view model) { return trimmed(model.substr(0, model.find('('))); }

ModelCall parse_model_call(const std::string& model) {
  const std::size_t open = model.find('(');
  ModelCall call{model_name(model), {}};
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

void configure(const ModelCall& call, const std::vector<Setting>& settings, const ModelOptions& options) {
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
  for (const auto& [name, value] : shrink_options(options)) {
    const auto setting = std::find_if(settings.begin(), settings.end(), [&](const Setting& s) { return name == s.name; });
    if (setting == settings.end())
      throw Error(flag_of(name) + ": model " + call.name + " has no argument '" + name + "'; known: " + nearest_first(name, names));
    assign(call.name, *setting, std::to_string(value));
  }
}

std::vector<std::pair<std::string, std::int64_t>> shrink_options(const ModelOptions& options) {
  std::vector<std::pair<std::string, std::int64_t>> given;
  const auto add = [&](const char* name, const std::optional<std::int64_t>& value) {
    if (value) given.emplace_back(name, *value);
  };
  add("layers", options.layers);
  add("hidden_scale", options.hidden_scale);
  add("heads", options.heads);
  add("kv_heads", options.kv_heads);
  add("vocab", options.vocab);
  return given;
}

std::string flag_of(std::string setting) {
  std::replace(setting.begin(), setting.end(), '_', '-');
  return "--" + setting;
}

std::map<std::string, std::int64_t> set_dims(const ModelOptions& options) {
  std::map<std::string, std::int64_t> set = options.set;
  const auto add = [&](const char* dim, const std::optional<std::int64_t>& value, const char* option) {
    if (!value) return;
    const auto [it, fresh] = set.emplace(dim, *value);
    if (!fresh && it->second != *value)
      throw Error(std::string(option) + " is " + std::to_string(*value) + ", but --set " + dim + "=" + std::to_string(it->second));
  };
  add("B", options.batch, "--batch");
  add("S", options.seq, "--seq");
  return set;
}

}  // namespace skirl
