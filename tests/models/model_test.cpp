#include "models/model.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "ir/text.h"
#include "ir/verify.h"
#include "models/builder.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

Graph load(const std::string& model, ModelOptions options = {}) { return load_model(model, options); }

std::int64_t param_count(const Graph& g) {
  std::int64_t count = 0;
  g.for_each_node([&](NodeId node) {
    if (g[node].op == Op::Param) count += elems(g.type(g.result(node)).shape);
  });
  return count;
}

std::set<std::string> dtypes(const Graph& g) {
  std::set<std::string> found;
  g.for_each_node([&](NodeId node) { g.for_each_result(node, [&](ValueId v) { found.emplace(name(g.type(v).dtype)); }); });
  return found;
}

/// The tag text of every node of that operator, in id order.
std::vector<std::string> tags_of(const Graph& g, Op op) {
  std::vector<std::string> found;
  g.for_each_node([&](NodeId node) {
    if (g[node].op == op) found.push_back(to_string(g, g[g[node].tags]));
  });
  return found;
}

std::string input_type(const Graph& g, std::string_view input) {
  std::string found;
  g.for_each_node([&](NodeId node) {
    if (g[node].op == Op::Input && g[g[node].name] == input) found = to_string(g.type(g.result(node)));
  });
  return found;
}

std::string temp_file(const std::string& name, const std::string& text) {
  const std::string path = (std::filesystem::temp_directory_path() / ("skirl_model_test_" + name)).string();
  std::ofstream(path) << text;
  return path;
}

const std::string kExamples = SKIRL_SOURCE_DIR "/examples/models/";

}  // namespace

TEST_CASE("every built-in model is a valid graph that survives its text form") {
  for (const std::string model :
       {"mlp(4,16)", "mlp(1,1,batch=1)", "gpt-tiny", "gpt-tiny(layers=2,tied=1,dropout=0.1)", "gpt-small", "gpt2-tiny",
        "gpt2-tiny(heads=2,head_dim=32,dropout=0.1)", "llama-tiny", "llama-tiny(low_rank=4,tied=1)", "qwen3-tiny"}) {
    CAPTURE(model);
    const Graph g = load(model);
    CHECK(verify(g).empty());
    CHECK(print(parse(print(g))) == print(g));
  }
}

TEST_CASE("gpt-small has 27 million parameters, gpt-tiny is what the documents say") {
  const std::int64_t h = 512, v = 8192;
  const std::int64_t block = 4 * (h * h + h) + 2 * (2 * h) + (h * 4 * h + 4 * h) + (4 * h * h + h);
  CHECK(param_count(load("gpt-small")) == 2 * v * h + 6 * block + 2 * h);
  CHECK(param_count(load("gpt-small")) == 27'303'936);

  const Graph tiny = load("gpt-tiny");
  CHECK(param_count(tiny) == 2 * 256 * 64 + 8 * ((64 * 64 + 64) * 2 + (64 * 32 + 32) * 2 + 2 * 128 + 64 * 256 + 256 + 256 * 64 + 64) + 128);
  CHECK(input_type(tiny, "tokens") == "i64[8,64]");
  CHECK(input_type(tiny, "labels") == "i64[8,64]");
  const std::vector<std::string> mixes = tags_of(tiny, Op::Attention);
  REQUIRE(mixes.size() == 8);
  CHECK(mixes[3] == "BLOCK=attn LAYER=3");
  CHECK(tags_of(tiny, Op::Gelu)[7] == "BLOCK=mlp LAYER=7");
  CHECK(tags_of(tiny, Op::Embedding) == std::vector<std::string>{"BLOCK=embed"});
  CHECK(tags_of(tiny, Op::SoftmaxXent) == std::vector<std::string>{"BLOCK=head"});
  CHECK(tags_of(tiny, Op::Input) == std::vector<std::string>{"", ""});
}

TEST_CASE("a tied table has the tags that its readers share: none") {
  const Graph g = load("gpt-tiny(layers=1,tied=1)");
  const std::vector<std::string> tags = tags_of(g, Op::Param);
  CHECK(std::count(tags.begin(), tags.end(), "") == 1);
  CHECK(param_count(load("gpt-tiny")) - param_count(load("gpt-tiny(tied=1)")) == 256 * 64);
}

TEST_CASE("options reach built-in models") {
  ModelOptions options;
  options.batch = 3;
  options.seq = 16;
  options.dtype = DType::F64;
  const Graph g = load("gpt-tiny(layers=1)", options);
  CHECK(input_type(g, "tokens") == "i64[3,16]");
  CHECK(dtypes(g) == std::set<std::string>{"f64", "i64"});
  options = {};
  options.set = {{"B", 5}};
  CHECK(input_type(load("mlp(2,4)", options), "x") == "f32[5,4]");
  CHECK(tags_of(load("mlp(3,4)"), Op::Einsum) == std::vector<std::string>{"LAYER=0", "LAYER=1", "LAYER=2"});
  CHECK(tags_of(load("mlp(h=4,n=3)"), Op::Tanh).size() == 2);
}

TEST_CASE("inputs of every model of language tell their positions") {
  for (const std::string model : {"gpt-tiny", "gpt-small", "gpt2-tiny", "llama-tiny", "qwen3-tiny"}) {
    CAPTURE(model);
    const Graph g = load(model);
    int marked = 0;
    g.for_each_node([&](NodeId node) {
      if (g[node].op == Op::Input) marked += std::get<InputAttrs>(g[g[node].attrs]).sequence == 1 ? 1 : 0;
    });
    CHECK(marked == 2);
  }
}

