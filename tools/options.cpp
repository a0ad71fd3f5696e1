#include "tools/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "ir/error.h"
#include "tools/help.h"

namespace skirl {
namespace {

std::int64_t whole_number(const std::string& text, const std::string& what) {
  std::int64_t value = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || stop != text.data() + text.size() || value < 0)
    throw Error(what + " is '" + text.substr(0, 32) + "', expected a whole number of at least 0");
  return value;
}

/// The flags, by what they are about; each command takes the groups that mean something to it.
struct Flags {
  explicit Flags(Options& to) : o(to) {}

  void model(CLI::App& command) {
    command.add_option("--model", o.model, "built-in model (skirl list models), a model file, or a Hugging Face config.json")
        ->type_name("M")
        ->group("Model");
    command
        .add_option_function<std::vector<std::string>>(
            "--set",
            [this](const std::vector<std::string>& given) {
              for (const std::string& one : given) set_dim(one);
            },
            "another size for a dim of the model")
        ->type_name("DIM=N")
        ->allow_extra_args(false)
        ->group("Model");
    count(command, "--batch", o.batch, "samples in a step: the dim B")->group("Model");
    count(command, "--seq", o.seq, "length of a sequence: the dim S")->group("Model");
    count(command, "--layers", o.layers, "layers of a built-in model or config.json")->group("Model");
    count(command, "--hidden-scale", o.hidden_scale, "divide the widths of a config.json by this, to run it small")->group("Model");
    count(command, "--heads", o.heads, "attention heads")->group("Model");
    count(command, "--kv-heads", o.kv_heads, "heads of keys and values")->group("Model");
    count(command, "--vocab", o.vocab, "size of the vocabulary")->group("Model");
    command
        .add_option_function<std::string>(
            "--dtype", [this](const std::string& text) { set_dtype(text); }, "f64, f32, bf16 or f16; " + name_of_default_dtype(command))
        ->type_name("T")
        ->group("Model");
    command.add_option("--optimizer", o.optimizer.optimizer, "sgd, adamw or none; default " + o.optimizer.optimizer)->group("Model");
    number(command, "--lr", o.optimizer.lr, "learning rate; default 0.001")->group("Model");
    number(command, "--momentum", o.optimizer.momentum, "of sgd; default 0")->group("Model");
    number(command, "--weight-decay", o.optimizer.weight_decay, "default 0")->group("Model");
    command
        .add_option_function<double>(
            "--clip", [this](double norm) { o.optimizer.clip = finite(norm, "--clip"); }, "clip gradients to this global norm")
        ->type_name("X")
        ->group("Model");
  }

  void strategy(CLI::App& command) {
    command.add_option("--strategy", o.strategy, "such as \"pp(2, 1f1b, mb=4) + zero(1, dp=2)\", or a .json file; default: one device")
        ->type_name("S")
        ->group("Strategy");
    command
        .add_option("--mesh", o.mesh,
                    "axes of the strategy, outermost first, such as \"pp,dp,tp\": neighbours along the last have neighbouring devices")
        ->type_name("AXES")
        ->group("Strategy");
    command.add_option("--plugin", o.plugins, "load a shared library with more passes, strategies and schedules")
        ->type_name("LIB.so")
        ->allow_extra_args(false)
        ->group("Strategy");
    command.add_option("--dump", o.dump, "write the graph after each pass: 00_start.dag, …")->type_name("DIR")->group("Strategy");
    command
        .add_option_function<std::string>(
            "--stop-after",
            [this](const std::string& text) { o.stop_after = static_cast<std::size_t>(whole_number(text, "--stop-after")); },
            "stop after the N-th pass; 0: before the first")
        ->type_name("N")
        ->group("Strategy");
  }

  void running(CLI::App& command) {
    command
        .add_option_function<std::string>(
            "--steps",
            [this](const std::string& text) {
              o.steps = whole_number(text, "--steps");
              if (o.steps == 0) throw Error("--steps is 0, expected at least 1");
            },
            "training steps; default " + std::to_string(o.steps))
        ->type_name("N")
        ->group("Run");
    command
        .add_option_function<std::string>(
            "--seed", [this](const std::string& text) { o.seed = static_cast<std::uint64_t>(whole_number(text, "--seed")); },
            "of initial values, data and dropout; default 0")
        ->type_name("N")
        ->group("Run");
    command.add_option("--data", o.data, "train on the bytes of a file, or of all files of a folder; default: random inputs")
        ->type_name("TEXT")
        ->group("Run");
    command.add_option("--backend", o.backend, "what runs the plan (skirl list backends); default cpu")->type_name("NAME")->group("Run");
  }

