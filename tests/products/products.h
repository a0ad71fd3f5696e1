#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// Compositions of parallelism, for tests of law 1.
namespace skirl::test {

/// Every composition of `items` recipes of different families (tensor, context, data, pipeline) on at most `devices` devices, in a fixed
/// order, such as "pp(2, gpipe, mb=3) + tp(2, sp)".
std::vector<std::string> products(std::size_t items, std::int64_t devices = 16);

/// A small model of a family, as text: "gpt2", "llama" or "qwen3". Sizes are odd where they may be: 5 positions, a vocabulary of 13.
std::string small_model(const std::string& family);
std::vector<std::string> small_models();

}  // namespace skirl::test
