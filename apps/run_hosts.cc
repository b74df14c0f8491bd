// SPDX-License-Identifier: Apache-2.0
// The authority, ssh, the agents, the job; and at the end nothing of them is left.
#include "apps/run_hosts.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "apps/host_text.h"
#include "apps/job_file.h"
#include "apps/job_watch.h"
#include "apps/own_cluster.h"
#include "apps/stop_signals.h"
#include "apps/verbs.h"
#include "base/address.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "cluster/host_list.h"
#include "cluster/host_states.h"
#include "cluster/own_address.h"
#include "cluster/remote_agent.h"
#include "cluster/remote_process.h"

namespace troupe::apps {
namespace {

/// More than http::Guard takes, which has read the files before.
constexpr std::uint64_t kGuardBytesMax = 1 << 20;
constexpr auto kLook = std::chrono::milliseconds(100);
/// Agents that are asked to end have so long; then their ssh is killed, and they end by themselves.
constexpr std::int64_t kEndMs = 20'000;

/// What guards the pages here guards those of the hosts. The coordinator has looked at the files.
base::Result<cluster::RemoteFiles> files_of_pages(const http::GuardFiles& guard) {
  cluster::RemoteFiles files;
  if (!guard.tls.empty()) {
    TROUPE_TRY_ASSIGN(files.pages_pem, base::read_text_file(guard.tls, kGuardBytesMax));
  }
  if (!guard.token.empty()) {
    TROUPE_TRY_ASSIGN(files.pages_token, base::read_text_file(guard.token, kGuardBytesMax));
  }
  return files;
}

/// See run_on_hosts.
class HostsRun {
 public:
  HostsRun(const HostsOptions& options, std::vector<cluster::RemoteHost> hosts, OwnCluster& own,
           Context& context)
      : options_(options),
        hosts_(std::move(hosts)),
        states_(hosts_),
        own_(own),
        context_(context),
        join_wait_ms_(base::parse_duration_ms(options.join_wait).value()) {}  // checked
  /// Ends the coordinator and the agents.
  ~HostsRun() {
    own_.end();  // first: it would warn of agents that leave
    end_agents();
  }
  HostsRun(const HostsRun&) = delete;
  HostsRun& operator=(const HostsRun&) = delete;

  base::Status start(const MetricsOptions& metrics, schemas::WorkerDevice device);
  /// Ok, too, when a signal came.
  base::Status wait_joined(cluster::JobClient& client, const StopSignals& signals);
  /// The job's whole life.
  ExitCode train(cluster::JobClient& client, const schemas::JobSpec& spec, bool json,
                 const StopSignals& signals);

 private:
  base::Status start_agent(std::size_t host, cluster::RemoteAgent agent,
                           const std::vector<std::string>& ssh, cluster::RemoteFiles files);
  std::vector<std::string> look_at_agents();
  void show_agents();
  void end_agents();
  /// How a run is stopped after a signal.
  struct Stop {
    bool saves = false;
    bool json = false;
    int signal = 0;
  };
  ExitCode stop(cluster::JobClient& client, const std::string& id, const Stop& how);