  void schedule(CLI::App& command) {
    ScheduleOptions& s = o.schedule;
    command.add_option("--schedule", s.name, "a pipeline schedule (skirl list schedules) or a .csv file, drawn over time")
        ->type_name("NAME")
        ->group("Schedule");
    count(command, "--ranks", s.ranks, "pipeline ranks")->group("Schedule");
    count(command, "--mbs", s.microbatches, "microbatches")->group("Schedule");
    count(command, "--stages-per-rank", s.stages_per_rank, "stages that a rank works on; default: what the schedule takes")
        ->group("Schedule");
    count(command, "--group", s.group, "microbatches in a group, of grouped")->group("Schedule");
    count(command, "--sequence-parts", s.sequence_parts, "parts of a sequence, of seq1f1b")->group("Schedule");
    // As in `show --memory`, the flag without a number is about a plan.
    count(command, "--activations", s.memory, "activations that a rank may hold, of list")->group("Schedule");
    command.add_option("--times", s.times, "times of the stages, as JSON: what list plans for, and what is drawn")
        ->type_name("FILE")
        ->group("Schedule");
    command.add_flag("--csv", s.csv, "print the table as PyTorch's pipelining reads it")->group("Schedule");
    command.add_flag("--transfers", s.transfers, "with --csv: sends and receives written out")->group("Schedule");
    command.add_option("--svg", s.svg, "draw it as SVG")->type_name("FILE")->group("Schedule");
  }

  void json(CLI::App& command) {
    command.add_option("--json", o.json, "write what is printed as JSON too; - is standard output, and text goes to standard error")
        ->type_name("FILE")
        ->group("Output");
  }

  void output(CLI::App& command, const char* help, bool required) {
    CLI::Option* option = command.add_option("-o,--output", o.output, help)->type_name("FILE")->group("Output");
    if (required) option->required();
  }

  CLI::Option* count(CLI::App& command, const char* flag, std::optional<std::int64_t>& to, const char* help) {
    return command
        .add_option_function<std::string>(
            flag,
            [&to, flag](const std::string& text) {
              to = whole_number(text, flag);
              if (*to == 0) throw Error(std::string(flag) + " is 0, expected at least 1");
            },
            help)
        ->type_name("N");
  }

  CLI::Option* number(CLI::App& command, const char* flag, double& to, const char* help) {
    return command
        .add_option_function<double>(
            flag, [&to, flag](double value) { to = finite(value, flag); }, help)
        ->type_name("X");
  }

  static double finite(double value, const std::string& flag) {
    if (!std::isfinite(value) || value < 0) throw Error(flag + " is " + std::to_string(value) + ", expected a number of at least 0");
    return value;
  }

  void set_dim(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) throw Error("--set is '" + text.substr(0, 64) + "', expected DIM=N, such as B=16");
    const std::string dim = text.substr(0, equals);
    if (!o.set.emplace(dim, whole_number(text.substr(equals + 1), "--set " + dim)).second) throw Error("--set " + dim + " is given twice");
  }

  void set_dtype(const std::string& text) {
    const std::optional<DType> dtype = dtype_named(text);
    if (!dtype || !is_float(*dtype)) throw Error("--dtype is '" + text.substr(0, 32) + "'; known: f64, f32, bf16, f16");
    o.dtype = *dtype;
    dtype_given = true;
  }

  static std::string name_of_default_dtype(const CLI::App& command) {
    return command.get_name() == "check" ? "default f64" : "default f32";
  }

  Options& o;
  bool dtype_given = false;
};

void check_command(const CLI::App& app, const std::string& name) {
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  throw Error("there is no command '" + name.substr(0, 64) + "'; known: " + known);
}

void check_no_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results())
      if (value.empty()) throw Error(option->get_name() + " is empty");
}

bool is_given(const CLI::App& command, const std::string& flag) {
  const CLI::Option* option = command.get_option_no_throw(flag);
  return option != nullptr && option->count() > 0;
}

/// A saved plan holds the model, the optimizer and the strategy.
void check_plan_alone(const CLI::App& command, const std::string& plan) {
  for (const char* flag :
       {"--model", "--set", "--batch", "--seq", "--layers", "--hidden-scale", "--heads", "--kv-heads", "--vocab", "--dtype", "--optimizer",
        "--lr", "--momentum", "--weight-decay", "--clip", "--strategy", "--mesh", "--dump", "--stop-after"})
    if (is_given(command, flag))
      throw Error(command.get_name() + " takes a plan (" + plan + ") or " + flag + ", not both: the plan has settled that");
}

bool is_one_file(const std::string& a, const std::string& b) {
  std::error_code failed;
  const auto canonical = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path), failed);
  };
  return a == b || canonical(a) == canonical(b);
}

