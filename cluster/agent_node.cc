// SPDX-License-Identifier: Apache-2.0
// The agent's links, children and background calls around its actor.
#include "cluster/agent_node.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "actors/agent.h"
#include "base/address.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "cluster/background_calls.h"
#include "cluster/certificate_age.h"
#include "cluster/certificate_trial.h"
#include "cluster/child_devices.h"
#include "cluster/piece_desk.h"
#include "cluster/process.h"
#include "link/link_set.h"
#include "storage/storage.h"

namespace troupe::cluster {
namespace {

using control::ProcessKey;
using schemas::Role;

/// The main thread looks so often whether the agent was asked to end or has ended.
constexpr std::int64_t kLookMs = 250;

schemas::AgentHello hello_of(const AgentOptions& options) {
  schemas::AgentHello hello;
  hello.name = options.name;
  hello.version = options.version;
  hello.slots = options.slots;
  hello.gpus = options.gpus;
  if (options.lost_gpus) hello.lost_gpus = options.lost_gpus();
  hello.http_address = options.http_address;
  hello.numeric_class = options.numeric_class;
  const base::Secret random = base::random_secret();
  std::memcpy(&hello.process_token, random.data(), sizeof hello.process_token);
  return hello;
}

std::string serial_of(const IdentityFile* identity) {
  return identity == nullptr ? "" : identity->credentials().info.serial;
}

/// A child as the shell reaches it.
struct Child {
  std::uint64_t id = 0;              // of the supervisor
  std::shared_ptr<link::Link> link;  // null: it could not be made
};

/// The children that run: the main thread starts and reaps them, the actor speaks to them. Nothing
/// is decided here.
class Children {
 public:
  void add(const ProcessKey& process, Child child) {
    const base::MutexLock lock(mutex_);
    children_[process] = std::move(child);
  }
  void remove(const ProcessKey& process) {
    const base::MutexLock lock(mutex_);
    children_.erase(process);
  }
  std::optional<Child> find(const ProcessKey& process) const {
    const base::MutexLock lock(mutex_);
    const auto found = children_.find(process);
    return found == children_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable base::Mutex mutex_;
  std::map<ProcessKey, Child> children_ TROUPE_GUARDED_BY(mutex_);
};

/// See run_agent.
class AgentNode final : public actors::AgentPorts {
 public:
  explicit AgentNode(const AgentOptions& options)
      : options_(options),
        agent_(actors_, clock_, *this, hello_of(options), options.limits),
        links_(options.limits, storage_.pool(base::Device{}),
               options.identity ? options.identity->tls() : nullptr),
        desk_(std::make_shared<PieceDesk>(options.limits.cut_ms)),
        probes_("the probe of", options.limits.jobs_max, options.limits.goodbye_ms),
        copies_("files of job", options.limits.jobs_max, options.limits.goodbye_ms),
        pieces_("a piece of", kPiecesWaitingMax, options.limits.goodbye_ms) {}
  /// Links first: they tell the agent. Then the agent, which uses what is below it.
  ~AgentNode() override {
    desk_->end();
    links_.stop();
    agent_.end();
  }

  base::Status run();

  void join_coordinator(const control::JoinCoordinator& join) override;
  void leave_coordinator(const std::string& text) override { coordinator_->close(text); }
  void tell_coordinator(schemas::Message message) override;
  void start_child(const control::StartChild& start) override;
  void stop_child(const control::StopChild& stop) override;
  void tell_child(const control::ToChild& to, schemas::Message message) override;
  void probe_folder(const schemas::FolderProbe& probe) override;
  void serve_piece(const schemas::PieceQuery& query) override;
  void place_files(const control::PlaceFiles& wanted) override;
  void drop_files(const schemas::DropCheckpoint& drop) override;
  void use_deny_list(const std::string& pem) override;

 private:
  class CoordinatorHandler;
  class ChildHandler;

  std::vector<std::string> command_of(const ProcessKey& process) const;
  void give_credentials(schemas::LaunchProcess& launch) const;
  void look_at_offer(control::OfferChanged& told);
  link::DialOptions dial_options(std::uint64_t wait_ms) const;
  void started(const ProcessKey& key, const base::Result<ChildProcess>& process);
  void exited(const ProcessKey& key, const ProcessExit& exit);

