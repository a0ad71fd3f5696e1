#include "tools/text_data.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "ir/error.h"
#include "ir/random.h"
#include "ir/signature.h"

namespace skirl {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_under(const fs::path& folder) {
  std::error_code failed;
  std::set<fs::path> found;  // without links, so that no file counts twice
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::error_code unreadable;
    if (entry->is_regular_file(unreadable)) found.insert(fs::canonical(entry->path(), unreadable));
  }
  if (failed) throw Error("cannot read the data folder " + folder.string() + ": " + failed.message());
  return {found.begin(), found.end()};
}

void append(const fs::path& file, std::string& bytes) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open()) throw Error("cannot read the data file " + file.string() + ": " + std::strerror(errno));
  char chunk[1 << 16];
  while (in.read(chunk, sizeof chunk) || in.gcount() > 0) bytes.append(chunk, static_cast<std::size_t>(in.gcount()));
  if (in.bad()) throw Error("cannot read the data file " + file.string() + ": " + std::strerror(errno));
}

/// One past the largest token of an input, as its node says.
std::int64_t vocabulary(const Graph& graph, std::string_view input) {
  std::int64_t range = 256;
  graph.for_each_node([&](NodeId node) {
    if (graph[node].op == Op::Input && graph[graph[node].name] == input) range = graph.attrs<InputAttrs>(node).range.value_or(range);
  });
  return range;
}

}  // namespace

bool reads_text(const Graph& graph) {
  const std::map<std::string, TensorType> inputs = whole_inputs(graph);
  const auto tokens = inputs.find("tokens");
  const auto labels = inputs.find("labels");
  const auto whole_numbers = [](DType dtype) { return dtype == DType::I32 || dtype == DType::I64; };
  return tokens != inputs.end() && labels != inputs.end() && whole_numbers(tokens->second.dtype) && whole_numbers(labels->second.dtype) &&
         tokens->second.shape.size() == 2 && tokens->second.shape == labels->second.shape;
}

TextData::TextData(const std::string& path) : path_(path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (!fs::exists(status)) throw Error("cannot read the data " + path + ": there is no such file or folder");
  if (fs::is_directory(status)) {
    for (const fs::path& file : files_under(path)) append(file, bytes_);
  } else {
    if (!fs::is_regular_file(status)) throw Error("cannot read the data " + path + ": it is not a regular file");
    append(path, bytes_);
  }
  if (bytes_.empty()) throw Error("the data " + path + " is empty: no byte to learn from");
}

void TextData::check_fits(const Graph& graph) const {
  if (!reads_text(graph)) {
    std::string names;
    for (const auto& [name, type] : whole_inputs(graph)) names += (names.empty() ? "" : ", ") + name + " " + to_string(type);
    throw Error("--data: the model does not read text: expected inputs 'tokens' and 'labels' of whole numbers [batch, seq]; its inputs: " +
                names);
  }
  const std::int64_t row = whole_inputs(graph).at("tokens").shape[1] + 1;
  if (static_cast<std::int64_t>(bytes_.size()) < row)
    throw Error("the data " + path_ + " is too short: " + std::to_string(bytes_.size()) + " bytes, expected at least " +
                    std::to_string(row) + " (a sequence and its last label)",
                "", "give more text, or a smaller --seq");
  for (const char* input : {"tokens", "labels"}) {
    const std::int64_t range = vocabulary(graph, input);
    const auto outside = [&](char c) { return std::int64_t{static_cast<unsigned char>(c)} >= range; };
    const auto found = std::find_if(bytes_.begin(), bytes_.end(), outside);
    if (found != bytes_.end())
      throw Error("the data " + path_ + " does not fit the input '" + input + "': byte " + std::to_string(found - bytes_.begin()) + " is " +
                      std::to_string(static_cast<unsigned char>(*found)) + ", expected at most " + std::to_string(range - 1),
                  "", "a model of text needs a vocabulary of 256");
  }
}

void TextData::fill(TensorMap& inputs, std::uint64_t seed, std::int64_t step) const {
  Tensor& tokens = inputs.at("tokens");
  Tensor& labels = inputs.at("labels");
  const std::int64_t rows = tokens.type().shape[0];
  const std::int64_t seq = tokens.type().shape[1];
  const std::uint64_t starts = bytes_.size() - static_cast<std::size_t>(seq);  // one past the last place where a row may start
  const std::uint64_t key = random_key("text", seed, step);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::size_t start = fold(key, r) % starts;
    for (std::int64_t s = 0; s < seq; ++s) {
      const auto byte = [&](std::int64_t i) {
        return std::int64_t{static_cast<unsigned char>(bytes_[start + static_cast<std::size_t>(i)])};
      };
      tokens.set(r * seq + s, static_cast<double>(byte(s)));
      labels.set(r * seq + s, static_cast<double>(byte(s + 1)));
    }
  }
}

}  // namespace skirl
