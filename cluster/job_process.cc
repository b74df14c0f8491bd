// SPDX-License-Identifier: Apache-2.0
// The actors of a process with its links. The main thread does what its inbox says; links only fill
// the inbox or post to actors.
#include "cluster/job_process.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <variant>

#include "actors/job_actors.h"
#include "actors/metrics.h"
#include "actors/outflow.h"
#include "base/address.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "cluster/page_address.h"
#include "cluster/peer_links.h"
#include "cluster/process.h"
#include "http/server.h"
#include "link/link_set.h"
#include "link/metrics.h"
#include "storage/metrics.h"
#include "storage/storage.h"

namespace troupe::cluster {
namespace {

using base::Errc;
using schemas::ActorId;
using schemas::Role;

/// What happens to a process; in order.
struct Ended {
  base::Status status;  // the agent's link is down
};
struct Failed {
  base::Status status;  // this process cannot go on
  std::optional<ActorId> lost;
};
using Incident = std::variant<schemas::Envelope, Failed, Ended>;

class Inbox {
 public:
  void put(Incident incident) {
    {
      const base::MutexLock lock(mutex_);
      incidents_.push_back(std::move(incident));
    }
    filled_.notify_one();
  }
  Incident take() {
    const base::MutexLock lock(mutex_);
    filled_.wait(mutex_, [this]() TROUPE_REQUIRES(mutex_) { return !incidents_.empty(); });
    Incident incident = std::move(incidents_.front());
    incidents_.pop_front();
    return incident;
  }
  /// True when the agent's end is among what has not been taken.
  bool agent_gone() {
    const base::MutexLock lock(mutex_);
    return std::any_of(incidents_.begin(), incidents_.end(), [](const Incident& incident) {
      return std::holds_alternative<Ended>(incident);
    });
  }

 private:
  base::Mutex mutex_;
  base::CondVar filled_;
  std::deque<Incident> incidents_ TROUPE_GUARDED_BY(mutex_);
};

/// All of a job's processes may greet one of them, at the same time: that is no flood.
base::Limits link_limits(const schemas::JobSpec& spec) {
  base::Limits limits = spec.limits;
  const std::uint64_t peers = std::uint64_t{spec.ranks()} + spec.shards();
  for (std::uint64_t* most : {&limits.pending_connections_max, &limits.connections_max}) {
    *most = std::max(*most, peers * (1 + limits.data_connections));
  }
  return limits;
}

/// The coordinator, through the agent.
class AgentHandler final : public link::ControlHandler {
 public:
  explicit AgentHandler(Inbox& inbox) : inbox_(inbox) {}
  void on_envelope(schemas::Envelope envelope) override { inbox_.put(std::move(envelope)); }
  void on_down(const base::Status& reason) override { inbox_.put(Ended{reason}); }

 private:
  Inbox& inbox_;
};

/// See run_job_process.
class JobProcess {
 public:
  JobProcess(const JobProcessOptions& options, monitoring::Metrics& metrics)
      : options_(options),
        metrics_(metrics),
        server_metrics_(metrics, options.job),
        agent_links_(options.agent_limits, storage_.pool(base::Device{})) {}
  ~JobProcess() {
    // Links call into the actors' post office, actors into links: links first, then the actors.
    if (links_) links_->stop();
    agent_links_.stop();
  }

  base::Status run();
  /// The caller is about to leave: no lock file stays behind.
  void let_go_of_folder() { lock_ = base::FolderLock(); }

 private:
  base::Status handle(Incident incident);
  base::Status open(const schemas::LaunchProcess& launch);
  base::Result<std::shared_ptr<const link::Tls>> take_credentials(const std::string& pem);
  base::Status deny(const std::string& pem);
  base::Result<std::string> listen();
  base::Status connect(const schemas::Placement& placement);
  base::Status dial(std::uint32_t shard, const schemas::Placement& placement);
  void tell(schemas::Envelope envelope);
  void tell(ActorId from, schemas::Message message);
  /// Unless it is ok.
  void tell_failure(const base::Status& status, std::optional<ActorId> lost = {});
  link::LinkEnd self() const {
    return {options_.actor, options_.machine, options_.job, options_.generation};
  }

