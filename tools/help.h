#pragma once

/// What the commands say about themselves: `skirl --help`, `skirl run --help`, ….
namespace skirl {

inline constexpr const char* kHelp =
    R"help(skirl compiles training strategies: one training step of a whole cluster is one graph, a strategy is a list of rewrites
of it, and a backend runs what comes out.

  skirl run   --model gpt-tiny --strategy "pp(2, 1f1b, mb=4) + zero(1, dp=2)" --data book.txt --steps 100
  skirl check --model "mlp(4,16)" --strategy "ddp(2)"         every pass computes the same step as one device
  skirl dot   --model "mlp(2,8)" --strategy "ddp(2)" -o step.svg
  skirl list  strategies                                      what can be named

Exit status: 0 done; 1 a check failed; 2 bad input; 3 failed while running.)help";

inline constexpr const char* kHelpRun =
    R"help(Trains a model: with a strategy, or as a saved plan says.

  skirl run --model gpt-tiny --data /usr/share/common-licenses --steps 200 --lr 0.003
  skirl run --model "mlp(4,16)" --strategy "zero(2, dp=2)" --steps 5 --json -
  skirl plan --model gpt-tiny --strategy "pp(2, mb=4)" -o gpt.plan && skirl run gpt.plan --steps 10)help";

inline constexpr const char* kHelpCheck =
    R"help(Runs the training step after every pass of a strategy, and the plan on the backend at the end, and compares losses,
gradients, updated parameters and states with the untouched one-device step. A deviation is relative to the largest
magnitude of its role. A line a pass; exit status 1, and the name of the pass, where one computes something else.

  skirl check --model "mlp(4,16)" --strategy "pp(2, 1f1b, mb=4) + zero(1, dp=2)" --steps 3)help";

inline constexpr const char* kHelpDot =
    R"help(Draws the graph, by default after the last pass.

  skirl dot --model "mlp(2,8)" --strategy "ddp(2)" -o step.svg
  skirl dot --model gpt-tiny --strategy "pp(2, mb=2)" --after split --filter '{"LAYER": 0, "PASS": "B"}' -o layer0.dot)help";

inline constexpr const char* kHelpPlan =
    R"help(Lowers the graph to a plan: what each device does, in which buffers. `skirl run PLAN` runs it, `skirl show PLAN` tells
about it.

  skirl plan --model gpt-tiny --strategy "zero(3, dp=4)" -o gpt.plan)help";

inline constexpr const char* kHelpShow =
    R"help(Tells what a strategy makes of a model, or what a saved plan holds.

  skirl show --model "mlp(4,16)" --strategy "pp(2) + ddp(2)" --directives > strategy.json
  skirl show --model "mlp(4,16)" --strategy "zero(3, dp=2)" --layouts
  skirl show gpt.plan --memory
  skirl show --schedule zbv --ranks 4 --mbs 8 --svg zbv.svg)help";

inline constexpr const char* kHelpList =
    R"help(Prints what can be named, with its parameters and where it comes from.

  skirl list strategies
  skirl list passes --plugin ./libmine.so)help";

}  // namespace skirl
