// SPDX-License-Identifier: Apache-2.0
// troupe model list: the built-in networks. troupe model inspect: a network's layers, shapes,
// parameters, kernels and planned memory, found by binding it as a worker would. troupe model
// autotune: kernels chosen by measuring, for a job's numerics.kernels.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "apps/model_list.h"
#include "apps/model_report.h"
#include "apps/stop_signals.h"
#include "apps/verbs.h"
#include "base/file.h"
#include "base/log.h"
#include "base/shape.h"
#include "base/units.h"
#include "cluster/device_list.h"

namespace troupe::apps {
namespace {

/// How the network is to be shown.
struct InspectVerb {
  InspectOptions model;
  bool dot = false;
  bool json = false;
  bool why = false;
  bool passes = false;
};

ExitCode inspect(const InspectVerb& verb, Context& context) {
  if (verb.dot || verb.passes) {
    const auto text = verb.dot ? model_dot(verb.model) : model_passes(verb.model);
    if (!text.ok()) return context.fail(text.status());
    context.console.data(*text);
    return ExitCode::ok;
  }
  const auto report = inspect_model(verb.model);
  if (!report.ok()) return context.fail(report.status());
  context.console.data(verb.json ? json_text(json_of(*report)) : report->to_string(verb.why));
  if (report->stored_choices == 0) {
    context.console.note("warning: " + symbol::unused_choices_text(verb.model.kernels));
  }
  return ExitCode::ok;
}

/// What is tuned, and where what was found goes.
struct AutotuneVerb {
  InspectOptions model;
  std::string output;
  std::string time = "5m";
};

/// What is there and holds no kernel choices was named by mistake.
base::Status check_replaced(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return {};
  const base::Status there = symbol::KernelChoices::load(path).status();
  if (there.ok()) return {};
  return base::error(base::Errc::already_exists,
                     "{}; a file with other content than kernel choices is not replaced, name "
                     "another --output",
                     there.text());
}

/// What the file at `path` has of calls that `choices` lacks joins them.
void keep_older(const std::string& path, symbol::KernelChoices& choices) {
  auto older = symbol::KernelChoices::load(path);
  if (!older.ok()) return;  // there is none
  const std::size_t before = choices.calls.size();
  choices.calls.merge(older->calls);
  const bool same_machine = choices.machine.find(older->machine) != std::string::npos;
  if (choices.calls.size() > before && !same_machine) {
    choices.machine += "; " + older->machine;
  }
}

ExitCode autotune(const AutotuneVerb& verb, Context& context) {
  // That the file can be written is found out before the time is spent.
  base::Status status = check_replaced(verb.output);
  if (status.ok()) status = base::AtomicFile(verb.output).open();
  if (!status.ok()) return context.fail(status);
  constexpr double kMilliseconds = 1e-3;
  const auto most_ms = static_cast<double>(base::parse_duration_ms(verb.time).value());
  std::atomic<bool> stop{false};
  StopSignals signals([&stop](int) {
    base::log_info("stopping with what was measured; once more to end at once");
    stop.store(true);
  });
  auto tuned = autotune_model(verb.model, most_ms * kMilliseconds, stop);
  if (!tuned.ok()) return context.fail(tuned.status());
  const bool stopped = signals.received() != 0 && tuned->left > 0;
  const ExitCode code = stopped ? exit_code_of_signal(signals.received()) : ExitCode::ok;
  if (tuned->choices.calls.empty()) {  // nor was anything given to go on from
    context.console.note(fmt::format("{}: nothing was measured, so {} is not written",
                                     stopped ? "stopped" : "warning: in " + verb.time,
                                     verb.output));
    return stopped ? code : ExitCode::failed;
  }
  status = check_replaced(verb.output);  // some time has passed
  if (!status.ok()) return context.fail(status);
  keep_older(verb.output, tuned->choices);
  const std::string text = tuned->choices.to_json();
  // What was there stays as it was rather than become too large to be read.
  status = symbol::KernelChoices::from_json(text, verb.output).status();
  if (status.ok()) {
    status = base::write_file_atomically(verb.output, std::as_bytes(std::span(text)));
  }
  if (!status.ok()) return context.fail(status);
  context.console.line(fmt::format("{}: kernels for {}; measured now: {}", verb.output,
                                   base::format_counted(tuned->choices.calls.size(), "call"),
                                   tuned->measured));
  if (tuned->left > 0) {
    context.console.note(
        stopped
            ? fmt::format("stopped: {} left to the rule; --kernels {} goes on from here",
                          base::format_counted(tuned->left, "call"), verb.output)
            : fmt::format("warning: {} left to the rule, which did not fit into the time of {}; "
                          "--kernels {} goes on from here, if need be with a longer --time",
                          base::format_counted(tuned->left, "call"), verb.time, verb.output));
  }
  if (tuned->failed > 0) {
    context.console.note(
        fmt::format("warning: {} left to the rule: no kernel could be run, for want of memory "
                    "perhaps",
                    base::format_counted(tuned->failed, "call")));
  }
  return code;
}

ExitCode list(bool json, Context& context) {
  const auto models = list_models();
  if (!models.ok()) return context.fail(models.status());
  context.console.data(json ? json_text(json_of(*models)) : model_table(*models));
  return ExitCode::ok;
}

void add_list_verb(CLI::App& family, Context& context) {
  CLI::App* verb = family.add_subcommand(
      "list", describe("List the built-in networks: image, classes, parameters and multiply-adds "
                       "of one sample",
                       {"troupe model list", "troupe model list --json"}));
  const auto json = std::make_shared<bool>(false);
  add_json_flag(*verb, *json);
  set_action(verb, context, [&context, json] { return list(*json, context); });
}

/// "cpu", "gpu", "gpu:2".
std::optional<base::Device> parse_device(std::string_view name) {
  if (name == "cpu") return base::Device{};
  if (name == "gpu") return base::Device{base::DeviceKind::cuda, 0};
  const auto list = cluster::parse_device_list(name);
  if (!list.ok() || list->cpu_slots != 0 || list->gpus.size() != 1) return {};
  return base::Device{base::DeviceKind::cuda, static_cast<std::int32_t>(list->gpus.front())};
}

void add_options(CLI::App* verb, InspectOptions& options) {
  verb->add_option("NAME|FILE.json", options.model,
                   "A built-in network (troupe model list), or a symbol file")
      ->required()
      ->type_name("");
  verb->add_option(
          "--input", options.input,
          "Shape of one sample; default: what the network was made for, 1,28,28 for a file")
      ->type_name("C,H,W")
      ->check([](const std::string& text) {
        const auto shape = base::parse_shape(text);
        if (!shape.ok()) return shape.status().text();
        return shape->rank() == 0 ? std::string("a sample needs an extent") : std::string();
      });
  set_range(verb->add_option("--batch", options.batch, "Samples per step")->capture_default_str(),
            1, 1 << 20);
  set_range(verb->add_option("--classes", options.classes,
                             "Classes of a built-in network; default: the network's own"),
            1, 1 << 30);
  set_range(
      verb->add_option("--threads", options.threads, "Compute threads")->capture_default_str(), 1,
      1024);
  verb->add_option_function<std::string>(
          "--device", [&options](const std::string& name) { options.device = *parse_device(name); },
          "What it runs on: cpu (the default), gpu or gpu:INDEX")
      ->check([](const std::string& name) -> std::string {
        return parse_device(name) ? "" : "is none of cpu, gpu and gpu:INDEX: " + name;
      })
      ->type_name("DEVICE");
  verb->add_flag("--tf32", options.tf32,
                 "On a GPU: products of f32 take factors that are rounded to TF32");
  verb->add_flag("--dense", options.dense, "No blocked layouts");
  verb->add_flag("--reference", options.reference_only, "Plain reference kernels only");
  verb->add_flag_callback(
      "--no-winograd", [&options] { options.winograd = false; },
      "No convolution in Winograd's form");
  verb->add_option_function<std::string>(
          "--dtype",
          [&options](const std::string& name) {
            options.products = base::parse_dtype(name).value();
          },
          "Type in which products are computed, as numerics.dtype of a job: f32 (the default), "
          "bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->type_name("TYPE");
  verb->add_option("--kernels", options.kernels,
                   "Kernels that go before the rule's: what troupe model autotune has written")
      ->type_name("FILE");
}

/// What training keeps, how much it may, and how much of a batch predictions take at a time.
void add_memory_options(CLI::App* verb, InspectOptions& options) {
  const std::map<std::string, symbol::Recompute> policies = {{"none", symbol::Recompute::none},
                                                             {"cheap", symbol::Recompute::cheap},
                                                             {"sqrt", symbol::Recompute::sqrt}};
  CLI::Option* recompute = verb->add_option_function<std::string>(
                                   "--recompute",
                                   [&options, policies](const std::string& name) {
                                     options.recompute = policies.at(name);
                                   },
                                   "What training computes once more instead of keeping it: none "
                                   "(the default on a GPU), "
                                   "cheap (the default on a CPU) or sqrt")
                               ->check(CLI::IsMember({"none", "cheap", "sqrt"}))
                               ->type_name("WHAT");
  verb->add_option_function<std::string>(
          "--budget",
          [&options](const std::string& text) {
            options.budget = base::parse_bytes(text).value();
            if (options.budget > 0) options.recompute = symbol::Recompute::budget;
          },
          "What training's values and scratch may take, such as 4g: recompute what costs least; "
          "0: anything")
      ->check(check_size)
      ->excludes(recompute)
      ->type_name("SIZE");
  const std::map<std::string, symbol::MemoryMode> modes = {
      {"none", symbol::MemoryMode::none},
      {"in-place", symbol::MemoryMode::in_place},
      {"share", symbol::MemoryMode::share},
      {"both", symbol::MemoryMode::both}};
  verb->add_option_function<std::string>(
          "--memory",
          [&options, modes](const std::string& name) { options.memory = modes.at(name); },
          "How values share memory: none, in-place, share or both (the default, as in jobs)")
      ->check(CLI::IsMember({"none", "in-place", "share", "both"}))
      ->type_name("HOW");
  set_range(
      verb->add_option(
          "--sub-batch", options.sub_batch,
          "Samples that a prediction computes at a time; 0, the default: chosen; the batch: all"),
      0, 1 << 20);
}

void add_autotune_verb(CLI::App& family, Context& context) {
  CLI::App* verb = family.add_subcommand(
      "autotune",
      describe("Measure a network's kernels on this machine and write down the best, for a job's "
               "numerics.kernels",
               {"troupe model autotune resnet50 --batch 32 --threads 2 -o kernels.json",
                "troupe model autotune resnet50 --batch 256 --dtype bf16 --device gpu -o gpu.json",
                "troupe model autotune resnet50 --batch 8 --kernels kernels.json -o kernels.json",
                "troupe model inspect resnet50 --kernels kernels.json",
                "troupe run JOB.toml --set numerics.kernels=kernels.json"}));
  const auto options = std::make_shared<AutotuneVerb>();
  add_options(verb, options->model);
  verb->add_option("-o,--output", options->output, "The file to write")
      ->required()
      ->type_name("FILE");
  verb->add_option("--time", options->time, "About how long to measure, at most")
      ->capture_default_str()
      ->check(check_duration)
      ->type_name("TIME");
  set_action(verb, context, [&context, options] { return autotune(*options, context); });
}

}  // namespace

void add_model_verbs(CLI::App& app, Context& context) {
  CLI::App* family = add_family(app, "model", "Look at networks");
  add_list_verb(*family, context);
  add_autotune_verb(*family, context);
  CLI::App* verb = family->add_subcommand(
      "inspect", describe("Show a network's layers, shapes, parameters and planned memory",
                          {"troupe model inspect lenet", "troupe model inspect resnet50 --why",
                           "troupe model inspect net.json --input 3,32,32 --batch 64",
                           "troupe model inspect resnet50 --batch 64 --budget 2g",
                           "troupe model inspect resnet50 --batch 256 --dtype bf16 --device gpu",
                           "troupe model inspect lenet --dot | dot -Tsvg > lenet.svg"}));
  const auto options = std::make_shared<InspectVerb>();
  add_options(verb, options->model);
  add_memory_options(verb, options->model);
  CLI::Option* json = add_json_flag(*verb, options->json);
  CLI::Option* why = verb->add_flag("--why", options->why,
                                    "Below each layer: the kernels that declined it, and why; at "
                                    "the end the reorders")
                         ->excludes(json);
  CLI::Option* dot =
      verb->add_flag("--dot", options->dot, "Print the graph as graphviz dot text instead")
          ->excludes(json)
          ->excludes(why);
  for (const char* unused :
       {"--threads", "--device", "--tf32", "--dense", "--reference", "--no-winograd", "--dtype",
        "--kernels", "--recompute", "--budget", "--memory", "--sub-batch"}) {
    dot->excludes(verb->get_option(unused));
  }
  verb->add_flag(
          "--print-passes", options->passes,
          "Print what is alive where most memory is needed, and every node after all passes, "
          "instead: the offers weighed for it and their times by rule, its kernel, layouts "
          "and places in memory")
      ->excludes(json)
      ->excludes(dot)
      ->excludes(why);
  set_action(verb, context, [&context, options] { return inspect(*options, context); });
}

}  // namespace troupe::apps
