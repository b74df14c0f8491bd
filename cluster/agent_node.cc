// SPDX-License-Identifier: Apache-2.0
// The agent's links and children around its state machine.
#include "cluster/agent_node.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "base/file.h"
#include "base/log.h"
#include "cluster/background_calls.h"
#include "cluster/process.h"
#include "control/agent_state.h"
#include "link/link_set.h"
#include "storage/storage.h"

namespace troupe::cluster {
namespace {

using control::AgentEvent;
using control::ProcessKey;
using schemas::Role;

constexpr std::int64_t kTickMs = 50;
constexpr std::uint64_t kNonceBytesMax = 4'096;

schemas::Envelope envelope_of(schemas::ActorId to, schemas::Message message) {
  schemas::Envelope envelope;
  envelope.to = to;
  envelope.message = std::move(message);
  return envelope;
}

/// Writes, removes or reads back the nonce; see schemas::FolderProbe.
base::Status probe_folder(const schemas::FolderProbe& probe) {
  namespace fs = std::filesystem;
  const fs::path file = fs::path(probe.path) / probe.file;
  std::error_code code;
  if (probe.write && probe.nonce.empty()) {
    fs::remove(file, code);
    return {};
  }
  if (probe.write) {
    fs::create_directories(probe.path, code);
    return base::write_file_atomically(file, std::as_bytes(std::span(probe.nonce)));
  }
  TROUPE_TRY_ASSIGN(const std::string found, base::read_text_file(file, kNonceBytesMax));
  if (found == probe.nonce) return {};
  return base::error(base::Errc::failed_precondition, "{} holds something else", file.string());
}

/// See run_agent.
class AgentNode {
 public:
  explicit AgentNode(const AgentOptions& options)
      : options_(options),
        state_(hello(options), options.limits),
        links_(options.limits, storage_.pool(base::Device{})),
        probes_("the probe of", options.limits.jobs_max, options.limits.goodbye_ms) {}
  ~AgentNode() { links_.stop(); }

  base::Status run();

 private:
  class CoordinatorHandler;
  class ChildHandler;
  struct Child {
    std::uint64_t id = 0;  // of the supervisor; 0: not started yet
    std::shared_ptr<link::Link> link;
    std::optional<ProcessExit> exit;
    bool stop = false;    // asked for before it had started
    bool silent = false;  // its link is down
  };

  static schemas::AgentHello hello(const AgentOptions& options);
  base::Status join(std::uint64_t wait_ms);
  void post(const AgentEvent& event);
  void run_effects(const std::vector<control::AgentEffect>& effects);
  void perform(const control::ToCoordinator& send);
  void perform(const control::StartChild& start);
  void perform(const control::ToChild& send);
  void perform(const control::StopChild& stop);
  void perform(const control::ProbeFolder& probe);
  void perform(const control::JoinAgain& join);
  void perform(const control::LeaveCoordinator& leave);
  void perform(const control::ExitAgent& exit);
  void perform(const control::Note& note);
  void started(const control::StartChild& start, const base::Result<ChildProcess>& process);
  void exited(const ProcessKey& key, const ProcessExit& exit);
  void child_silent(const ProcessKey& key);
  std::optional<control::ChildEnded> ended(const ProcessKey& key);
  std::vector<std::string> command_of(const schemas::LaunchProcess& launch) const;

  const AgentOptions options_;
  base::SteadyClock clock_;
  storage::Storage storage_;
  ProcessSupervisor supervisor_;
  std::recursive_mutex mutex_;  // of all below; effects run under it, in order
  control::AgentState state_;
  std::map<ProcessKey, Child> children_;
  std::shared_ptr<link::Link> coordinator_;
  std::uint64_t joins_ = 0;  // so many links to the coordinator; all but the last are over
  bool coordinator_down_ = false;
  bool left_ = false;
  std::optional<base::Status> result_;
  link::LinkSet links_;     // its thread calls into all above, and, until it stops, into the probes
  BackgroundCalls probes_;  // a folder may be slow: nobody else waits for it, nor does the end
};

class AgentNode::CoordinatorHandler final : public link::LinkHandler {
 public:
  CoordinatorHandler(AgentNode& node, std::uint64_t join) : node_(node), join_(join) {}
  void on_up() override {
    const std::lock_guard lock(node_.mutex_);
    if (over()) return;
    node_.run_effects(node_.state_.begin());
  }
  void on_envelope(schemas::Envelope envelope) override {
    const std::lock_guard lock(node_.mutex_);
    if (over()) return;
    node_.post(control::CoordinatorSaid{std::move(envelope.message)});
  }
  void on_down(const base::Status& reason) override {
    const std::lock_guard lock(node_.mutex_);
    if (over()) return;
    node_.coordinator_down_ = true;
    node_.post(control::CoordinatorLost{reason.ok() ? "it said goodbye" : reason.text()});
  }

