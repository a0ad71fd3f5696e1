// Law 1 under every schedule: see docs/schedules.md.
#include <catch2/catch.hpp>
#include <string>

#include "tests/support/law1.h"

using namespace skirl;
using skirl::test::Case;

namespace {

/// Layers of one matrix and a tanh each, with a skip from the first to the last or a table that is the head too.
std::string layers(std::int64_t count, const std::string& batch, bool skip, bool tied, const std::string& frozen = "") {
  std::string text = "dim B = " + batch + "\ndim S = 2\ndim H = 3\n";
  if (tied)
    text +=
        "input %t \"tokens\" : i64[B,S] cut 0 range 5\ninput %labels \"labels\" : i64[B,S] cut 0 range 5\n"
        "param %table \"table\" : f64[5,H] normal(0.5)\n%x = embedding %table %t LAYER=0\n";
  else
    text += "input %x \"x\" : f64[B,S,H] cut 0\ninput %y \"y\" : f64[B,S,H] cut 0\n";
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string n = std::to_string(i), tag = " LAYER=" + n + "\n";
    text += "param %w \"l" + n + ".w\" : f64[H,H] normal(0.6)" + (frozen.find(n) != std::string::npos ? " frozen" : "") + "\n";
    text += "%x = tanh (einsum \"bsi,ij->bsj\" %x %w)" + tag;
    if (skip && i == 0) text += "%first = scale %x {factor=0.5}" + tag;
  }
  const std::string last = " LAYER=" + std::to_string(count - 1) + "\n";
  if (skip) text += "%x = add %x %first" + last;
  if (tied)
    text += "%logits = einsum \"bsh,vh->bsv\" %x %table" + last + "loss \"nll\" = softmax_xent %logits %labels ignore 3\n";
  else
    text += "loss \"mse\" = mse %x %y weight 1.0\n";
  return text;
}

void check(const std::string& model, const std::string& strategy) {
  CAPTURE(strategy, model);
  OptimizerParams adam;
  adam.optimizer = "adamw";
  adam.lr = 0.01;
  double worst = 0;
  CHECK(skirl::test::broken({model, strategy, adam, 2}, Registry(), worst) == "");
}

std::string with_zero(const std::string& pipeline, int level) {
  return level == 0 ? pipeline : pipeline + " + zero(" + std::to_string(level) + ", dp=2)";
}

struct Pipeline {
  const char* schedule;
  std::int64_t ranks;
  std::int64_t stages;
};

/// Every schedule that cuts the batch, on two or three ranks.
constexpr Pipeline kPipelines[] = {{"gpipe", 3, 3}, {"1f1b", 3, 3}, {"looped_bfs", 2, 4}, {"interleaved", 2, 4},    {"grouped", 2, 4},
                                   {"zb1p", 3, 3},  {"zbh1", 3, 3}, {"zb2p", 3, 3},       {"interleaved_zb", 2, 4}, {"zbv", 2, 4},
                                   {"vhalf", 2, 4}, {"vmin", 2, 4}, {"dualpipe", 2, 2},   {"dualpipev", 2, 4},      {"list", 3, 3}};

std::string pipeline(const Pipeline& p, std::int64_t microbatches) {
  return "pp(" + std::to_string(p.ranks) + ", " + p.schedule + ", mb=" + std::to_string(microbatches) + ")";
}

}  // namespace

TEST_CASE("every schedule computes the step of one device, with each ZeRO level, a tie and a skip", "[A05][A06][A08][A26]") {
  int turn = 0;
  for (const Pipeline& p : kPipelines)
    for (int zero = 0; zero <= 3; ++zero, ++turn) {
      // Microbatches below, at and above the number of stages, and every shape, in turn.
      const std::int64_t microbatches = p.stages + turn % 3 - 1;
      check(layers(p.stages, "12", turn % 2 == 0, turn % 4 >= 2), with_zero(pipeline(p, microbatches), zero));
    }
}

TEST_CASE("a single microbatch and fewer than stages run to the end under every schedule", "[A02]") {
  for (const Pipeline& p : kPipelines)
    for (const std::int64_t microbatches : {1, 2}) check(layers(p.stages, "2", false, false), pipeline(p, microbatches));
  for (const std::int64_t microbatches : {1, 2, 3, 5, 6, 7})
    check(layers(8, "7", false, false), "pp(4, interleaved, mb=" + std::to_string(microbatches) + ")");
}

TEST_CASE("samples that do not divide by the microbatches, and layers by the stages", "[A03][A04]") {
  for (const Pipeline& p : kPipelines) check(layers(p.stages + 1, "8", false, false), pipeline(p, 3));
}

TEST_CASE("frozen layers have no weight cells to run, and what lies below them still gets its gradient", "[A24]") {
  for (const Pipeline& p : kPipelines) check(layers(4, "4", true, false, "1 3"), with_zero(pipeline(p, 4), 1));
}

TEST_CASE("every schedule, every ZeRO level, a tie and a skip, microbatches below, at and above the stages", "[.][all]") {
  for (const Pipeline& p : kPipelines)
    for (int zero = 0; zero <= 3; ++zero)
      for (const bool skip : {false, true})
        for (const bool tied : {false, true})
          for (const std::int64_t microbatches : {std::int64_t{1}, p.stages - 1, p.stages, p.stages + 1, 2 * p.stages + 1})
            check(layers(p.stages + (skip ? 1 : 0), "20", skip, tied), with_zero(pipeline(p, microbatches), zero));
}
