// SPDX-License-Identifier: Apache-2.0
// Agent: the agent of a machine as an actor. A program (cluster/agent_node.h) lends it links,
// child processes and background calls. Any thread may speak to it; made and destroyed by one.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "actors/backlog.h"
#include "actors/role_shell.h"
#include "base/mutex.h"
#include "control/agent_state.h"

namespace troupe::actors {

/// What an agent acts through; called on its actor, one call at a time. None may wait. What they
/// are answered by stands in control_events.h.
class AgentPorts {
 public:
  virtual ~AgentPorts() = default;
  virtual void join_coordinator(const control::JoinCoordinator& join) = 0;
  virtual void leave_coordinator(const std::string& text) = 0;
  /// Nothing when the link is down.
  virtual void tell_coordinator(schemas::Message message) = 0;
  virtual void start_child(const control::StartChild& start) = 0;
  virtual void stop_child(const control::StopChild& stop) = 0;
  /// Nothing when the child is gone.
  virtual void tell_child(const control::ToChild& to, schemas::Message message) = 0;
  virtual void probe_folder(const schemas::FolderProbe& probe) = 0;
  /// In the background; the coordinator is sent a FilePiece.
  virtual void serve_piece(const schemas::PieceQuery& query) = 0;
  virtual void place_files(const control::PlaceFiles& wanted) = 0;
  /// In the background; what cannot be removed is logged.
  virtual void drop_files(const schemas::DropCheckpoint& drop) = 0;
  /// Of what is revoked, PEM; what comes of it is logged.
  virtual void use_deny_list(const std::string& pem) = 0;
};

/// See the top of the file.
class Agent final : public RoleShell<Agent, control::AgentState> {
 public:
  /// `system`, `clock` and `ports` outlive end().
  Agent(ActorSystem& system, const base::Clock& clock, AgentPorts& ports, schemas::AgentHello hello,
        const base::Limits& limits);
  ~Agent() { end(); }

  /// Joins the coordinator. Once, when all ports are ready.
  void start();
  /// post() for what comes over links: waits while too much is unhandled. Not after end().
  void hear(Event said);
  /// Why the agent has ended; nullopt: it has not. Any thread.
  std::optional<base::Status> result() const;
  /// Afterwards no port is in use or will be.
  using RoleShell::end;

 private:
  friend class RoleShell<Agent, control::AgentState>;
  void handle(Event event);
  using RoleShell::perform;
  void perform(const control::JoinCoordinator& join) { ports_.join_coordinator(join); }
  void perform(const control::LeaveCoordinator& leave) { ports_.leave_coordinator(leave.text); }
  void perform(control::Send<control::ToCoordinator> send) {
    ports_.tell_coordinator(std::move(send.message));
  }
  void perform(const control::StartChild& start) { ports_.start_child(start); }
  void perform(const control::StopChild& stop) { ports_.stop_child(stop); }
  void perform(control::Send<control::ToChild> send) {
    ports_.tell_child(send.to, std::move(send.message));
  }
  void perform(const control::ProbeFolder& probe) { ports_.probe_folder(probe.probe); }
  void perform(const control::ServePiece& serve) { ports_.serve_piece(serve.query); }
  void perform(const control::PlaceFiles& files) { ports_.place_files(files); }
  void perform(const control::DropFiles& files) { ports_.drop_files(files.drop); }
  void perform(const control::UseDenyList& list) { ports_.use_deny_list(list.pem); }
  void perform(const control::End& end);

  AgentPorts& ports_;
  Backlog backlog_{kUnhandledMax};
  mutable base::Mutex mutex_;
  std::optional<base::Status> result_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::actors