  const HostsOptions& options_;
  const std::vector<cluster::RemoteHost> hosts_;
  cluster::HostStates states_;
  OwnCluster& own_;
  Context& context_;
  const std::uint64_t join_wait_ms_;
  base::SteadyClock clock_;
  std::vector<std::unique_ptr<cluster::RemoteProcess>> processes_;  // of hosts_, as far as started
  std::set<std::size_t> told_;                                      // hosts whose end is known
};

base::Status HostsRun::start(const MetricsOptions& metrics, schemas::WorkerDevice device) {
  cluster::RemoteAgent agent;
  agent.device = device;
  agent.nearby = bare_host(options_.advertise);
  if (agent.nearby.empty()) {
    std::vector<std::string> names;
    for (const cluster::RemoteHost& host : hosts_) names.push_back(host.host);
    auto address = cluster::own_address_toward_hosts(names);
    if (!address.ok()) {
      return address.status().with_context(
          "by which address the hosts reach this machine (--advertise HOST says it)");
    }
    agent.nearby = *std::move(address);
  }
  TROUPE_TRY(own_.start(agent.nearby, metrics, {hosts_.size(), join_wait_ms_}));
  agent.join = own_.address();
  agent.program = options_.remote_troupe;
  if (agent.program.empty()) {
    std::error_code code;
    agent.program = std::filesystem::read_symlink("/proc/self/exe", code).string();
    if (code) return base::error(base::Errc::internal, "cannot find this program's own file");
    agent.fallback = "troupe";
  }
  TROUPE_TRY_ASSIGN(const base::Address pages, metrics.place());
  agent.pages = !pages.loopback();
  agent.verbose = context_.verbose;
  TROUPE_TRY_ASSIGN(const cluster::RemoteFiles files, files_of_pages(metrics.files));
  TROUPE_TRY_ASSIGN(const auto ssh, cluster::split_words(options_.ssh));
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    const base::Status status = start_agent(host, agent, ssh, files);
    if (!status.ok()) return status.with_context("--ssh");
  }
  own_.seal();
  return {};
}

base::Status HostsRun::start_agent(std::size_t host, cluster::RemoteAgent agent,
                                   const std::vector<std::string>& ssh,
                                   cluster::RemoteFiles files) {
  agent.host = hosts_[host];
  TROUPE_TRY_ASSIGN(files.identity, own_.identity_of_agent(agent.host.name));
  std::vector<std::string> words = ssh;
  words.push_back(agent.host.destination);
  words.push_back(cluster::remote_command(agent));
  TROUPE_TRY_ASSIGN(auto process,
                    cluster::RemoteProcess::start(words, cluster::remote_input(files)));
  processes_.push_back(std::move(process));
  return {};
}

/// What they have said since the last look. Whether one has ended is asked before its last words
/// are read, so that none is missed.
std::vector<std::string> HostsRun::look_at_agents() {
  std::vector<std::string> lines;
  for (std::size_t host = 0; host < processes_.size(); ++host) {
    if (told_.contains(host)) continue;
    const auto end = processes_[host]->end();
    for (const std::string& line : states_.heard(host, processes_[host]->output())) {
      lines.push_back(fmt::format("{}: {}", hosts_[host].name, line));
    }
    if (!end) continue;
    states_.ended(host, *end);
    told_.insert(host);
  }
  return lines;
}

void HostsRun::show_agents() {
  for (const std::string& line : look_at_agents()) context_.console.note(line);
}

base::Status HostsRun::wait_joined(cluster::JobClient& client, const StopSignals& signals) {
  const std::int64_t until_ms = clock_.now_ms() + static_cast<std::int64_t>(join_wait_ms_);
  while (signals.received() == 0) {
    show_agents();
    TROUPE_TRY_ASSIGN(const schemas::JobList seen, client.cluster());
    std::set<std::string> names;
    for (const schemas::MachineInfo& machine : seen.machines) names.insert(machine.name);
    states_.joined(names);
    if (states_.all_joined()) return {};
    TROUPE_TRY(states_.refused());
    if (clock_.now_ms() >= until_ms) return states_.late(join_wait_ms_);
    std::this_thread::sleep_for(kLook);
  }
  return {};
}

ExitCode HostsRun::train(cluster::JobClient& client, const schemas::JobSpec& spec, bool json,
                         const StopSignals& signals) {
  const auto id = client.submit("", spec);
  if (!id.ok()) return context_.fail(id.status());
  schemas::JobInfo seen;
  seen.id = *id;
  seen.name = spec.name;
  std::string waits;  // for what, when nobody will bring it
  const auto goes_on = [&](const schemas::JobInfo& job) {
    show_agents();
    // A job that lost its host fails, or waits for places that nobody will bring.
    const bool room =
        job.phase != schemas::JobPhase::pending || states_.slots_left() >= spec.ranks();
    if (!room) waits = job.text;
    return room && signals.received() == 0;
  };
  const base::Status status = watch_job(client, *id, goes_on, seen, context_);
  if (!status.ok()) return context_.fail(status);
  const std::string losses = states_.losses();
  if (!losses.empty() && seen.phase != schemas::JobPhase::succeeded) context_.console.note(losses);
  if (schemas::is_final(seen.phase)) return finish_job(seen, json, context_);
  if (signals.received() != 0) {
    return stop(client, *id, {!spec.checkpoint.dir.empty(), json, signals.received()});
  }
  context_.console.error(
      fmt::format("job {}: the hosts that are left have no room for it; it {}", *id, waits));
  return ExitCode::no_resources;
}

/// After a signal: the job ends with a checkpoint, where it has a folder for them.
ExitCode HostsRun::stop(cluster::JobClient& client, const std::string& id, const Stop& how) {
  const auto stopped = client.stop(id, how.saves);
  if (!stopped.ok()) return context_.fail(stopped.status());
  if (stopped->info.phase != schemas::JobPhase::stopped) {  // it had come to its end
    return finish_job(stopped->info, how.json, context_);
  }
  const std::string& newest = stopped->info.checkpoint;
  context_.console.note("stopped; the same command " +
                        (newest.empty() ? std::string("starts anew") : "goes on from " + newest));
  if (!how.saves || stopped->uncut.empty()) return exit_code_of_signal(how.signal);
  context_.console.error(fmt::format("job {}: {}", id, stopped->uncut));
  return ExitCode::no_checkpoint;
}

void HostsRun::end_agents() {
  for (std::size_t host = 0; host < processes_.size(); ++host) {
    // An ssh that has not come through does not look at its input.
    if (states_.has_joined(host)) {
      processes_[host]->close_input();
    } else {
      processes_[host]->terminate();
    }
  }
  const std::int64_t until_ms = clock_.now_ms() + kEndMs;
  while (told_.size() < processes_.size() && clock_.now_ms() < until_ms) {
    static_cast<void>(look_at_agents());  // farewells
    std::this_thread::sleep_for(kLook);
  }
  for (std::size_t host = 0; host < processes_.size(); ++host) {
    if (!told_.contains(host)) {
      context_.console.note(
          fmt::format("host '{}': its ssh does not end, and is killed", hosts_[host].host));
    }
  }
  processes_.clear();
}

std::string check_hosts(const std::string& text) {
  return cluster::parse_host_list(text).status().text();
}

std::string check_ssh(const std::string& text) {
  return cluster::split_words(text).status().text();
}

std::string check_own_host(const std::string& text) {
  return base::parse_address_within(base::Address{bare_host(text), 0}.to_string(),
                                    base::Reach::network)
      .status()
      .text();
}

base::Status check_room(const std::vector<cluster::RemoteHost>& hosts,
                        const schemas::JobSpec& spec) {
  if (cluster::slots_of(hosts) >= spec.ranks()) return {};
  return base::error(base::Errc::resource_exhausted,
                     "--hosts has {}; the job has {} (workers.machines {}, workers.devices {})",
                     base::format_counted(cluster::slots_of(hosts), "slot"),
                     base::format_counted(spec.ranks(), "worker"), spec.workers.machines,
                     spec.workers.devices);
}

}  // namespace

