#include <catch2/catch.hpp>

#include "ir/text.h"
#include "models/model.h"
#include "tests/support/law1.h"

using namespace skirl;

namespace {

/// What is wrong with `model` in f64 under `strategy`; empty if law 1 holds.
std::string broken(const std::string& model, const std::string& strategy, ModelOptions options = {}) {
  static const Registry registry;
  options.dtype = DType::F64;
  test::Case c{print(load_model(model, options)), strategy, {}, 2};
  c.optimizer.clip = 0.5;
  double worst = 0;
  return test::broken(c, registry, worst);
}

}  // namespace

TEST_CASE("the example models compute the same step under the strategies that they name") {
  const std::string folder = SKIRL_SOURCE_DIR "/examples/models/";
  CHECK(broken(folder + "masked_mlp.skirl", "pp(2) + ddp(2)") == "");
  CHECK(broken(folder + "tied_lm.skirl", "pp(2, mb=4) + zero(1, dp=2)") == "");
  CHECK(broken(folder + "two_losses.skirl", "pp(3) + zero(2, dp=2)") == "");
}

TEST_CASE("a pipeline whose first stage is frozen has no backward there, and runs") {
  const std::string folder = SKIRL_SOURCE_DIR "/examples/models/";
  CHECK(broken(folder + "two_losses.skirl", "pp(6, gpipe, mb=5)") == "");
  CHECK(broken(folder + "two_losses.skirl", "pp(6, 1f1b, mb=3) + zero(3, dp=2)") == "");
}

TEST_CASE("the built-in models compute the same step under composed strategies") {
  const std::string gpt = "gpt-tiny(layers=3,width=16,heads=4,kv_heads=2,head_dim=4,vocab=23,dropout=0.1,seq=6,batch=5";
  CHECK(broken(gpt + ")", "pp(2, 1f1b, mb=3) + zero(1, dp=2)") == "");
  CHECK(broken(gpt + ",tied=1)", "pp(3, gpipe, mb=2) + zero(3, dp=3)") == "");
  CHECK(broken(gpt + ",tied=1)", "zero(2, dp=2)") == "");
  CHECK(broken("mlp(4,6)", "pp(4, 1f1b, mb=8) + ddp(2)") == "");
}

TEST_CASE("published configs that are shrunk run on cpu as on the reference, whole and cut") {
  const std::string folder = SKIRL_TEST_DATA "/models/";
  ModelOptions small;
  small.layers = 2;
  small.hidden_scale = 64;
  small.heads = 4;
  small.vocab = 19;
  small.batch = 4;
  small.seq = 5;
  for (const char* strategy : {"ddp(1)", "pp(2, mb=2) + tp(2)"}) {
    CAPTURE(strategy);
    CHECK(broken(folder + "llama-3.1-8b.json", strategy, small) == "");
    CHECK(broken(folder + "qwen3-0.6b.json", strategy, small) == "");
    ModelOptions gpt2 = small;
    gpt2.set["attn_pdrop"] = 0;
    CHECK(broken(folder + "gpt2.json", strategy, gpt2) == "");
  }
}
