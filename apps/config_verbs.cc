// SPDX-License-Identifier: Apache-2.0
// troupe config: job files checked without running them.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/job_file.h"
#include "apps/json_text.h"
#include "apps/verbs.h"
#include "base/units.h"
#include "ops/table.h"
#include "train/job.h"
#include "train/keys.h"

namespace troupe::apps {
namespace {

/// A symbol file may be elsewhere and is not read; built-in networks are known here.
base::Status check_key_rules(const schemas::JobSpec& spec) {
  if (spec.model.network.empty()) return {};
  const ops::OpTable table = ops::OpTable::build();
  TROUPE_TRY_ASSIGN(const symbol::Symbol network, train::make_job_network(spec.model, table));
  return train::check_rules(network, {}, spec.train.keys);
}

const std::string& model_of(const schemas::JobSpec& spec) {
  return spec.model.network.empty() ? spec.model.symbol : spec.model.network;
}

/// "4 workers", "4 workers on GPUs of 40.0 GiB or more".
std::string text_of(const schemas::WorkersSpec& workers) {
  std::string text = base::format_counted(workers.devices, "worker");
  if (workers.device == schemas::WorkerDevice::cpu) return text;
  text += workers.devices == 1 ? " on a GPU" : " on GPUs";
  if (workers.memory == 0) return text;
  return fmt::format("{} of {} or more", text, base::format_bytes(workers.memory));
}

std::string line_of(const std::string& path, const schemas::JobSpec& spec) {
  return fmt::format("{}: valid: job '{}', {} on {} x {}, {}, {}", path, spec.name, model_of(spec),
                     base::format_counted(spec.workers.machines, "machine"), text_of(spec.workers),
                     base::format_counted(spec.shards(), "parameter server"),
                     base::format_counted(spec.train.epochs, "epoch"));
}

Json json_of_error(const ConfigError& error) {
  const bool placed = error.line != 0;
  return {{"file", json_or_null(error.file)},
          {"line", placed ? Json(error.line) : Json(nullptr)},
          {"column", placed ? Json(error.column) : Json(nullptr)},
          {"key", json_or_null(error.key)},
          {"text", error.text}};
}

Json json_of_all(const std::vector<ConfigError>& errors) {
  Json list = Json::array();
  for (const ConfigError& error : errors) list.push_back(json_of_error(error));
  return list;
}

Json json_of_check(const std::string& path, const JobFile& file) {
  const schemas::JobSpec& spec = file.spec;
  Json job = nullptr;
  if (file.errors.empty()) {
    job = {
        {"name", spec.name},
        {"model", model_of(spec)},
        {"machines", spec.workers.machines},
        {"workers_per_machine", spec.workers.devices},
        {"device", schemas::name_of(spec.workers.device)},
        {"gpu_memory_bytes", spec.workers.memory == 0 ? Json(nullptr) : Json(spec.workers.memory)},
        {"parameter_servers", spec.shards()},
        {"epochs", spec.train.epochs}};
  }
  return {{"file", path},
          {"valid", file.errors.empty()},
          {"job", std::move(job)},
          {"errors", json_of_all(file.errors)},
          {"warnings", json_of_all(file.warnings)}};
}

ExitCode check(const JobFileOptions& options, bool json, Context& context) {
  JobFile job = read_job_file(options.path, options.overrides);
  context.warn_all(job.warnings);
  if (job.errors.empty()) {
    const base::Status rules = check_key_rules(job.spec);
    if (!rules.ok()) job.errors.push_back({options.path, 0, 0, "", rules.text()});
  }
  const ExitCode code = job.errors.empty()
                            ? ExitCode::ok
                            : context.fail_all(job.errors, "this is no job that can run");
  if (json) {
    context.console.data(json_text(json_of_check(options.path, job)));
  } else if (code == ExitCode::ok) {
    context.console.line(line_of(options.path, job.spec));
  }
  return code;
}

}  // namespace

void add_config_verbs(CLI::App& app, Context& context) {
  CLI::App* config = add_family(app, "config", "Check job files");
  CLI::App* verb = config->add_subcommand(
      "check", describe("Check a job file; every error at once, with line and column",
                        {"troupe config check JOB.toml",
                         "troupe config check JOB.toml --set data.batch=64"}));
  const auto options = std::make_shared<JobFileOptions>();
  add_job_file_options(*verb, *options);
  const auto json = std::make_shared<bool>(false);
  add_json_flag(*verb, *json);
  set_action(verb, context, [&context, options, json] { return check(*options, *json, context); });
}

}  // namespace troupe::apps
