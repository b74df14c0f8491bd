// SPDX-License-Identifier: Apache-2.0
// troupe run: a whole job in this process, or (run_hosts.h) on hosts that ssh reaches.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "actors/company.h"
#include "actors/metrics.h"
#include "apps/job_file.h"
#include "apps/metrics_options.h"
#include "apps/run_display.h"
#include "apps/run_hosts.h"
#include "apps/stop_signals.h"
#include "apps/verbs.h"
#include "base/address.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/units.h"
#include "gpu/inventory.h"
#include "http/server.h"
#include "monitoring/process.h"
#include "ops/numerics.h"
#include "ops/table.h"
#include "train/job_devices.h"

namespace troupe::apps {
namespace {

struct RunOptions {
  JobFileOptions job;
  MetricsOptions metrics{"127.0.0.1:0", {}};
  HostsOptions hosts;
  std::string trace_path;
  bool local_store = false;
  bool json = false;
};

/// Metrics and their endpoint, for as long as the job runs.
struct Watching {
  monitoring::Metrics metrics;
  monitoring::Collection process;
  std::unique_ptr<http::Server> server;
};

base::Result<std::unique_ptr<Watching>> watch(const MetricsOptions& options,
                                              const base::Limits& limits) {
  TROUPE_TRY_ASSIGN(const base::Address where, options.place());
  TROUPE_TRY_ASSIGN(http::Guard guard, options.guard(where));
  const std::string_view scheme = guard.tls == nullptr ? "http" : "https";
  auto watching = std::make_unique<Watching>();
  watching->process =
      monitoring::collect_process(watching->metrics, program_version(), ops::build_name(), "run");
  auto server = http::Server::start(where, limits, watching->metrics, {{}, std::move(guard), {}});
  if (!server.ok()) return server.status().with_context("--metrics");
  watching->server = *std::move(server);
  base::log_info("metrics on {}://{}/metrics", scheme, watching->server->address().to_string());
  return watching;
}

/// Keeps the figures of the job's end until Prometheus has them.
void hold(http::Server& server, std::uint64_t hold_ms, const std::atomic<bool>& stop) {
  base::log_info("holding until /metrics has been read, at most {} ms", hold_ms);
  const auto scraped = server.wait_scraped(hold_ms, [&stop] { return stop.load(); });
  if (scraped == http::Server::Scraped::late) {
    base::log_warn("nobody read /metrics within {} ms", hold_ms);
  }
}

/// Every worker and server brings threads of its own: a process that is full of them dies.
base::Status check_size(const schemas::JobSpec& spec) {
  constexpr std::uint32_t kRolesMax = 256;
  if (spec.ranks() <= kRolesMax && spec.shards() <= kRolesMax) return {};
  return base::error(base::Errc::resource_exhausted,
                     "{} workers (workers.machines x workers.devices) and servers.shards {}: one "
                     "process holds at most {} of each; a coordinator and agents hold more",
                     spec.ranks(), spec.shards(), kRolesMax);
}

/// More threads than processors are allowed, as they may be free at other times, and very slow.
void warn_of_threads(const schemas::JobSpec& spec) {
  const std::uint64_t wanted = std::uint64_t{spec.ranks()} * spec.workers.threads;
  const std::uint64_t processors = base::usable_processors();
  if (spec.workers.device != schemas::WorkerDevice::cpu) return;
  if (spec.workers.threads == 1 || wanted <= processors) return;
  base::log_warn(
      "{} of {} on {}: a step takes many times as long as with as many threads as "
      "processors",
      base::format_counted(spec.ranks(), "worker"),
      base::format_counted(spec.workers.threads, "thread"),
      base::format_counted(processors, "processor"));
}

/// Whether it hangs on the folder of the command where the job's data are.
bool has_relative_data(const schemas::JobSpec& spec) {
  for (const std::string& path : {spec.data.train, spec.data.test, spec.train.weights}) {
    if (!path.empty() && std::filesystem::path(path).is_relative()) return true;
  }
  return false;
}

/// Trains; `display` tells people, and at the end the results.
base::Status train_job(schemas::JobSpec spec, const RunOptions& options, RunDisplay& display,
                       const std::atomic<bool>& stop) {
  TROUPE_TRY(check_size(spec));
  warn_of_threads(spec);
  const bool relative = has_relative_data(spec);
  TROUPE_TRY(prepare_submission(spec));
  TROUPE_TRY(ops::cap_instruction_set(name_of(spec.numerics.isa)));
  const ops::OpTable table = ops::OpTable::build();
  const auto opened = train::open_job(spec, table);
  if (opened.status().code() == base::Errc::not_found && relative) {
    return base::Status(
        base::Errc::not_found,
        opened.status().text() + "; made absolute against the folder in which the command ran");
  }
  TROUPE_TRY(opened.status());
  const auto& job = *opened;
  TROUPE_TRY(train::check_room(*job, spec.ranks(), spec.shards()));
  TROUPE_TRY_ASSIGN(std::vector<base::Device> devices,
                    train::choose_gpus(job->spec, gpu::inventory()));
  if (!devices.empty() && devices.size() < spec.ranks()) {
    for (const std::string& problem : gpu::problems_of(gpu::inventory())) {
      base::log_warn("not used: {}", problem);
    }
    base::log_warn("{} share {}", base::format_counted(spec.ranks(), "worker"),
                   base::format_counted(devices.size(), "GPU"));
  }
  base::FolderLock lock;
  if (!spec.checkpoint.dir.empty()) {
    auto taken = base::FolderLock::take(spec.checkpoint.dir);
    if (!taken.ok()) return taken.status().with_context("checkpoint.dir");
    lock = std::move(taken).value();
  }
  if (!options.trace_path.empty()) {
    // Written at the end; that it can be is found out now.
    const base::Status status = base::AtomicFile(options.trace_path).open();
    if (!status.ok()) return status.with_context("--trace");
  }
  TROUPE_TRY_ASSIGN(const auto watching, watch(options.metrics, spec.limits));
  base::SteadyClock clock;
  const auto series = display.start(job, watching->metrics);
  actors::CompanyOptions how;
  how.run.trace_path = options.trace_path;
  how.run.stop = &stop;
  how.run.devices = std::move(devices);
  how.run.metrics = &watching->metrics;
  actors::ServerMetrics servers(watching->metrics, spec.name);
  servers.show_bounds(spec.consistency);
  how.server_observer = [&](schemas::ActorId server) { return servers.observer(server); };
  if (spec.train.hold == schemas::Hold::until_scraped) {
    how.run.at_end = [&] { hold(*watching->server, spec.limits.hold_ms, stop); };
  }
  const base::Status status = options.local_store
                                  ? train::run_local(job, table, clock, display, how.run)
                                  : actors::run_company(job, table, clock, display, how);
  display.end();
  return status;
}

ExitCode run(const RunOptions& options, Context& context) {
  const JobFile job = read_job_file(options.job.path, options.job.overrides);
  if (!job.errors.empty()) return context.fail_all(job.errors, "nothing was run");
  context.warn_all(job.warnings);
  if (!options.hosts.hosts.empty()) {
    return run_on_hosts(options.hosts, options.metrics, job.spec, options.json, context);
  }
  std::atomic<bool> stop{false};
  StopSignals signals([&stop, saves = !job.spec.checkpoint.dir.empty()](int) {
    base::log_info("stopping{}; once more to end at once", saves ? " with a checkpoint" : "");
    stop.store(true);
  });
  base::SteadyClock clock;
  RunDisplay display(context.console, clock);
  const base::Status status = train_job(job.spec, options, display, stop);
  if (!status.ok() && signals.received() != 0) {
    if (status.code() != base::Errc::cancelled) context.fail(status);  // it also failed
    context.console.note("stopped; " + display.way_on());
    return exit_code_of_signal(signals.received());
  }
  if (!status.ok()) {
    const ExitCode code = context.fail(status);
    // What does not fit into memory is found out by the actors themselves.
    const bool too_large = code == ExitCode::no_resources && !display.has_trained();
    return display.has_begun() && !too_large ? ExitCode::failed : code;
  }
  RunResult result = display.result();
  const bool scored = result.score && result.score->step == result.steps_total;
  if (signals.received() != 0 && !job.spec.data.test.empty() && !scored) {
    result.score.reset();  // of an epoch before, if any
    context.console.note("stopped; all steps are done, but the end is not scored");
  } else if (result.trained && !job.spec.data.test.empty() && !result.score) {
    context.console.note("data.test is not scored: the job has ended within its first epoch");
  }
  if (!result.trained && !options.trace_path.empty()) {
    context.console.note("warning: --trace: nothing was trained, so " + options.trace_path +
                         " is not written; --set checkpoint.dir=DIR trains anew");
  }
  context.console.data(options.json ? json_text(json_of(result)) : result.to_string());
  return ExitCode::ok;
}

}  // namespace

void add_run_verb(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "run", describe("Train a job in this process, from its newest checkpoint if there is one",
                      {"troupe run examples/fashion-lenet.toml",
                       "troupe run JOB.toml --set train.epochs=1 --set checkpoint.dir=out2",
                       "troupe run --hosts node1:2,ann@node2:2 JOB.toml"}));
  const auto options = std::make_shared<RunOptions>();
  add_job_file_options(*verb, options->job);
  add_metrics_options(*verb, options->metrics, "Where /metrics is served")->capture_default_str();
  add_hosts_options(*verb, options->hosts);
  CLI::Option* hosts = verb->get_option("--hosts");
  verb->add_option("--trace", options->trace_path,
                   "Write a Chrome trace of rank 0's engine; 'troupe trace' reads it")
      ->type_name("FILE.json")
      ->excludes(hosts);
  verb->add_flag("--local-store", options->local_store,
                 "Without the company's servers: the same bits, sequential tiers only")
      ->excludes(hosts);
  add_json_flag(*verb, options->json);
  set_action(verb, context, [&context, options] { return run(*options, context); });
}

}  // namespace troupe::apps