/// A schedule is drawn by itself; what is about one means nothing without it.
void check_schedule_alone(const CLI::App& command, const Options& o) {
  for (const char* flag : {"--model", "--set", "--batch", "--seq", "--dtype", "--optimizer", "--lr", "--momentum", "--weight-decay",
                           "--clip", "--strategy", "--dump", "--stop-after", "--directives", "--layouts", "--memory"})
    if (!o.schedule.name.empty() && is_given(command, flag))
      throw Error("show takes --schedule or " + std::string(flag) + ", not both: a schedule knows no model");
  if (!o.schedule.name.empty() && !o.plan.empty()) throw Error("show takes a plan (" + o.plan + ") or --schedule, not both");
  for (const char* flag : {"--ranks", "--mbs", "--stages-per-rank", "--group", "--sequence-parts", "--activations", "--times", "--csv",
                           "--transfers", "--svg"})
    if (o.schedule.name.empty() && is_given(command, flag)) throw Error(std::string(flag) + " is of show --schedule, which is not given");
  if (o.schedule.transfers && !o.schedule.csv) throw Error("--transfers is of --csv, which is not given");
  if (!o.schedule.svg.empty() && !o.json.empty() && is_one_file(o.schedule.svg, o.json))
    throw Error("--svg and --json name the same file " + o.json);
}

/// What no single flag can know.
void check_together(const CLI::App& command, const Options& o) {
  if (command.get_name() == "show") check_schedule_alone(command, o);
  if (!o.plan.empty()) check_plan_alone(command, o.plan);
  if (is_given(command, "--momentum") && o.optimizer.optimizer != "sgd")
    throw Error("--momentum is of sgd, but --optimizer is " + o.optimizer.optimizer);
  if (!o.mesh.empty() && o.strategy.empty()) throw Error("--mesh orders the axes of --strategy, which is missing");
  if (o.output == "-") throw Error("-o is '-', expected the name of a file");
  if (!o.output.empty() && !o.json.empty() && is_one_file(o.output, o.json)) throw Error("-o and --json name the same file " + o.json);
}

}  // namespace

std::optional<Options> parse_command_line(int argc, char** argv) {
  Options options;
  Flags flags(options);
  CLI::App app(kHelp, "skirl");
  app.set_version_flag("--version", "skirl " SKIRL_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(26);

  CLI::App& run = *app.add_subcommand("run", kHelpRun);
  run.add_option("plan", options.plan, "a plan that `skirl plan` wrote")->type_name("PLAN");
  flags.model(run);
  flags.strategy(run);
  flags.running(run);
  flags.json(run);

  CLI::App& check = *app.add_subcommand("check", kHelpCheck);
  flags.model(check);
  flags.strategy(check);
  flags.running(check);
  flags.json(check);

  CLI::App& dot = *app.add_subcommand("dot", kHelpDot);
  flags.model(dot);
  flags.strategy(dot);
  dot.add_option("--after", options.after, "draw the graph after this pass (the last of that name); start: before the first")
      ->type_name("PASS");
  dot.add_option("--filter", options.filter, "draw matching nodes only: {\"LAYER\": 3, \"PASS\": \"F\"}")->type_name("F");
  dot.add_option("--fold", options.fold, "merge nodes whose values of these tags are equal; on by itself above 300 nodes")
      ->type_name("TAG,…")
      ->delimiter(',');
  dot.add_flag("--no-fold", options.no_fold, "merge nothing, however many nodes");
  flags.output(dot, "X.dot or X.svg; default: DOT to standard output", false);
  flags.json(dot);

  CLI::App& plan = *app.add_subcommand("plan", kHelpPlan);
  flags.model(plan);
  flags.strategy(plan);
  flags.output(plan, "the plan", true);
  flags.json(plan);

  CLI::App& show = *app.add_subcommand("show", kHelpShow);
  show.add_option("plan", options.plan, "a plan that `skirl plan` wrote")->type_name("PLAN");
  flags.model(show);
  flags.strategy(show);
  show.add_flag("--directives", options.directives, "the directives that the strategy stands for, as JSON that --strategy reads");
  show.add_flag("--layouts", options.layouts, "how inputs, parameters, states and gradients lie on the devices");
  show.add_flag("--memory", options.memory, "bytes of each device's arena");
  flags.schedule(show);
  flags.json(show);

  CLI::App& list = *app.add_subcommand("list", kHelpList);
  list.add_option("kind", options.kind, "models, passes, strategies, schedules, backends or ops")->type_name("KIND")->required();
  list.add_option("--plugin", options.plugins, "load a shared library first")->type_name("LIB.so")->allow_extra_args(false);
  flags.json(list);

  if (argc > 1 && argv[1][0] != '-') check_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << (app.get_subcommands().empty() ? app.help() : app.get_subcommands().front()->help());
    return std::nullopt;
  } catch (const CLI::CallForVersion&) {
    std::cout << "skirl " SKIRL_VERSION "\n";
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    const std::string command = app.get_subcommands().empty() ? "" : " " + app.get_subcommands().front()->get_name();
    throw Error(error.what(), "", "skirl" + command + " --help");
  }
  const CLI::App& command = *app.get_subcommands().front();
  options.command = command.get_name();
  check_no_empty_values(command);
  check_together(command, options);
  if (options.command == "check" && !flags.dtype_given) options.dtype = DType::F64;
  return options;
}

}  // namespace skirl
