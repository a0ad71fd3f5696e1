#include "tests/products/products.h"

#include <catch2/catch.hpp>
#include <cstdint>

#include "ir/random.h"
#include "tests/support/law1.h"

using namespace skirl;
using namespace skirl::test;

namespace {

Case case_of(const std::string& model, const std::string& strategy) {
  Case c;
  c.model = model;
  c.strategy = strategy;
  c.optimizer.lr = 0.05;
  c.optimizer.weight_decay = 0.01;
  c.optimizer.clip = 0.7;
  return c;
}

void hold(std::size_t items, std::size_t every) {
  const Registry registry;
  double worst = 0;
  std::size_t at = 0;
  for (const std::string& family : small_models()) {
    const std::string model = small_model(family);
    for (const std::string& strategy : products(items)) {
      if (at++ % every != 0) continue;
      INFO(family << "-tiny, " << strategy);
      CHECK(broken(case_of(model, strategy), registry, worst) == "");
    }
  }
  CHECK(worst > 0);
}

}  // namespace

TEST_CASE("each kind of parallelism computes the same step of GPT-2, Llama and Qwen3") { hold(1, 1); }

TEST_CASE("every pair of them does") { hold(2, 1); }

TEST_CASE("triples drawn at random do") {
  const Registry registry;
  double worst = 0;
  std::uint64_t key = random_key("triples", 1, 0);
  const std::vector<std::string> triples = products(3);
  for (const std::string& family : small_models()) {
    const std::string model = small_model(family);
    for (int i = 0; i < 25; ++i) {
      key = fold(key, 1);
      const std::string& strategy = triples[static_cast<std::size_t>(uniform(key) * static_cast<double>(triples.size()))];
      INFO(family << "-tiny, " << strategy);
      CHECK(broken(case_of(model, strategy), registry, worst) == "");
    }
  }
  CHECK(worst > 0);
}