 private:
  bool over() const { return join_ != node_.joins_; }

  AgentNode& node_;
  const std::uint64_t join_;
};

class AgentNode::ChildHandler final : public link::LinkHandler {
 public:
  ChildHandler(AgentNode& node, ProcessKey key) : node_(node), key_(std::move(key)) {}
  void on_envelope(schemas::Envelope envelope) override {
    node_.post(control::ChildSaid{key_, envelope.from, std::move(envelope.message)});
  }
  void on_down(const base::Status&) override { node_.child_silent(key_); }

 private:
  AgentNode& node_;
  const ProcessKey key_;
};

schemas::AgentHello AgentNode::hello(const AgentOptions& options) {
  schemas::AgentHello hello;
  hello.name = options.name;
  hello.version = options.version;
  hello.slots = options.slots;
  hello.http_address = options.http_address;
  hello.numeric_class = options.numeric_class;
  return hello;
}

/// Dials the coordinator; an earlier link is forgotten.
base::Status AgentNode::join(std::uint64_t wait_ms) {
  link::DialOptions dial;
  dial.address = options_.coordinator;
  dial.self = {{Role::agent, 0}, options_.name, "", 0};
  dial.peer = {{Role::coordinator, 0}, "", "", 0};
  dial.wait_ms = wait_ms;
  const std::lock_guard lock(mutex_);
  coordinator_down_ = false;
  TROUPE_TRY_ASSIGN(coordinator_, links_.dial(std::move(dial), std::make_shared<CoordinatorHandler>(
                                                                   *this, ++joins_)));
  return {};
}

base::Status AgentNode::run() {
  post(control::TimePassed{static_cast<std::uint64_t>(clock_.now_ms())});
  TROUPE_TRY(join(options_.limits.join_wait_ms));
  int stops = 0;
  while (true) {
    supervisor_.run_once(kTickMs);
    if (options_.stop_signals) {
      for (const int asked = options_.stop_signals(); stops < asked; ++stops) {
        post(control::StopRequested{});
      }
    }
    post(control::TimePassed{static_cast<std::uint64_t>(clock_.now_ms())});
    const std::lock_guard lock(mutex_);
    // The Goodbye goes out first; the link gives it limits.goodbye_ms.
    if (result_ && (coordinator_down_ || !left_)) return *result_;
  }
}

void AgentNode::post(const AgentEvent& event) {
  const std::lock_guard lock(mutex_);
  run_effects(state_.handle(event));
}

void AgentNode::run_effects(const std::vector<control::AgentEffect>& effects) {
  for (const control::AgentEffect& effect : effects) {
    std::visit([this](const auto& what) { perform(what); }, effect);
  }
}

void AgentNode::perform(const control::ToCoordinator& send) {
  const base::Status status = coordinator_->send(envelope_of({Role::coordinator, 0}, send.message));
  if (!status.ok()) base::log_warn("to the coordinator: {}", status.text());
}

std::vector<std::string> AgentNode::command_of(const schemas::LaunchProcess& launch) const {
  std::vector<std::string> command = options_.command;
  const auto add = [&](std::string_view option, const std::string& value) {
    command.emplace_back(option);
    command.push_back(value);
  };
  add("--job", launch.job);
  add("--generation", std::to_string(launch.generation));
  add("--role", launch.actor.role == Role::parameter_server ? "server" : "host");
  add("--index", std::to_string(launch.actor.index));
  add("--name", options_.name);
  return command;
}

void AgentNode::perform(const control::StartChild& start) {
  children_[start.process] = Child{};
  ProcessSpec spec;
  spec.name =
      fmt::format("process of {} of job {}", start.process.actor.to_string(), start.process.job);
  spec.command = command_of(start.launch);
  supervisor_.start(
      std::move(spec),
      [this, start](const base::Result<ChildProcess>& process) { started(start, process); },
      [this, key = start.process](const ProcessExit& exit) { exited(key, exit); });
}

void AgentNode::started(const control::StartChild& start,
                        const base::Result<ChildProcess>& process) {
  const std::lock_guard lock(mutex_);
  Child& child = children_[start.process];
  if (!process.ok()) {
    children_.erase(start.process);
    post(control::ChildEnded{start.process, "not started: " + process.status().text(), false});
    return;
  }
  child.id = process->id;
  const link::LinkEnd self{
      {Role::agent, 0}, options_.name, start.launch.job, start.launch.generation};
  auto link = links_.adopt(process->socket, link::LinkSet::Greeting::wait, self,
                           std::make_shared<ChildHandler>(*this, start.process));
  if (!link.ok()) {
    child.silent = true;
    supervisor_.stop(child.id, 0);
    return;
  }
  child.link = *link;
  if (child.stop) supervisor_.stop(child.id, 0);
  schemas::Envelope envelope = envelope_of(start.process.actor, start.launch);
  envelope.job = start.launch.job;
  envelope.generation = start.launch.generation;
  const base::Status sent = child.link->send(std::move(envelope));
  if (!sent.ok()) base::log_warn("to a new process: {}", sent.text());
}

void AgentNode::perform(const control::ToChild& send) {
  const auto found = children_.find(send.process);
  if (found == children_.end() || !found->second.link) return;
  const base::Status status = found->second.link->send(envelope_of(send.to, send.message));
  if (!status.ok()) base::log_debug("to {}: {}", send.to.to_string(), status.text());
}

void AgentNode::perform(const control::StopChild& stop) {
  const auto found = children_.find(stop.process);
  if (found == children_.end()) return;
  if (found->second.id == 0) {
    found->second.stop = true;
  } else {
    // The state machine keeps the grace; the supervisor's own is the safety net.
    supervisor_.stop(found->second.id, stop.kill ? 0 : options_.limits.stop_grace_ms);
  }
}

void AgentNode::exited(const ProcessKey& key, const ProcessExit& exit) {
  const std::lock_guard lock(mutex_);
  const auto found = children_.find(key);
  if (found == children_.end()) return;
  found->second.exit = exit;
  if (const auto event = ended(key)) post(*event);
}

void AgentNode::child_silent(const ProcessKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = children_.find(key);
  if (found == children_.end()) return;
  found->second.silent = true;
  if (const auto event = ended(key)) post(*event);
}

// A child has ended when it is reaped and everything that it said was read.
std::optional<control::ChildEnded> AgentNode::ended(const ProcessKey& key) {
  const auto found = children_.find(key);
  if (!found->second.exit || !found->second.silent) return {};
  control::ChildEnded event{key, found->second.exit->how, found->second.exit->clean};
  children_.erase(found);
  return event;
}

void AgentNode::perform(const control::ProbeFolder& wanted) {
  const schemas::FolderProbe& probe = wanted.probe;
  const auto tell = [this, job = probe.job,
                     generation = probe.generation](const base::Status& status) {
    post(control::FolderProbed{{job, generation, status.code(), status.text()}});
  };
  // One after the other for a file, which is written and later removed; and who still waits for an
  // older probe of it has given up.
  const std::string file = (std::filesystem::path(probe.path) / probe.file).string();
  const bool added = probes_.add(
      file, [tell, probe] { return [tell, status = probe_folder(probe)] { tell(status); }; });
  if (!added) tell(base::error(base::Errc::resource_exhausted, "too many folders are probed"));
}

void AgentNode::perform(const control::JoinAgain& again) {
  const base::Status status = join(again.wait_ms);
  if (!status.ok()) post(control::CoordinatorLost{status.text()});
}

void AgentNode::perform(const control::LeaveCoordinator& leave) {
  left_ = true;
  coordinator_->close(leave.text);
}

void AgentNode::perform(const control::ExitAgent& exit) {
  result_ = exit.status;
}

void AgentNode::perform(const control::Note& note) {
  if (note.warning) {
    base::log_warn("{}", note.text);
  } else {
    base::log_info("{}", note.text);
  }
}

}  // namespace

base::Status run_agent(const AgentOptions& options) {
  AgentNode node(options);
  return node.run();
}

}  // namespace troupe::cluster
