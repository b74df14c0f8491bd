// SPDX-License-Identifier: Apache-2.0
// Coordinator: the cluster's coordinator as an actor. People's questions and agents' reports are
// its events; a program (cluster/coordinator_node.h) lends it links, a clock and background calls.
// Any thread may speak to it; made and destroyed by one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "actors/backlog.h"
#include "actors/role_shell.h"
#include "control/coordinator_state.h"

namespace troupe::actors {

/// What a coordinator acts through; called on its actor, one call at a time. None may wait.
class CoordinatorPorts {
 public:
  virtual ~CoordinatorPorts() = default;
  /// To a peer; nothing when it is gone.
  virtual void send(control::PeerId peer, schemas::Message message) = 0;
  /// Tells a peer why, and ends its link.
  virtual void drop(control::PeerId peer, const base::Status& reason) = 0;
  /// In the background; answered by post(StartFound), or never. Until then post(WorkGoesOn) when
  /// its turn comes nearer.
  virtual void find_start(control::FindStart find) = 0;
  /// Likewise, by post(FolderProbed).
  virtual void probe_folder(control::ProbeFolder wanted) = 0;
  /// Likewise, by post(FolderHeld).
  virtual void hold_folder(control::HoldFolder hold) = 0;
  virtual void let_go_of_folder(const std::string& job) = 0;
  /// Likewise, by post(CheckpointCollected); until then post(WorkGoesOn) now and then.
  virtual void collect_checkpoint(control::CollectCheckpoint collect) = 0;
  /// What is being collected for the job is not wanted any more.
  virtual void end_collecting(const std::string& job) = 0;
  /// In the background; the peer is sent a FilePiece.
  virtual void serve_piece(control::ServePiece serve) = 0;
  /// In the background; what comes of it is logged.
  virtual void check_copy(const control::CheckCopy& copy) = 0;
  /// Likewise.
  virtual void drop_files(const schemas::DropCheckpoint& drop) = 0;
  /// Check it and keep it, elsewhere; answered by post(DenyListRead).
  virtual void take_deny_list(control::TakeDenyList list) = 0;
  virtual void audit(control::Audit change) = 0;
  /// A job has left the queue after so long.
  virtual void admitted(std::uint64_t queued_ms) = 0;
  /// A job has ended.
  virtual void finished(schemas::JobPhase phase) = 0;
};

/// See the top of the file.
class Coordinator final : public RoleShell<Coordinator, control::CoordinatorState> {
 public:
  /// `system`, `clock` and `ports` outlive end().
  Coordinator(ActorSystem& system, const base::Clock& clock, CoordinatorPorts& ports,
              const control::CoordinatorOptions& options);
  ~Coordinator() { end(); }

  /// post() for what comes over links: waits while too much is unhandled. Not after end().
  void hear(control::PeerSaid said);
  /// Afterwards no port is in use or will be.
  using RoleShell::end;

 private:
  friend class RoleShell<Coordinator, control::CoordinatorState>;
  void handle(Event event);
  using RoleShell::perform;
  void perform(control::Send<control::PeerId> send) {
    ports_.send(send.to, std::move(send.message));
  }
  void perform(const control::DropPeer& drop) { ports_.drop(drop.peer, drop.reason); }
  void perform(control::FindStart find) { ports_.find_start(std::move(find)); }
  void perform(control::ProbeFolder wanted) { ports_.probe_folder(std::move(wanted)); }
  void perform(control::HoldFolder hold) { ports_.hold_folder(std::move(hold)); }
  void perform(const control::LetGoOfFolder& end) { ports_.let_go_of_folder(end.job); }
  void perform(control::CollectCheckpoint collect) {
    ports_.collect_checkpoint(std::move(collect));
  }
  void perform(const control::EndCollecting& end) { ports_.end_collecting(end.job); }
  void perform(control::ServePiece serve) { ports_.serve_piece(std::move(serve)); }
  void perform(const control::CheckCopy& check) { ports_.check_copy(check); }
  void perform(const control::DropFiles& files) { ports_.drop_files(files.drop); }
  void perform(control::TakeDenyList list) { ports_.take_deny_list(std::move(list)); }
  void perform(control::Audit change) { ports_.audit(std::move(change)); }
  void perform(const control::JobAdmitted& job) { ports_.admitted(job.queued_ms); }
  void perform(const control::JobFinished& job) { ports_.finished(job.phase); }

  CoordinatorPorts& ports_;
  Backlog backlog_{kUnhandledMax};
};

}  // namespace troupe::actors