void add_hosts_options(CLI::App& verb, HostsOptions& options) {
  CLI::Option* hosts =
      verb.add_option(
              "--hosts", options.hosts,
              "Train on these machines, each with SLOTS slots (1), over ssh; of a job on GPUs: "
              "each on its first SLOTS GPUs")
          ->check(check_hosts)
          ->type_name("HOST:SLOTS,...");
  verb.add_option("--ssh", options.ssh, "The command that runs a command on a host")
      ->capture_default_str()
      ->check(check_ssh)
      ->type_name("COMMAND")
      ->needs(hosts);
  verb.add_option("--remote-troupe", options.remote_troupe,
                  "The program on the hosts (the same path as here, else troupe)")
      ->type_name("PATH")
      ->needs(hosts);
  verb.add_option("--advertise", options.advertise,
                  "This machine's name or address, as the hosts reach it (that of the route)")
      ->check(check_own_host)
      ->type_name("HOST")
      ->needs(hosts);
  verb.add_option("--join-wait", options.join_wait, "How long the hosts may take to join")
      ->capture_default_str()
      ->check(check_duration)
      ->type_name("TIME")
      ->needs(hosts);
}

ExitCode run_on_hosts(const HostsOptions& options, const MetricsOptions& metrics,
                      schemas::JobSpec spec, bool json, Context& context) {
  std::vector<cluster::RemoteHost> hosts = cluster::parse_host_list(options.hosts).value();
  base::Status status = check_room(hosts, spec);
  if (status.ok()) status = prepare_submission(spec);
  if (!status.ok()) return context.fail(status);
  auto made = OwnCluster::make();
  if (!made.ok()) return context.fail(made.status());
  // A second signal ends the process where it is; the ends of its sockets end the agents.
  StopSignals signals(
      [saves = !spec.checkpoint.dir.empty()](int) {
        base::log_info("stopping{}; once more to end at once", saves ? " with a checkpoint" : "");
      },
      [folder = (*made)->folder()] { remove_folder(folder); });
  const std::unique_ptr<OwnCluster> own = *std::move(made);
  HostsRun run(options, std::move(hosts), *own, context);
  status = run.start(metrics, spec.workers.device);
  if (!status.ok()) return context.fail(status);
  auto client = own->connect();
  if (!client.ok()) return context.fail(client.status());
  status = run.wait_joined(**client, signals);
  if (!status.ok()) return context.fail(status);
  if (signals.received() != 0) return exit_code_of_signal(signals.received());
  return run.train(**client, spec, json, signals);
}

}  // namespace troupe::apps