TEST_CASE("the example models load, in f32 and f64, at any batch") {
  for (const std::string model : {"masked_mlp", "tied_lm", "two_losses"}) {
    CAPTURE(model);
    ModelOptions options;
    options.batch = 5;
    const Graph g = load(kExamples + model + ".skirl", options);
    CHECK(verify(g).empty());
    CHECK(dtypes(g).count("f64") == (model == "tied_lm" ? 1 : 0));  // the count of labels is f64
    options.dtype = DType::F64;
    const Graph wide = load(kExamples + model + ".skirl", options);
    CHECK(verify(wide).empty());
    CHECK(dtypes(wide).count("f32") == 0);
    options.dtype = DType::BF16;
    CHECK(verify(load(kExamples + model + ".skirl", options)).empty());
  }
}

TEST_CASE("a model that cannot be had is refused") {
  CHECK_ERROR(load("gpt-tinny"), "there is no model 'gpt-tinny'; known: gpt-tiny, gpt2-tiny, gpt-small, llama-tiny, qwen3-tiny, mlp(n,h)");
  CHECK_ERROR(load(""), "there is no model ''; known: mlp(n,h), gpt-tiny, gpt-small, gpt2-tiny, llama-tiny, qwen3-tiny");
  CHECK_ERROR(load("mlp(2,4"), "model 'mlp(2,4': the last ')' is missing");
  CHECK_ERROR(load("mlp(0,4)"), "model 'mlp': n is '0', expected a whole number from 1 to 100000");
  CHECK_ERROR(load("mlp(4.7)"), "model 'mlp': n is '4.7', expected a whole number from 1 to 100000");
  CHECK_ERROR(load("mlp(2,4,8,9)"), "model mlp takes at most 3 arguments: n, h, batch");
  CHECK_ERROR(load("mlp(2,n=3)"), "model mlp: the argument n is given twice");
  CHECK_ERROR(load("mlp(width=3)"), "model mlp has no argument 'width'; known: h, batch, n");
  CHECK_ERROR(load("gpt-tiny(dropout=1)"), "model 'gpt-tiny': dropout is '1', expected a number of at least 0 and below 1");
  CHECK_ERROR(load("gpt-tiny(kv_heads=3)"), "model gpt-tiny: 4 heads cannot share 3 KV heads evenly");
  CHECK_ERROR(load("gpt-tiny(head_dim=3)"), "model gpt-tiny: head_dim is 3, expected an even number: rotary positions turn pairs");
  CHECK_ERROR(load("gpt-tiny(width=1048576,heads=1048576,kv_heads=1,head_dim=1024)"),
              "model gpt-tiny: a tensor would have more than 10^15 elements");
  CHECK_ERROR(load("gpt2-tiny(heads=5)"), "model gpt2-tiny: 5 heads do not divide the width 64");
  CHECK_ERROR(load("gpt2-tiny(head_dim=8)"), "model gpt2-tiny: head_dim is 8, expected width / heads, 16");
  CHECK_ERROR(load("gpt2-tiny(seq=65)"), "model gpt2-tiny: seq is 65, expected at most positions, 64");
  CHECK_ERROR(load("llama-tiny(kv_heads=3)"), "model llama-tiny: 4 heads cannot share 3 KV heads evenly");
  CHECK_ERROR(load("qwen3-tiny(head_dim=5)"), "model qwen3-tiny: head_dim is 5, expected an even number: rotary positions turn pairs");
  CHECK_ERROR(load("llama-tiny(low_rank=-1)"), "model 'llama-tiny': low_rank is '-1', expected a whole number from 0 to 1048576");
  ModelOptions options;
  options.hidden_scale = 2;
  CHECK_ERROR(
      load("llama-tiny", options),
      "--hidden-scale: model llama-tiny has no argument 'hidden_scale'; known: heads, head_dim, layers, width, kv_heads, inner, vocab, "
      "low_rank, tied, batch, seq");
  options = {};
  options.layers = 2;
  CHECK_ERROR(load(kExamples + "tied_lm.skirl", options),
              "--layers is of built-in models and config.json files, but " + kExamples + "tied_lm.skirl is a model file");
  options = {};
  options.seq = 4;
  CHECK_ERROR(load("mlp(2,4)", options), "--seq: model mlp has no dim S; dims: B");
  options = {};
  options.set = {{"H", 4}};
  CHECK_ERROR(load("mlp(2,4)", options), "--set: model mlp has no dim H; dims: B");
  options = {};
  options.dtype = DType::I32;
  CHECK_ERROR(load("mlp(2,4)", options), "--dtype is i32, expected f64, f32, bf16 or f16");
}

TEST_CASE("a model file that cannot be had is refused") {
  CHECK_ERROR(load("/nowhere/m.skirl"), "cannot read the model file /nowhere/m.skirl: No such file or directory");
  CHECK_ERROR(load("/"), "cannot read the model file /: Is a directory");
  const std::string empty = temp_file("empty", "");
  CHECK_ERROR(load(empty), "the model file " + empty + " is empty");
  ModelOptions options;
  options.batch = 4;
  options.set = {{"B", 5}};
  CHECK_ERROR(load(kExamples + "masked_mlp.skirl", options), "--batch is 4, but --set B=5");
}

TEST_CASE("scopes of a model builder nest and end") {
  ModelBuilder m;
  const ValueId x = m.input("x", {2, 3}, 0);
  ValueId y;
  {
    const auto layer = m.tag("LAYER", 7);
    {
      const auto block = m.tag("BLOCK", "attn");
      y = m.tanh(x);
    }
    y = m.tanh(y);
  }
  y = m.tanh(y);
  m.mse("mse", y, x, 0.5);
  const Graph g = m.take();
  CHECK(tags_of(g, Op::Tanh) == std::vector<std::string>{"BLOCK=attn LAYER=7", "LAYER=7", ""});
}
