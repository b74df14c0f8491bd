// SPDX-License-Identifier: Apache-2.0
// troupe config: job files checked without running them.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/job_file.h"
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

ExitCode check(const JobFileOptions& options, Context& context) {
  const JobFile job = read_job_file(options.path, options.overrides);
  if (!job.errors.empty()) return context.fail_lines(job.errors, "this is no job that can run");
  const schemas::JobSpec& spec = job.spec;
  const base::Status rules = check_key_rules(spec);
  if (!rules.ok()) return context.fail(rules);
  context.console.data(
      fmt::format("{}: valid: job '{}', {} on {} x {}, {}, {}\n", options.path, spec.name,
                  spec.model.network.empty() ? spec.model.symbol : spec.model.network,
                  base::format_counted(spec.workers.machines, "machine"),
                  base::format_counted(spec.workers.devices, "worker"),
                  base::format_counted(spec.shards(), "parameter server"),
                  base::format_counted(spec.train.epochs, "epoch")));
  return ExitCode::ok;
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
  set_action(verb, context, [&context, options] { return check(*options, context); });
}

}  // namespace troupe::apps
