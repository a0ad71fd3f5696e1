#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/random.h"
#include "tests/support/law1.h"

using namespace skirl;
using skirl::test::Case;

namespace {

/// Draws one thing after another from a seed.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : key_(random_key("dice", seed, 0)) {}
  std::int64_t from(std::int64_t least, std::int64_t most) {
    key_ = fold(key_, 1);
    return least + static_cast<std::int64_t>(uniform(key_) * static_cast<double>(most - least + 1));
  }
  bool chance(double p) {
    key_ = fold(key_, 2);
    return uniform(key_) < p;
  }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(from(0, static_cast<std::int64_t>(all.size()) - 1))];
  }

 private:
  std::uint64_t key_;
};

/// A random model and strategy, as plain choices that a shrink can simplify one by one.
struct Draw {
  std::int64_t batch = 6;
  std::int64_t width = 5;
  std::vector<std::string> layers;  // "tanh", "silu", "gelu", "rms", "norm", "drop", "mask", "frozen", "attention", "pair", "swiglu"
  bool tied = false;                // an embedding that is the head too
  bool skip = false;                // the first layer's result is added to the last's
  bool two_losses = false;
  std::int64_t pp = 1;
  std::int64_t mb = 1;
  std::string schedule = "1f1b";
  std::int64_t dp = 1;
  std::int64_t zero = 0;
  std::int64_t replicas = 1;  // of hsdp: groups of dp devices that store at level `zero`
  std::int64_t tp = 1;
  std::string sequence = "whole";  // "sp", "sp_regather"
  std::int64_t tp_width = 1;       // above 1: tp2d
  std::int64_t cp = 1;
  std::string attention = "ring";  // "ulysses", "gather"
  std::int64_t heads = 2;          // of queries; `keys` divides it
  std::int64_t keys = 1;
  std::string optimizer = "adamw";
  double momentum = 0;
  bool clip = false;
};

std::string model_of(const Draw& d) {
  std::string text = "dim B = " + std::to_string(d.batch) + "\ndim S = 3\ndim H = " + std::to_string(d.width) + "\n";
  text += "input %m \"mask\" : f64[1,1,H]\n";
  if (d.tied) {
    text += "input %t \"tokens\" : i64[B,S] cut 0 sequence 1 range 7\ninput %labels \"labels\" : i64[B,S] cut 0 sequence 1 range 7\n";
    text += "param %table \"table\" : f64[7,H] normal(0.5)\n%x = embedding %table %t BLOCK=embed\n";
  } else {
    text += "input %x \"x\" : f64[B,S,H] cut 0 sequence 1\ninput %y \"y\" : f64[B,S,H] cut 0 sequence 1\n";
  }
  for (std::size_t i = 0; i < d.layers.size(); ++i) {
    const std::string n = std::to_string(i);
    const std::string& kind = d.layers[i];
    const std::string tag = " LAYER=" + n + "\n";
    const std::string frozen = kind == "frozen" ? " frozen" : "";
    text += "param %w \"l" + n + ".w\" : f64[H,H] normal(0.4)" + frozen + "\n";
    text += "%h = einsum \"bsi,ij->bsj\" %x %w" + tag;
    if (kind == "tanh" || kind == "frozen") text += "param %b \"l" + n + ".b\" : f64[H] normal(0.1)\n%x = tanh (add %h %b)" + tag;
    if (kind == "silu") text += "%x = add %x (silu %h)" + tag;
    if (kind == "gelu") text += "%x = gelu %h" + tag;
    if (kind == "rms") text += "param %g \"l" + n + ".g\" : f64[H] ones\n%x = rms_norm %h %g {eps=1e-5}" + tag;
    if (kind == "norm")
      text +=
          "param %g \"l" + n + ".g\" : f64[H] ones\nparam %b \"l" + n + ".b\" : f64[H] zeros\n%x = layer_norm %h %g %b {eps=1e-5}" + tag;
    if (kind == "drop") text += "%x = dropout %h {p=0.3} \"l" + n + ".drop\"" + tag;
    if (kind == "mask") text += "%x = mul %h %m" + tag;
    if (kind == "attention") {
      const std::string heads = std::to_string(d.heads);
      const std::string keys = std::to_string(d.keys);
      text +=
          "param %q \"l" + n + ".q\" : f64[H," + heads + ",4] normal(0.5)\nparam %k \"l" + n + ".k\" : f64[H," + keys + ",4] normal(0.5)\n";
      text += "param %o \"l" + n + ".o\" : f64[" + heads + ",4,H] normal(0.5)\n";
      text += "%q = rope (einsum \"bsh,hnd->bsnd\" %h %q) {base=100.0}" + tag + "%k = einsum \"bsh,hnd->bsnd\" %h %k" + tag;
      text += "%a, %lse = attention %q %k %k {causal=true, scale=0.5}" + tag + "%x = add %x (einsum \"bsnd,ndh->bsh\" %a %o)" + tag;
    }
    if (kind == "pair" || kind == "swiglu") {
      text += "param %u \"l" + n + ".u\" : f64[H,7] normal(0.5)\nparam %d \"l" + n + ".d\" : f64[7,H] normal(0.5)\n";
      text += "param %c \"l" + n + ".c\" : f64[7] normal(0.1)\n";
      if (kind == "swiglu") text += "param %e \"l" + n + ".e\" : f64[H,7] normal(0.5)\n";
      const std::string up = "(add (einsum \"bsh,hf->bsf\" %h %u) %c)";
      text += "%f = " + (kind == "pair" ? "gelu " + up : "swiglu " + up + " (einsum \"bsh,hf->bsf\" %h %e)") + tag;
      text += "%x = add %x (dropout (einsum \"bsf,fh->bsh\" %f %d) {p=0.2} \"l" + n + ".out\")" + tag;
    }
    if (i == 0 && d.skip) text += "%first = scale %x {factor=0.5}" + tag;
  }
  const std::string last = " LAYER=" + std::to_string(d.layers.size() - 1) + "\n";
  if (d.two_losses) text += "%z = mul %x %x" + last + "loss \"size\" = sum %z weight 0.125" + last;
  if (d.skip) text += "%x = add %x %first" + last;
  if (d.tied)
    text += "%logits = einsum \"bsh,vh->bsv\" %x %table BLOCK=head\nloss \"nll\" = softmax_xent %logits %labels ignore 3\n";
  else
    text += "loss \"mse\" = mse %x %y weight 1.0\n";
  return text;
}

