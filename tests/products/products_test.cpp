#include "tests/products/products.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>

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

/// Law 1 for the strategies that `taken` picks by the numbers of model and strategy.
void hold(const std::vector<std::string>& strategies, const std::function<bool(std::size_t family, std::size_t at)>& taken) {
  const Registry registry;
  double worst = 0;
  const std::vector<std::string> families = small_models();
  for (std::size_t family = 0; family < families.size(); ++family) {
    const std::string model = small_model(families[family]);
    for (std::size_t at = 0; at < strategies.size(); ++at) {
      if (!taken(family, at)) continue;
      INFO(families[family] << "-tiny, " << strategies[at]);
      CHECK(broken(case_of(model, strategies[at]), registry, worst) == "");
    }
  }
  CHECK(worst > 0);
}

}  // namespace

TEST_CASE("each kind of parallelism computes the same step of GPT-2, Llama and Qwen3") {
  hold(products(1), [](std::size_t, std::size_t) { return true; });
}

TEST_CASE("every pair of them does, on the three models in turn; check_all tries all pairs on all") {
  hold(products(2), [](std::size_t family, std::size_t at) { return at % 3 == family; });
}

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
