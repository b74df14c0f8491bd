// SPDX-License-Identifier: Apache-2.0
// troupe config: job files checked without running them.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/job_file.h"
#include "apps/verbs.h"
#include "base/units.h"

namespace troupe::apps {
namespace {

ExitCode check(const JobFileOptions& options, Context& context) {
  const JobFile job = read_job_file(options.path, options.overrides);
  if (!job.errors.empty()) return context.fail_lines(job.errors, "this is no job that can run");
  const schemas::JobSpec& spec = job.spec;
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