std::string strategy_of(const Draw& d) {
  std::string text;
  const auto add = [&](const std::string& item) { text += (text.empty() ? "" : " + ") + item; };
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  if (d.pp > 1 || d.mb > 1) add("pp(" + number(d.pp) + ", " + d.schedule + ", mb=" + number(d.mb) + ")");
  if (d.cp > 1) add("cp(" + number(d.cp) + ", " + d.attention + ")");
  if (d.tp_width > 1)
    add("tp2d(" + number(d.tp) + ", " + number(d.tp_width) + ")");
  else if (d.tp > 1)
    add("tp(" + number(d.tp) + ", " + d.sequence + ")");
  if (d.zero > 0 && d.replicas > 1)
    add("hsdp(" + number(d.dp) + ", " + number(d.replicas) + ", level=" + number(d.zero) + ")");
  else if (d.zero > 0)
    add("zero(" + number(d.zero) + ", dp=" + number(d.dp) + ")");
  else if (d.dp > 1 || text.empty())
    add("ddp(" + number(d.dp) + ")");
  return text;
}

Case case_of(const Draw& d) {
  Case c;
  c.model = model_of(d);
  c.strategy = strategy_of(d);
  c.optimizer.optimizer = d.optimizer;
  c.optimizer.lr = 0.05;
  c.optimizer.momentum = d.momentum;
  c.optimizer.weight_decay = 0.01;
  if (d.clip) c.optimizer.clip = 0.7;
  return c;
}

bool has(const Draw& d, std::initializer_list<const char*> kinds) {
  return std::any_of(d.layers.begin(), d.layers.end(),
                     [&](const std::string& layer) { return std::find(kinds.begin(), kinds.end(), layer) != kinds.end(); });
}

Draw random_draw(Dice& dice) {
  Draw d;
  d.batch = dice.from(2, 9);
  d.width = dice.from(1, 6);
  const std::vector<std::string> kinds{"tanh", "silu",   "gelu",      "rms",       "norm", "drop",
                                       "mask", "frozen", "attention", "attention", "pair", "swiglu"};
  for (std::int64_t i = dice.from(2, 5); i > 0; --i) d.layers.push_back(dice.one_of(kinds));
  d.tied = dice.chance(0.4);
  d.skip = dice.chance(0.4);
  d.two_losses = dice.chance(0.3);
  d.pp = dice.from(1, static_cast<std::int64_t>(d.layers.size()));
  d.mb = dice.from(1, d.batch);
  d.schedule = dice.one_of<std::string>({"1f1b", "gpipe"});
  d.dp = dice.from(1, 3);
  d.zero = dice.from(0, 3);
  if (d.zero > 0 && dice.chance(0.2)) d.replicas = 2;
  d.keys = dice.from(1, 3);
  d.heads = d.keys * dice.from(1, 3);
  if (has(d, {"attention", "pair", "swiglu"}) && dice.chance(0.6)) {  // there is a dimension between two matrices
    d.tp = dice.from(1, 4);
    if (d.tp > 1) d.sequence = dice.one_of<std::string>({"whole", "sp", "sp_regather"});
  }
  if (dice.chance(0.4)) {
    d.cp = dice.from(2, 3);
    d.attention = dice.one_of<std::string>(has(d, {"attention"}) ? std::vector<std::string>{"ring", "ulysses", "gather"}
                                                                 : std::vector<std::string>{"gather"});
  }
  d.optimizer = dice.one_of<std::string>({"adamw", "sgd"});
  d.momentum = d.optimizer == "sgd" && dice.chance(0.5) ? 0.9 : 0.0;
  d.clip = dice.chance(0.5);
  return d;
}

