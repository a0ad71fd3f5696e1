#include "tests/products/products.h"

#include <cstdint>

#include "ir/text.h"
#include "models/model.h"

namespace skirl::test {
namespace {

struct Item {
  std::string text;
  std::int64_t devices;
};

/// The recipes of each family, pipelines first: a composition is read from the outside in.
const std::vector<std::vector<Item>>& families() {
  static const std::vector<std::vector<Item>> all{
      {{"pp(2, gpipe, mb=3)", 2}, {"pp(2, 1f1b, mb=1)", 2}, {"pp(2, 1f1b, mb=4)", 2}, {"pp(3, 1f1b, mb=3)", 3}},
      {{"ddp(2)", 2},
       {"ddp(3)", 3},
       {"zero(1, dp=2)", 2},
       {"zero(2, dp=2)", 2},
       {"zero(3, dp=2)", 2},
       {"zero(3, dp=3)", 3},
       {"hsdp(2, 2)", 4}},
      {{"cp(2, ring)", 2}, {"cp(3, ring)", 3}, {"cp(2, ulysses)", 2}, {"cp(3, ulysses)", 3}, {"cp(2, gather)", 2}},
      {{"tp(2)", 2},
       {"tp(3)", 3},
       {"tp(4)", 4},
       {"tp(2, sp)", 2},
       {"tp(3, sp)", 3},
       {"tp(4, sp)", 4},
       {"tp(2, sp_regather)", 2},
       {"tp2d(2, 2)", 4}},
  };
  return all;
}

void extend(std::vector<std::string>& found, std::size_t family, std::size_t items, std::int64_t devices, const std::string& so_far) {
  if (items == 0) {
    found.push_back(so_far);
    return;
  }
  for (std::size_t f = family; f < families().size(); ++f)
    for (const Item& item : families()[f])
      if (item.devices <= devices)
        extend(found, f + 1, items - 1, devices / item.devices, so_far + (so_far.empty() ? "" : " + ") + item.text);
}

}  // namespace

std::vector<std::string> products(std::size_t items, std::int64_t devices) {
  std::vector<std::string> found;
  extend(found, 0, items, devices, "");
  return found;
}

std::vector<std::string> small_models() { return {"gpt2", "llama", "qwen3"}; }

std::string small_model(const std::string& family) {
  ModelOptions options;
  options.dtype = DType::F64;
  options.batch = 4;
  options.seq = 5;
  const std::string sizes = family == "gpt2" ? "width=16, inner=10, dropout=0.2" : "width=12, kv_heads=2, head_dim=4, inner=10";
  return print(load_model(family + "-tiny(layers=3, heads=4, vocab=13, " + sizes + ")", options));
}

}  // namespace skirl::test
