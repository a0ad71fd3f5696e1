#pragma once

#include <cstdint>
#include <string>

#include "ir/graph.h"
#include "runtime/tensor.h"

namespace skirl {

/// Text as training data: its bytes are the tokens.
class TextData {
 public:
  /// All bytes of a file, or of all files under a folder in the order of their paths (a file that several links lead to counts once).
  /// Throws Error if nothing can be read there, or nothing stands there.
  explicit TextData(const std::string& path);

  std::size_t size_bytes() const { return bytes_.size(); }
  /// Throws Error unless the graph reads text (inputs "tokens" and "labels", whole numbers of equal shape [b, s]), this text holds a
  /// row and the inputs' ranges hold its bytes.
  void check_fits(const Graph& graph) const;
  /// Sets "tokens" and "labels": row r holds s bytes from a place drawn by (seed, step, r), its labels are the bytes that follow. So a
  /// batch depends on nothing else.
  void fill(TensorMap& inputs, std::uint64_t seed, std::int64_t step) const;

 private:
  std::string path_;
  std::string bytes_;
};

/// True if the graph has inputs "tokens" and "labels", whole numbers of equal shape [b, s].
bool reads_text(const Graph& graph);

}  // namespace skirl
