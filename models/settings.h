#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/model.h"

namespace skirl {

inline constexpr std::int64_t kMostDim = 1 << 20;
inline constexpr std::int64_t kMostLayers = 100'000;

/// "mlp(4, h=16)" as name and arguments.
struct ModelCall {
  std::string name;
  std::vector<std::pair<std::string, std::string>> args;  // key (empty: positional) and value
};

/// The name alone.
std::string model_name(std::string_view model);
/// Throws Error where a bracket is missing.
ModelCall parse_model_call(const std::string& model);

/// A number that a built-in model can be told: as an argument, by --set where it has a `dim`, and by the option of its name (--layers).
struct Setting {
  const char* name;
  std::int64_t* count;  // one of these two
  double* fraction;
  std::int64_t least;
  std::int64_t most;
  const char* dim;  // its name for --set; null: not by --set
};

Setting count_setting(const char* name, std::int64_t& value, std::int64_t least, std::int64_t most, const char* dim = nullptr);

/// Applies arguments in the order of the settings, or by name, then the options. Throws Error for what the model does not have, for what
/// stands twice, and for values out of range.
void configure(const ModelCall& call, const std::vector<Setting>& settings, const ModelOptions& options);

/// The options that shrink a model, by the name that a setting would have: ("kv_heads", 2). Those given only.
std::vector<std::pair<std::string, std::int64_t>> shrink_options(const ModelOptions& options);
/// "--kv-heads" of "kv_heads".
std::string flag_of(std::string setting);

/// --set with --batch and --seq as the dims B and S. Throws Error where both say something else.
std::map<std::string, std::int64_t> set_dims(const ModelOptions& options);

}  // namespace skirl