/// Whether no recipe of the draw has nothing to do.
bool legal(const Draw& d) {
  if (d.tp > 1 && !has(d, {"attention", "pair", "swiglu"})) return false;
  return d.cp == 1 || d.attention != "ring" || has(d, {"attention"});
}

bool trains_something(const Draw& d) {
  for (const std::string& layer : d.layers)
    if (layer != "frozen") return true;
  return d.tied;
}

/// The simplest draw that still fails: features are taken away one by one for as long as the case stays broken.
Draw shrunk(Draw d, const std::function<bool(const Draw&)>& fails) {
  bool simpler = true;
  while (simpler) {
    simpler = false;
    std::vector<Draw> candidates;
    const auto with = [&](const std::function<void(Draw&)>& change) {
      Draw next = d;
      change(next);
      candidates.push_back(next);
    };
    for (std::size_t i = 0; d.layers.size() > 1 && i < d.layers.size(); ++i)
      with([&](Draw& n) {
        n.layers.erase(n.layers.begin() + static_cast<std::ptrdiff_t>(i)),
            n.pp = std::min<std::int64_t>(n.pp, static_cast<std::int64_t>(n.layers.size()));
      });
    for (std::size_t i = 0; i < d.layers.size(); ++i)
      if (d.layers[i] != "tanh") with([&](Draw& n) { n.layers[i] = "tanh"; });
    if (d.tied) with([](Draw& n) { n.tied = false; });
    if (d.skip) with([](Draw& n) { n.skip = false; });
    if (d.two_losses) with([](Draw& n) { n.two_losses = false; });
    if (d.clip) with([](Draw& n) { n.clip = false; });
    if (d.zero > 0) with([](Draw& n) { --n.zero; });
    if (d.replicas > 1) with([](Draw& n) { n.replicas = 1; });
    if (d.tp > 1) with([](Draw& n) { --n.tp; });
    if (d.sequence != "whole") with([](Draw& n) { n.sequence = "whole"; });
    if (d.cp > 1) with([](Draw& n) { --n.cp; });
    if (d.heads > d.keys) with([](Draw& n) { n.heads -= n.keys; });
    if (d.keys > 1) with([](Draw& n) { n.heads = n.heads / n.keys, n.keys = 1; });
    if (d.pp > 1) with([](Draw& n) { --n.pp; });
    if (d.mb > 1) with([](Draw& n) { --n.mb; });
    if (d.dp > 1) with([](Draw& n) { --n.dp; });
    if (d.optimizer != "sgd" || d.momentum > 0) with([](Draw& n) { n.optimizer = "sgd", n.momentum = 0; });
    for (const Draw& candidate : candidates)
      if (legal(candidate) && trains_something(candidate) && fails(candidate)) {
        d = candidate;
        simpler = true;
        break;
      }
  }
  return d;
}

}  // namespace

TEST_CASE("random strategies over random models compute the same step, after every pass and on cpu") {
  const Registry registry;
  const auto broken = [&](const Draw& d) {
    double worst = 0;
    return test::broken(case_of(d), registry, worst);
  };
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Dice dice(seed);
    const Draw d = random_draw(dice);
    if (!trains_something(d)) continue;
    if (test::broken(case_of(d), registry, worst).empty()) continue;
    const Draw small = shrunk(d, [&](const Draw& candidate) { return !broken(candidate).empty(); });
    FAIL("seed " << seed << ", shrunk to --strategy \"" << strategy_of(small) << "\" --optimizer " << small.optimizer << " of\n"
                 << model_of(small) << broken(small));
  }
  CHECK(worst > 0);  // the two ways to run are not one and the same
}

TEST_CASE("every pipeline x zero product holds for microbatches below, at and above the stages") {
  const Registry registry;
  Draw d;
  d.batch = 7;
  d.layers = {"tanh", "drop", "silu", "rms"};
  d.tied = d.skip = d.two_losses = d.clip = true;
  for (const std::int64_t pp : {2, 3, 4})
    for (const std::string schedule : {"gpipe", "1f1b"})
      for (const std::int64_t mb : {pp - 1, pp, pp + 2})
        for (const std::int64_t zero : {0, 1, 2, 3})
          for (const std::int64_t dp : {2, 3}) {
            d.pp = pp;
            d.schedule = schedule;
            d.mb = mb;
            d.zero = zero;
            d.dp = dp;
            double worst = 0;
            INFO(strategy_of(d));
            CHECK(test::broken(case_of(d), registry, worst) == "");
          }
}