  const JobProcessOptions options_;
  monitoring::Metrics& metrics_;
  base::SteadyClock clock_;
  storage::Storage storage_;
  monitoring::Collection shown_;  // of the storage: what links read into
  Inbox inbox_;
  actors::ServerMetrics server_metrics_;           // outlives the actors
  base::FolderLock lock_;                          // first parameter server: on the checkpoints
  base::Secret secret_{};                          // of the run
  std::optional<trust::Credentials> credentials_;  // none: links here need none
  std::unique_ptr<actors::JobActors> job_actors_;
  std::unique_ptr<http::Server> http_;
  bool connected_ = false;
  bool done_ = false;
  std::shared_ptr<link::Link> agent_;
  std::unique_ptr<PeerLinks> peers_;  // outlives the links
  std::unique_ptr<link::LinkSet> links_;
  monitoring::Collection traffic_;  // of the links
  link::LinkSet agent_links_;
};

base::Status JobProcess::run() {
  TROUPE_TRY_ASSIGN(agent_, agent_links_.adopt(kAgentSocket, link::LinkSet::Greeting::speak, self(),
                                               std::make_shared<AgentHandler>(inbox_)));
  while (!done_) TROUPE_TRY(handle(inbox_.take()));
  if (job_actors_->spec().train.hold == schemas::Hold::until_scraped && http_) {
    job_actors_->rest();
    const std::uint64_t hold_ms = job_actors_->spec().limits.hold_ms;
    const auto scraped = http_->wait_scraped(hold_ms, [this] { return inbox_.agent_gone(); });
    if (scraped == http::Server::Scraped::late) {
      base::log_warn("nobody read /metrics within {} ms", hold_ms);
    }
  }
  return {};
}

base::Status JobProcess::handle(Incident incident) {
  if (const auto* ended = std::get_if<Ended>(&incident)) {
    return base::error(Errc::unavailable, "the agent is gone: {}", ended->status.text());
  }
  if (const auto* failed = std::get_if<Failed>(&incident)) {
    tell_failure(failed->status, failed->lost);
    return {};
  }
  auto& envelope = std::get<schemas::Envelope>(incident);
  if (const auto* end = std::get_if<schemas::JobEnd>(&envelope.message)) {
    if (end->code != Errc::ok) return base::Status(end->code, end->text);
    done_ = job_actors_ != nullptr;
    return {};
  }
  if (const auto* launch = std::get_if<schemas::LaunchProcess>(&envelope.message)) {
    tell_failure(open(*launch));
    return {};
  }
  if (const auto* list = std::get_if<schemas::DenyList>(&envelope.message)) {
    if (const base::Status status = deny(list->pem); !status.ok()) {
      base::log_warn("from the agent: {}", status.text());
    }
    return {};
  }
  if (!job_actors_) return {};
  if (const auto* placement = std::get_if<schemas::Placement>(&envelope.message)) {
    tell_failure(connect(*placement));
  }
  envelope.job = options_.job;
  envelope.generation = options_.generation;
  envelope.from = {Role::coordinator, 0};
  job_actors_->post_office().post(std::move(envelope));
  return {};
}

base::Status JobProcess::open(const schemas::LaunchProcess& launch) {
  const bool host = options_.actor.role == Role::device_server;
  if (launch.actor != options_.actor) {
    return base::error(Errc::invalid_argument, "the launch of {} came to {}",
                       launch.actor.to_string(), options_.actor.to_string());
  }
  TROUPE_TRY_ASSIGN(job_actors_, actors::JobActors::open(launch, options_.roots, clock_, metrics_,
                                                         server_metrics_.observer(options_.actor)));
  if (host) server_metrics_.show_bounds(job_actors_->spec().consistency);
  const std::string& checkpoints = job_actors_->spec().checkpoint.dir;
  if (options_.actor == ActorId{Role::parameter_server, 0} && !checkpoints.empty()) {
    // What a job before this one left may still be ending.
    const std::chrono::milliseconds wait(job_actors_->spec().limits.stop_grace_ms);
    auto lock = base::FolderLock::take(checkpoints);
    if (lock.status().code() == Errc::already_exists) {
      base::log_warn("checkpoint.dir: {}; waits {} ms for its end", lock.status().text(),
                     wait.count());
      lock = base::FolderLock::take(checkpoints, wait);
    }
    if (!lock.ok()) return lock.status().with_context("checkpoint.dir");
    lock_ = std::move(lock).value();
  }
  shown_ = storage::show_storage(metrics_, storage_, "links");
  TROUPE_TRY_ASSIGN(auto tls, take_credentials(launch.credentials));
  links_ = std::make_unique<link::LinkSet>(link_limits(job_actors_->spec()),
                                           job_actors_->link_pool(storage_), std::move(tls));
  traffic_ = link::show_links(metrics_, *links_);
  secret_ = launch.secret;
  peers_ = std::make_unique<PeerLinks>(
      options_.actor,
      JobSize{launch.machines, job_actors_->spec().shards(), job_actors_->first_shard()},
      job_actors_->post_office(), [this](const ActorId& peer) { job_actors_->link_resumed(peer); },
      [this](base::Status status, std::optional<ActorId> lost) {
        inbox_.put(Failed{std::move(status), lost});
      });
  job_actors_->post_office().open(
      {Role::coordinator, 0}, [this](schemas::Envelope envelope) { tell(std::move(envelope)); });
  schemas::ProcessReady ready;
  ready.actor = options_.actor;
  ready.pid = static_cast<std::uint64_t>(::getpid());
  ready.numeric_class = job_actors_->numeric_class();
  if (!host) {
    TROUPE_TRY_ASSIGN(ready.address, listen());
  }
  TROUPE_TRY_ASSIGN(http::Guard guard, http::Guard::open(options_.guard_files));
  TROUPE_TRY_ASSIGN(http_, http::Server::start({options_.pages_host, 0}, job_actors_->spec().limits,
                                               metrics_, {{}, std::move(guard), options_.ports}));
  ready.http_address = page_address(http_->address(), options_.host).to_string();
  tell(options_.actor, std::move(ready));
  return {};
}

/// Null: the run's processes are all on this machine and speak without TLS.
base::Result<std::shared_ptr<const link::Tls>> JobProcess::take_credentials(
    const std::string& pem) {
  if (pem.empty()) return std::shared_ptr<const link::Tls>();
  TROUPE_TRY_ASSIGN(credentials_, trust::parse_credentials(pem));
  return link::Tls::create(*credentials_);
}

/// Links of a peer that is revoked now go down.
base::Status JobProcess::deny(const std::string& pem) {
  if (!credentials_) return {};
  TROUPE_TRY_ASSIGN(const bool newer, trust::take_deny_list(*credentials_, pem));
  if (!newer) return {};
  TROUPE_TRY_ASSIGN(auto tls, link::Tls::create(*credentials_));
  if (links_) links_->renew(std::move(tls));
  return {};
}

base::Result<std::string> JobProcess::listen() {
  return links_->listen(
      base::Address{options_.host, 0}.to_string(), self(),
      [this](const schemas::Hello& hello, const std::shared_ptr<link::Link>& link) {
        return peers_->accept(hello.actor, link);
      },
      secret_, options_.ports);
}

base::Status JobProcess::connect(const schemas::Placement& placement) {
  if (connected_) return {};
  connected_ = true;
  peers_->place(placement);
  // The lower tier dials the upper; parameter servers have business only with the one that writes
  // the manifests.
  const bool server = options_.actor.role == Role::parameter_server;
  const std::uint32_t first = job_actors_->first_shard();
  const auto shards = static_cast<std::uint32_t>(placement.shard_addresses.size());
  for (std::uint32_t shard = 0; shard < shards; ++shard) {
    if (server && (shard != first || shard == options_.actor.index)) continue;
    TROUPE_TRY(dial(shard, placement));
  }
  // Not before: the coordinator compares data files once all processes are up.
  job_actors_->start();
  return {};
}

base::Status JobProcess::dial(std::uint32_t shard, const schemas::Placement& placement) {
  const ActorId peer{Role::parameter_server, shard};
  const base::Limits& limits = job_actors_->spec().limits;
  link::DialOptions dial;
  dial.address = placement.shard_addresses[shard];
  dial.self = self();
  dial.peer = {peer, placement.machines.at(placement.machine_of_shard.at(shard)), options_.job,
               options_.generation};
  dial.data_connections = static_cast<std::uint32_t>(limits.data_connections);
  dial.wait_ms = limits.start_ms;  // a peer that is busy with many others is no dead one
  dial.secret = secret_;
  return peers_->dial(*links_, std::move(dial));
}

void JobProcess::tell(schemas::Envelope envelope) {
  const base::Status status = agent_->send(std::move(envelope));
  if (!status.ok()) base::log_warn("to the agent: {}", status.text());
}

void JobProcess::tell(ActorId from, schemas::Message message) {
  schemas::Envelope envelope;
  envelope.job = options_.job;
  envelope.generation = options_.generation;
  envelope.from = from;
  envelope.to = {Role::coordinator, 0};
  envelope.message = std::move(message);
  tell(std::move(envelope));
}

void JobProcess::tell_failure(const base::Status& status, std::optional<ActorId> lost) {
  if (status.ok()) return;
  tell(options_.actor, schemas::ActorFailed{options_.actor, status.code(), status.text(), lost});
}

}  // namespace

base::Status run_job_process(const JobProcessOptions& options, monitoring::Metrics& metrics) {
  // Never destroyed after an error: ranks may be in the middle of a step, and the caller leaves.
  auto process = std::make_unique<JobProcess>(options, metrics);
  const base::Status status = process->run();
  if (status.ok()) return status;
  process->let_go_of_folder();
  static_cast<void>(process.release());
  return status;
}

}  // namespace troupe::cluster
