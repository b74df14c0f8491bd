// SPDX-License-Identifier: Apache-2.0
// troupe coordinator, troupe agent, and what agents start: troupe internal.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>

#include "apps/agent_devices.h"
#include "apps/checkpoint_files.h"
#include "apps/config_file.h"
#include "apps/coordinator_call.h"
#include "apps/host_text.h"
#include "apps/limits_file.h"
#include "apps/metrics_options.h"
#include "apps/stop_signals.h"
#include "apps/verbs.h"
#include "base/address.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/units.h"
#include "cluster/agent_node.h"
#include "cluster/certificate_age.h"
#include "cluster/coordinator_node.h"
#include "cluster/device_list.h"
#include "cluster/device_watch.h"
#include "cluster/job_process.h"
#include "cluster/page_address.h"
#include "control/gpu_slots.h"
#include "gpu/inventory.h"
#include "http/server.h"
#include "monitoring/machine.h"
#include "monitoring/process.h"
#include "ops/numerics.h"
#include "ops/table.h"
#include "train/resume.h"

namespace troupe::apps {
namespace {

/// Options of all three.
struct ProcessVerb {
  std::string limits_path;
  std::string listen;
  MetricsOptions metrics;
  std::string ports;
  std::string state;
  std::string join;
  std::string join_wait;
  std::uint64_t agents = 0;
  std::string name;
  std::string host = "127.0.0.1";
  std::string devices = "cpu:1";
  schemas::JobRoots roots;
  cluster::JobProcessOptions process;
  std::string role;
  std::vector<std::string> process_limits;
};

/// The limits file's limits; false after its errors have been shown.
bool read_limits(const ProcessVerb& options, Context& context, base::Limits& limits) {
  if (options.limits_path.empty()) return true;
  const LimitsFile file = read_limits_file(options.limits_path, base::FileKind::any);
  limits = file.limits;
  if (!file.errors.empty()) context.fail_all(file.errors, "nothing was started");
  return file.errors.empty();
}

/// The roots as absolute paths without links. Error: one that is no folder.
base::Status resolve_roots(schemas::JobRoots& roots) {
  for (std::string* root : {&roots.data, &roots.checkpoints}) {
    if (root->empty()) continue;
    std::error_code code;
    const auto folder = std::filesystem::canonical(*root, code);
    if (!code && !std::filesystem::is_directory(folder, code) && !code) {
      code = std::make_error_code(std::errc::not_a_directory);
    }
    if (code) {
      return base::error(base::errc_of_errno(code.value()), "{} {}: {}",
                         root == &roots.data ? "--data-root" : "--checkpoint-root", *root,
                         code.message());
    }
    *root = folder.string();
  }
  return {};
}

/// An address that --identity allows.
base::Result<base::Address> address_of(const std::string& option, const std::string& text,
                                       const Context& context) {
  auto address = base::parse_address_within(
      text, context.identity.empty() ? base::Reach::loopback : base::Reach::network);
  return address.ok() ? std::move(address) : address.status().with_context(option);
}

/// Null without --identity.
base::Result<std::shared_ptr<cluster::IdentityFile>> open_identity(const Context& context,
                                                                   trust::Role role) {
  if (context.identity.empty()) return std::shared_ptr<cluster::IdentityFile>();
  auto identity = cluster::IdentityFile::open(context.identity, role);
  return identity.ok() ? std::move(identity)
                       : identity.status().with_context(context.identity_source());
}

/// Two addresses of this machine, each with a port of its own.
base::Status set_addresses(const ProcessVerb& verb, const Context& context,
                           cluster::CoordinatorNodeOptions& options) {
  TROUPE_TRY_ASSIGN(const base::Address listen, address_of("--listen", verb.listen, context));
  TROUPE_TRY_ASSIGN(options.pages, verb.metrics.place());
  options.listen = verb.listen;
  options.pages_host = pages_host(options.pages, listen);
  if (listen != options.pages || listen.port == 0) return {};
  return base::error(base::Errc::invalid_argument,
                     "--listen and --metrics are both {}; each needs its own port",
                     listen.to_string());
}

/// --join-wait, where it is given, is the limit.
base::Status set_join_wait(const ProcessVerb& verb, base::Limits& limits) {
  if (verb.join_wait.empty()) return {};
  TROUPE_TRY_ASSIGN(limits.join_wait_ms, base::parse_duration_ms(verb.join_wait));
  return {};
}

ExitCode run_coordinator_verb(const ProcessVerb& verb, Context& context) {
  cluster::CoordinatorNodeOptions options;
  if (const base::Status fault = set_addresses(verb, context, options); !fault.ok()) {
    const ExitCode code = context.fail(fault);
    return fault.code() == base::Errc::invalid_argument ? ExitCode::bad_usage : code;
  }
  if (!read_limits(verb, context, options.limits)) return ExitCode::bad_input;
  base::Status wait = set_join_wait(verb, options.limits);
  const auto row =
      std::ranges::find(base::limit_table(), &base::Limits::join_wait_ms, &base::LimitInfo::member);
  if (wait.ok() && !row->allows(options.limits.join_wait_ms)) {
    wait = base::error(base::Errc::invalid_argument, "--join-wait {}: expected {} to {} ms",
                       verb.join_wait, row->least, row->most);
  }
  if (!wait.ok()) return context.fail(wait);
  options.agents = verb.agents;
  schemas::JobRoots roots = verb.roots;
  if (const base::Status resolved = resolve_roots(roots); !resolved.ok()) {
    return context.fail(resolved);
  }
  auto identity = open_identity(context, trust::Role::coordinator);
  if (!identity.ok()) return context.fail(identity.status());
  options.identity = *std::move(identity);
  auto guard = verb.metrics.guard(options.pages);
  if (!guard.ok()) return context.fail(guard.status());
  options.guard = *std::move(guard);
  std::atomic<bool> stop{false};
  StopSignals signals([&stop](int) { stop.store(true); });
  options.state_folder = verb.state;
  options.version = program_version();
  options.stop = [&stop] { return stop.load(); };
  options.find_start = [roots](const control::FindStart& find) {
    control::StartFound found = train::find_job_start(find, roots);
    found.status = found.status.with_context("the coordinator");
    return found;
  };
  options.files = checkpoint_files(roots);
  options.ready = [secured = options.identity != nullptr, tls = options.guard.tls != nullptr](
                      const std::string& listen, const std::string& pages) {
    base::log_info("coordinator on {}, {}://{}/metrics and /sd/targets", listen,
                   tls ? "https" : "http", pages);
    base::log_info("join it with: {}", join_words(listen, secured));
  };
  monitoring::Metrics metrics;
  const auto process =
      monitoring::collect_process(metrics, program_version(), ops::build_name(), "coordinator");
  const auto certificate = cluster::show_certificate(metrics, options.identity);
  std::error_code ignored;
  const bool there = std::filesystem::exists(verb.state, ignored);
  const base::Status status = cluster::run_coordinator(options, metrics);
  if (status.ok()) return ExitCode::ok;
  // Nothing is left of a start that failed; a folder that holds something stays.
  if (!there) std::filesystem::remove(verb.state, ignored);
  return context.fail(status);
}

/// The slots of --devices, which check_devices() has taken.
base::Status set_devices(const ProcessVerb& verb, cluster::AgentOptions& options) {
  TROUPE_TRY_ASSIGN(const cluster::DeviceList list, cluster::parse_device_list(verb.devices));
  options.slots = list.cpu_slots;
  if (list.on_gpus()) {
    // Found out by the agent, not by the command line: a service begins anew until they are there.
    auto gpus = gpu_slots_of(list, gpu::inventory());
    if (!gpus.ok()) return gpus.status().with_context("--devices " + verb.devices);
    options.gpus = *std::move(gpus);
    if (list.all_gpus) {
      for (const std::string& problem : gpu::problems_of(gpu::inventory())) {
        base::log_warn("not offered: {}", problem);
      }
    }
    base::log_info("offers {}: {}", control::offer_text(options.slots, options.gpus.size()),
                   gpus_text(options.gpus));
    if (const std::size_t count = distinct_gpus(options.gpus); count < options.gpus.size()) {
      base::log_warn("{} on {}: jobs that share one need memory.device_limit",
                     base::format_counted(options.gpus.size(), "slot"),
                     base::format_counted(count, "GPU"));
    }
  }
  const std::size_t cores = base::usable_processors();
  if (options.slots + options.gpus.size() > cores) {
    base::log_warn("--devices {}: this agent may use {}: workers will share them", verb.devices,
                   base::format_counted(cores, "processor"));
  }
  return {};
}

/// A watch over the GPUs that the agent offers; null: there is nothing to watch.
std::unique_ptr<cluster::DeviceWatch> watch_gpus(const cluster::AgentOptions& options,
                                                 monitoring::Metrics& metrics) {
  std::map<std::uint32_t, gpu::WatchedDevice> devices;  // several slots may be of one
  for (const schemas::GpuOffer& offer : options.gpus) {
    const auto index = static_cast<std::int32_t>(offer.index);
    devices[offer.index] = {index, gpu::inventory().devices.at(offer.index)};
  }
  std::vector<gpu::WatchedDevice> watched;
  for (auto& [index, device] : devices) watched.push_back(std::move(device));
  return cluster::watch_devices(watched, metrics, options.limits.goodbye_ms);
}

/// How an agent starts this program as a job's process, as loud as itself.
std::vector<std::string> child_command(const std::string& program, const schemas::JobRoots& roots,
                                       const Context& context) {
  std::vector<std::string> words = {program};
  if (context.quiet) words.emplace_back("--quiet");
  if (context.verbose) words.emplace_back("--verbose");
  words.emplace_back("internal");
  if (!roots.data.empty()) words.insert(words.end(), {"--data-root", roots.data});
  if (!roots.checkpoints.empty()) {
    words.insert(words.end(), {"--checkpoint-root", roots.checkpoints});
  }
  return words;
}

/// A certificate is of one machine.
base::Status check_own_name(const ProcessVerb& verb, const cluster::AgentOptions& options) {
  if (options.identity == nullptr) return {};
  const trust::Identity who = options.identity->credentials().info.identity;
  if (who.name == verb.name) return {};
  return base::error(base::Errc::permission_denied, "--name {}: --identity is of {}", verb.name,
                     who.to_string());
}

/// The option that an agent's page cannot be where it should by.
std::string option_of_page(const ProcessVerb& verb, const base::Status& fault) {
  if (!verb.metrics.address.empty()) return "--metrics " + verb.metrics.address;
  const bool a_port = fault.code() == base::Errc::resource_exhausted ||
                      fault.code() == base::Errc::permission_denied;
  return a_port && !verb.ports.empty() ? "--ports " + verb.ports : "--advertise " + verb.host;
}

base::Status run_agent_verb(const ProcessVerb& verb, const Context& context,
                            cluster::AgentOptions& options) {
  TROUPE_TRY(set_devices(verb, options));
  TROUPE_TRY(set_join_wait(verb, options.limits));
  TROUPE_TRY_ASSIGN(options.identity, open_identity(context, trust::Role::agent));
  TROUPE_TRY(check_own_name(verb, options));
  if (options.identity == nullptr) {
    TROUPE_TRY_ASSIGN(options.token, shown_token(context));
  }
  TROUPE_TRY_ASSIGN(
      const base::Address host,
      address_of("--advertise", base::Address{bare_host(verb.host), 0}.to_string(), context));
  options.host = host.host;
  TROUPE_TRY(address_of("--join", verb.join, context).status());
  const std::string warning = advertise_warning(verb.join, options.host);
  if (!warning.empty()) base::log_warn("{}", warning);
  if (!verb.ports.empty()) {
    TROUPE_TRY_ASSIGN(options.ports, base::parse_port_range(verb.ports));
  }
  base::Address pages = host;
  if (!verb.metrics.address.empty()) {
    TROUPE_TRY_ASSIGN(pages, verb.metrics.place());
  }
  TROUPE_TRY_ASSIGN(http::Guard guard, verb.metrics.guard(pages));
  options.pages_host = pages.host;
  options.guard_files = verb.metrics.files;
  std::error_code code;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code) return base::error(base::Errc::internal, "cannot find this program's own file");
  std::atomic<bool> stop{false};
  StopSignals signals([&stop](int) { stop.store(true); });
  monitoring::Metrics metrics;
  const auto process =
      monitoring::collect_process(metrics, program_version(), ops::build_name(), "agent");
  const auto machine = monitoring::collect_machine(metrics);
  const auto certificate = cluster::show_certificate(metrics, options.identity);
  auto started =
      http::Server::start(pages, options.limits, metrics, {{}, std::move(guard), options.ports});
  if (!started.ok()) return started.status().with_context(option_of_page(verb, started.status()));
  const auto server = *std::move(started);
  options.coordinator = verb.join;
  options.name = verb.name;
  options.version = program_version();
  options.http_address = cluster::page_address(server->address(), options.host).to_string();
  options.numeric_class = ops::numeric_class(1);
  schemas::JobRoots roots = verb.roots;
  TROUPE_TRY(resolve_roots(roots));
  options.command = child_command(program.string(), roots, context);
  options.files = checkpoint_files(roots);
  options.stop = [&stop] { return stop.load(); };
  const auto watch = watch_gpus(options, metrics);
  if (watch != nullptr) {
    options.lost_gpus = [&watch] { return watch->look(base::SteadyClock().now_ms()); };
  }
  return cluster::run_agent(options);
}

ExitCode run_internal_verb(ProcessVerb& verb, Context& context) {
  cluster::JobProcessOptions& options = verb.process;
  for (const std::string& limit : verb.process_limits) {
    const base::Status set = base::set_limit(options.agent_limits, limit);
    if (!set.ok()) return context.fail(set.with_context("--limit"));
  }
  const bool server = verb.role == "server";
  if (!verb.ports.empty()) options.ports = base::parse_port_range(verb.ports).value();
  options.actor.role = server ? schemas::Role::parameter_server : schemas::Role::device_server;
  base::start_logging(context.log_level(),
                      fmt::format("role={} index={} node={} job={}", verb.role, options.actor.index,
                                  options.machine, options.job));
  monitoring::Metrics metrics;
  const auto process = monitoring::collect_process(metrics, program_version(), ops::build_name(),
                                                   server ? "parameter_server" : "host");
  const base::Status status = cluster::run_job_process(options, metrics);
  if (status.ok()) return ExitCode::ok;
  base::log_warn("ending: {}", status.text());
  std::cerr.flush();
  _exit(static_cast<int>(ExitCode::failed));  // ranks may be in the middle of a step
}

void add_limits_option(CLI::App* verb, ProcessVerb& options) {
  verb->add_option("--limits", options.limits_path, "Limits other than the defaults")
      ->type_name("FILE.toml");
}

void add_root_options(CLI::App* verb, schemas::JobRoots& roots) {
  verb->add_option("--data-root", roots.data, "Jobs read data and weights only below it (anywhere)")
      ->type_name("DIR");
  verb->add_option("--checkpoint-root", roots.checkpoints,
                   "Jobs have checkpoints only below it (anywhere)")
      ->type_name("DIR");
}

using Options = std::shared_ptr<ProcessVerb>;

void add_coordinator(CLI::App& app, Context& context, const Options& options) {
  CLI::App* coordinator = app.add_subcommand(
      "coordinator",
      describe("Serve a cluster: agents join it, people submit jobs to it",
               {"troupe coordinator --listen 127.0.0.1:7700 --metrics 127.0.0.1:7701 --state "
                "state"}));
  add_address_option(*coordinator, "--listen", options->listen,
                     "For agents and people; off the loopback with --identity")
      ->required();
  add_metrics_options(*coordinator, options->metrics, "For /metrics, /healthz and /sd/targets")
      ->required();
  coordinator->add_option("--state", options->state, "Folder that one coordinator holds")
      ->required()
      ->type_name("DIR");
  CLI::Option* agents = coordinator->add_option(
      "--agents", options->agents,
      "So many agents join and no more: a job that they have no room for fails "
      "(any number)");
  set_range(agents, 1, 1'000'000);
  coordinator
      ->add_option("--join-wait", options->join_wait,
                   "How long agents may take to join, or to offer again what is out of service, "
                   "before such a job fails (10m)")
      ->check(check_duration)
      ->type_name("TIME")
      ->needs(agents);
  add_root_options(coordinator, options->roots);
  add_limits_option(coordinator, *options);
  set_action(coordinator, context,
             [&context, options] { return run_coordinator_verb(*options, context); });
}

void add_agent(CLI::App& app, Context& context, const Options& options) {
  CLI::App* agent = app.add_subcommand(
      "agent", describe("Offer this machine's devices to a coordinator",
                        {"troupe agent --join 127.0.0.1:7700 --name a --devices cpu:2",
                         "troupe agent --join 127.0.0.1:7700 --name a --devices gpu:all"}));
  add_address_option(*agent, "--join", options->join, "The coordinator's --listen address")
      ->required();
  agent->add_option("--name", options->name, "The machine's name")
      ->required()
      ->check(check_name)
      ->type_name("NAME");
  agent
      ->add_option("--devices", options->devices,
                   "Slots, each for one worker at a time: N on CPUs, one on each GPU named")
      ->capture_default_str()
      ->check(check_devices)
      ->type_name("cpu:N,gpu:INDEX,...");
  agent
      ->add_option("--join-wait", options->join_wait,
                   "How long to look for a coordinator, also for a lost one (10m)")
      ->check(check_duration)
      ->type_name("TIME");
  agent
      ->add_option("--advertise", options->host,
                   "This machine's name or address: its processes' ports are there")
      ->capture_default_str()
      ->check([](const std::string& host) {
        return check_address(base::Address{bare_host(host), 0}.to_string());
      })
      ->type_name("HOST");
  agent
      ->add_option("--ports", options->ports,
                   "Where jobs' processes listen, and their pages (any free ports)")
      ->check([](const std::string& text) { return base::parse_port_range(text).status().text(); })
      ->type_name("FIRST-LAST");
  add_metrics_options(*agent, options->metrics,
                      "For /metrics and /healthz; jobs' pages are on its host (--advertise)");
  add_root_options(agent, options->roots);
  add_limits_option(agent, *options);
  set_action(agent, context, [&context, options] {
    cluster::AgentOptions how;
    if (!read_limits(*options, context, how.limits)) return ExitCode::bad_input;
    const base::Status status = run_agent_verb(*options, context, how);
    return status.ok() ? ExitCode::ok : context.fail(status);
  });
}

void add_internal(CLI::App& app, Context& context, const Options& options) {
  CLI::App* internal = app.add_subcommand("internal", "A job's process, started by an agent");
  internal->group("");
  internal->add_option("--job", options->process.job)->required();
  internal->add_option("--generation", options->process.generation)->required();
  internal->add_option("--role", options->role)->required();
  internal->add_option("--index", options->process.actor.index)->required();
  internal->add_option("--name", options->process.machine)->required();
  internal->add_option("--listen", options->process.host)->required();
  internal->add_option("--pages", options->process.pages_host)->required();
  internal->add_option("--ports", options->ports);
  internal->add_option("--limit", options->process_limits)->expected(1)->take_all();
  add_guard_options(*internal, options->process.guard_files);
  add_root_options(internal, options->process.roots);
  set_action(internal, context,
             [&context, options] { return run_internal_verb(*options, context); });
}

}  // namespace

std::string check_devices(const std::string& text) {
  const auto list = cluster::parse_device_list(text);
  return list.ok() ? "" : list.status().text();
}

void add_cluster_verbs(CLI::App& app, Context& context) {
  const auto options = std::make_shared<ProcessVerb>();
  add_coordinator(app, context, options);
  add_agent(app, context, options);
  add_internal(app, context, options);
}

}  // namespace troupe::apps