  const AgentOptions options_;
  base::SteadyClock clock_;
  storage::Storage storage_;
  ProcessSupervisor supervisor_{clock_};
  Children children_;
  std::shared_ptr<link::Link> coordinator_;  // the actor's alone
  actors::ActorSystem actors_{1};
  actors::Agent agent_;
  std::uint64_t join_ = 0;  // of that link; the actor's alone
  link::LinkSet links_;     // its thread calls into all above
  const std::shared_ptr<PieceDesk> desk_;
  std::map<std::string, std::weak_ptr<OpenBatch>> placing_;  // by job; the actor's alone
  // A folder may be slow: nobody else waits for it, nor does the end.
  BackgroundCalls probes_;
  BackgroundCalls copies_;
  BackgroundCalls pieces_;
};

class AgentNode::CoordinatorHandler final : public link::ControlHandler {
 public:
  CoordinatorHandler(actors::Agent& agent, std::shared_ptr<PieceDesk> desk, std::uint64_t join)
      : agent_(agent), desk_(std::move(desk)), join_(join) {}
  void on_up() override { agent_.post(control::CoordinatorUp{join_}); }
  void on_envelope(schemas::Envelope envelope) override {
    if (auto* piece = std::get_if<schemas::FilePiece>(&envelope.message)) {
      desk_->take(join_, std::move(*piece));
      return;
    }
    agent_.hear(control::CoordinatorSaid{join_, std::move(envelope.message)});
  }
  void on_interrupted(const base::Status& reason) override {
    base::log_warn("{}; it is dialed again", reason.text());
  }
  void on_resumed() override { base::log_info("the link to the coordinator is whole again"); }
  void on_down(const base::Status& reason) override {
    desk_->lost(join_, reason);
    agent_.post(control::CoordinatorLost{join_, reason.ok() ? "it said goodbye" : reason.text()});
  }

 private:
  actors::Agent& agent_;
  const std::shared_ptr<PieceDesk> desk_;
  const std::uint64_t join_;
};

class AgentNode::ChildHandler final : public link::ControlHandler {
 public:
  ChildHandler(actors::Agent& agent, ProcessKey key) : agent_(agent), key_(std::move(key)) {}
  void on_envelope(schemas::Envelope envelope) override {
    agent_.hear(control::ChildSaid{key_, envelope.from, std::move(envelope.message)});
  }
  void on_down(const base::Status& reason) override {
    agent_.post(control::ChildSilent{key_, reason});
  }

