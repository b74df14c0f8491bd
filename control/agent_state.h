// SPDX-License-Identifier: Apache-2.0
// AgentState: the processes that the coordinator asked for on one machine. It joins the
// coordinator, and again when it has lost it; it starts and stops processes, tells how they ended,
// and carries messages between them and the coordinator. Asked to end, it first has the coordinator
// save its jobs and take them away. No process outlives its job, its agent, or for
// long the link over which it was asked for, but one that even SIGKILL does not end: for that
// nobody waits long, and what it may still use is not offered. Pure: no clock, thread or socket;
// one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "control/control_events.h"
#include "schemas/message_families.h"

namespace troupe::control {

/// See the top of the file.
class AgentState {
 public:
  using Event = AgentEvent;
  using Effect = AgentEffect;

  AgentState(schemas::AgentHello hello, const base::Limits& limits);

  /// Returns what is to be done, in order; nothing after End.
  std::vector<Effect> handle(const Event& event);

  /// Children that are starting, run, or have not been heard to their end.
  std::size_t children() const { return children_.size(); }

 private:
  struct Exit {
    std::string how;
    bool clean = false;
  };
  struct Child {
    schemas::LaunchProcess launch;  // handed over once it has started
    std::vector<std::uint32_t> ranks;
    std::vector<std::uint32_t> gpus;  // LaunchProcess::gpus
    bool started = false;
    std::int64_t pid = 0;
    bool unknown = false;      // to the coordinator: it is of an earlier link
    bool stop_wanted = false;  // before it had started, or since
    std::optional<std::uint64_t> kill_at_ms;
    std::optional<std::uint64_t> killed_ms;  // for the first time
    std::optional<Exit> exit;                // it is reaped
    bool silent = false;                     // everything that it said has been told
    base::Status hang;                       // why the agent itself had to end it
  };
  using Children = std::map<ProcessKey, Child>;

  void on(const Begin& begin);
  void on(const Tick& tick);
  void on(const CoordinatorUp& up);
  void on(const CoordinatorSaid& said);
  void on(const CoordinatorLost& lost);
  void on(const ChildStarted& started);
  void on(const ChildNotStarted& failed);
  void on(const ChildSaid& said);
  void on(const ChildExited& exited);
  void on(const ChildSilent& silent);
  void on(const FolderProbed& probed);
  void on(const FilesPlaced& placed);
  void on(const OfferChanged& offer);
  void on(const StopRequested& stop);

  void on_message(const schemas::AgentWelcome& welcome);
  void on_message(const schemas::JobEnd& end);
  void on_message(const schemas::LaunchProcess& launch);
  void on_message(const schemas::StopProcesses& stop);
  void on_message(const schemas::ProcessMessage& message);
  void on_message(const schemas::FolderProbe& probe);
  void on_message(const schemas::DenyList& list);
  void on_message(const schemas::PieceQuery& query);
  void on_message(const schemas::PlaceCheckpoint& place);
  void on_message(const schemas::DropCheckpoint& drop);
  /// What only agents say; and pieces that nobody has asked for: the shell takes the others.
  template <schemas::OneOf<schemas::AgentHello, schemas::ProcessExited, schemas::FolderProbeResult,
                           schemas::AgentLeaving, schemas::AgentOffer, schemas::CheckpointPlaced,
                           schemas::FilePiece>
                Own>
  void on_message(const Own&) {}
  /// What the coordinator says to the actors of a job, and they to it, travels inside a
  /// ProcessMessage.
  template <schemas::OneOf<schemas::DatasetReport, schemas::TrainingStart, schemas::ProgressReport,
                           schemas::EvaluationReport, schemas::CheckpointReport,
                           schemas::ServerReport, schemas::CutQuery, schemas::CutReady,
                           schemas::ExtraCut, schemas::ExtraCutTaken, schemas::ActorDone,
                           schemas::ActorFailed, schemas::Placement, schemas::ProcessReady>
                Carried>
  void on_message(const Carried&) {}
  /// The coordinator has nothing of these to say to an agent.
  template <typename Other>
  requires schemas::DataMessage<Other> || schemas::PersonMessage<Other> ||
      schemas::LinkMessage<Other>
  void on_message(const Other&) {}

  void emit(Effect effect) { effects_.push_back(std::move(effect)); }
  void try_for(std::uint64_t wait_ms);
  void join();
  void try_again(std::uint64_t pause_ms, const base::Status& why);
  void leave(const base::Status& why);
  void leave_in_order();
  bool stays(const Child& child) const;
  bool alone() const;
  schemas::AgentOffer offer() const;
  void greet_if_alone();
  void tell(schemas::Message message);
  void carry(const ProcessKey& process, const schemas::ActorId& from,
             const schemas::Message& message);
  Children::iterator find(const schemas::ProcessMessage& message);
  Child& child_of(const ProcessKey& process);
  std::string name_of(const ProcessKey& process);
  std::string names_of_children();
  void stop(const ProcessKey& process, Child& child, std::uint64_t grace_ms);
  void stop_all();
  void tell_if_ended(const ProcessKey& process);
  void end_if_alone();

  schemas::AgentHello hello_;
  base::Limits limits_;
  Children children_;
  std::map<std::string, std::uint64_t> placing_;  // the PlaceFiles that counts, by job: its number
  std::uint64_t placings_ = 0;                    // PlaceFiles so far
  std::uint64_t now_ms_ = 0;
  enum class Link : std::uint8_t {
    none,      // lost, or refused and about to end
    making,    // JoinCoordinator is under way
    up,        // but the coordinator has not heard of this agent
    greeted,   // it has
    welcomed,  // and has taken it in
    closing    // it ends in good order
  };
  Link link_ = Link::none;
  std::uint64_t joins_ = 0;              // the number of the link that counts
  std::optional<base::Status> leaving_;  // why the agent ends
  /// It was asked to end, and waits so long for the coordinator to take its children away.
  std::optional<std::uint64_t> leave_at_ms_;
  std::optional<std::uint64_t> stop_all_at_ms_;  // the grace after a lost coordinator
  std::uint64_t join_until_ms_ = 0;              // tries to be taken in end then
  std::optional<std::uint64_t> join_again_at_ms_;
  bool first_try_ = true;           // of these: it ends soon, and its reason is told
  std::uint64_t remind_at_ms_ = 0;  // earlier than this no failed try is told again
  std::string told_;                // why the one that was told last had failed
  bool begun_ = false;
  bool ended_ = false;
  std::vector<Effect> effects_;  // of the event that is being handled
};

}  // namespace troupe::control