 private:
  actors::Agent& agent_;
  const ProcessKey key_;
};

// ---- the main thread ----

base::Status AgentNode::run() {
  const base::Reach reach = options_.identity ? base::Reach::network : base::Reach::loopback;
  TROUPE_TRY(base::parse_address_within(options_.coordinator, reach).status());
  agent_.start();
  bool stopping = false;
  CertificateAge age;
  control::OfferChanged offer;
  CertificateTrial trial(links_, dial_options(0), serial_of(options_.identity.get()));
  while (true) {
    supervisor_.run_once(kLookMs);
    watch_certificate(age, options_.identity.get());
    look_at_offer(offer);
    if (!stopping && options_.stop && options_.stop()) {
      stopping = true;
      agent_.post(control::StopRequested{});
    }
    if (const auto result = agent_.result()) {
      if (result->ok()) base::log_info("ending, as it was asked to");
      return *result;
    }
    if (options_.identity == nullptr) continue;
    if (auto tls = options_.identity->renewed()) links_.renew(std::move(tls));
    // The coordinator knows the certificate with which the link was made, and its end.
    trial.look(serial_of(options_.identity.get()), clock_.now_ms());
  }
}

link::DialOptions AgentNode::dial_options(std::uint64_t wait_ms) const {
  link::DialOptions dial;
  dial.address = options_.coordinator;
  dial.self = {{Role::agent, 0}, options_.name, "", 0};
  dial.peer = {{Role::coordinator, 0}, "", "", 0};
  dial.wait_ms = wait_ms;
  return dial;
}

/// A process shows a certificate that holds as long as the agent's: where that ends, none begins.
/// The coordinator is told a little earlier, so that no job comes meanwhile.
void AgentNode::look_at_offer(control::OfferChanged& told) {
  const auto status =
      check_certificate(options_.identity.get(), base::unix_seconds() + kOfferAheadS);
  control::OfferChanged now;
  if (!status.ok()) now.withheld = status.text();
  if (options_.lost_gpus) now.lost_gpus = options_.lost_gpus();
  if (now == told) return;
  told = now;
  agent_.post(std::move(now));
}

/// The child's socket is adopted before anything is told of it: whoever hears that it has started
/// can speak to it.
void AgentNode::started(const ProcessKey& key, const base::Result<ChildProcess>& process) {
  if (!process.ok()) {
    return agent_.post(control::ChildNotStarted{key, process.status().text()});
  }
  const link::LinkEnd self{{Role::agent, 0}, options_.name, key.job, key.generation};
  auto link = links_.adopt(process->socket, link::LinkSet::Greeting::wait, self,
                           std::make_shared<ChildHandler>(agent_, key));
  children_.add(key, {process->id, link.ok() ? *link : nullptr});
  agent_.post(control::ChildStarted{key, link.status(), process->pid});
}

void AgentNode::exited(const ProcessKey& key, const ProcessExit& exit) {
  children_.remove(key);
  agent_.post(control::ChildExited{key, exit.how, exit.clean});
}

// ---- on the agent's actor ----

void AgentNode::join_coordinator(const control::JoinCoordinator& join) {
  auto link = links_.dial(dial_options(join.wait_ms),
                          std::make_shared<CoordinatorHandler>(agent_, desk_, join.join));
  if (link.ok()) {
    coordinator_ = std::move(link).value();
    join_ = join.join;
  } else {
    agent_.post(control::CoordinatorLost{join.join, link.status().text()});
  }
}

/// Before it joins it shows its token, as people do.
void AgentNode::tell_coordinator(schemas::Message message) {
  if (!options_.token.empty() && std::holds_alternative<schemas::AgentHello>(message)) {
    tell_coordinator(schemas::PersonHello{options_.token});
  }
  schemas::Envelope envelope;
  envelope.to = {Role::coordinator, 0};
  envelope.message = std::move(message);
  const base::Status status = coordinator_->send(std::move(envelope));
  if (status.ok()) return;
  base::log_warn("to the coordinator: {}", status.text());
  // What is sent once must not be lost: an agent whose link can take no more joins anew.
  if (status.code() == base::Errc::resource_exhausted) coordinator_->abort(status);
}

std::vector<std::string> AgentNode::command_of(const ProcessKey& process) const {
  std::vector<std::string> command = options_.command;
  const auto add = [&](std::string_view option, const std::string& value) {
    command.emplace_back(option);
    command.push_back(value);
  };
  add("--job", process.job);
  add("--generation", std::to_string(process.generation));
  add("--role", process.actor.role == Role::parameter_server ? "server" : "host");
  add("--index", std::to_string(process.actor.index));
  add("--name", options_.name);
  add("--listen", options_.host);
  add("--pages", options_.pages_host);
  for (const std::string& limit : base::changed_limits(options_.limits)) add("--limit", limit);
  if (!options_.ports.any()) add("--ports", options_.ports.to_string());
  const http::GuardFiles& files = options_.guard_files;
  if (!files.tls.empty()) add("--metrics-tls", files.tls.string());
  if (!files.token.empty()) add("--metrics-token", files.token.string());
  return command;
}

/// The supervisor forks on the main thread, and calls back there. Where this agent's certificate
/// has ended, its processes' would be worth nothing: none begins.
void AgentNode::start_child(const control::StartChild& start) {
  const ProcessKey& process = start.process;
  if (const auto ended = check_certificate(options_.identity.get(), base::unix_seconds());
      !ended.ok()) {
    return agent_.post(control::ChildNotStarted{process, ended.text()});
  }
  ProcessSpec spec;
  spec.name = fmt::format("process of {} of job {}", process.actor.to_string(), process.job);
  spec.command = command_of(process);
  spec.environment.push_back(child_devices(options_.gpus, start.gpus).environment);
  supervisor_.start(
      std::move(spec),
      [this, process](const base::Result<ChildProcess>& child) { started(process, child); },
      [this, process](const ProcessExit& exit) { exited(process, exit); });
}

void AgentNode::stop_child(const control::StopChild& stop) {
  const auto child = children_.find(stop.process);
  if (!child) return;
  // The state machine keeps the grace; the supervisor's own is the safety net.
  supervisor_.stop(child->id, stop.kill ? 0 : options_.limits.stop_grace_ms);
}

void AgentNode::tell_child(const control::ToChild& to, schemas::Message message) {
  const auto child = children_.find(to.process);
  if (!child || !child->link) return;
  if (auto* launch = std::get_if<schemas::LaunchProcess>(&message)) {
    give_credentials(*launch);
    launch->gpus = child_devices(options_.gpus, launch->gpus).gpus;
  }
  schemas::Envelope envelope;
  envelope.job = to.process.job;
  envelope.generation = to.process.generation;
  envelope.to = to.actor;
  envelope.message = std::move(message);
  const base::Status status = child->link->send(std::move(envelope));
  if (!status.ok()) base::log_debug("to {}: {}", to.actor.to_string(), status.text());
}

/// A process shows its own certificate, which holds as long as this agent's.
void AgentNode::give_credentials(schemas::LaunchProcess& launch) const {
  launch.credentials.clear();  // the coordinator has none to give
  if (options_.identity == nullptr) return;
  const trust::Credentials own = options_.identity->credentials();
  const trust::Identity who =
      trust::process_identity(own.info.identity, launch.job, launch.generation);
  const auto made = trust::delegate(own, who, own.info.validity);
  if (made.ok()) {
    launch.credentials = made->to_pem();
  } else {
    base::log_warn("credentials for {}: {}", who.to_string(), made.status().text());
  }
}

/// The main thread tells the links.
void AgentNode::use_deny_list(const std::string& pem) {
  if (options_.identity == nullptr) return;  // nobody here has a certificate
  const base::Status status = options_.identity->use_deny_list(pem);
  if (!status.ok()) base::log_warn("from the coordinator: {}", status.text());
}

/// One after the other for a file, which is written and later removed; and who still waits for an
/// older probe of it has given up.
void AgentNode::probe_folder(const schemas::FolderProbe& probe) {
  const std::string file = (std::filesystem::path(probe.path) / probe.file).string();
  look_at_folder(probes_, options_.files, {file, probe.job}, probe,
                 [this](schemas::FolderProbeResult result) {
                   agent_.post(control::FolderProbed{std::move(result)});
                 });
}

void AgentNode::serve_piece(const schemas::PieceQuery& query) {
  cluster::serve_piece(pieces_, options_.files, coordinator_, query, query.job,
                       [](const link::Link&, const base::Status& why) {
                         base::log_warn("to the coordinator: {}", why.text());
                       });
}

/// What the coordinator does not send in time is not waited for; nor is what a job wanted before,
/// whose next piece is refused.
void AgentNode::place_files(const control::PlaceFiles& wanted) {
  const schemas::PlaceCheckpoint& place = wanted.place;
  const auto tell = [this, job = place.job, generation = place.generation,
                     number = wanted.number](const base::Status& status) {
    agent_.post(control::FilesPlaced{{job, generation, status.code(), status.text()}, number});
  };
  std::erase_if(placing_, [](const auto& entry) { return entry.second.expired(); });
  const auto batch = std::make_shared<OpenBatch>(desk_);
  const auto older = std::exchange(placing_[place.job], batch).lock();
  if (older) desk_->close(older->number());
  const AskPiece ask = [batch, peer = join_, link = std::weak_ptr(coordinator_), place](
                           const std::string& file, std::uint64_t offset, std::uint64_t bytes) {
    schemas::PieceQuery query;
    query.job = place.job;
    query.generation = place.generation;
    query.file = file;
    query.offset = offset;
    query.bytes = bytes;
    return batch->ask(peer, link, std::move(query));
  };
  const auto call = [tell, place, ask, have = options_.files.place] {
    return [tell, status = have(place, ask)] { tell(status); };
  };
  if (copies_.add({place.job, place.job}, call)) return;
  tell(base::error(base::Errc::resource_exhausted, "too many jobs want files"));
}

void AgentNode::drop_files(const schemas::DropCheckpoint& drop) {
  drop_in_background(copies_, options_.files, drop);
}

}  // namespace

base::Status run_agent(const AgentOptions& options) {
  AgentNode node(options);
  return node.run();
}

}  // namespace troupe::cluster
