// SPDX-License-Identifier: Apache-2.0
// What goes into the state machines of the coordinator, its runs and of agents (events) and what
// comes out of them (effects), beside what all roles have in common (role_events.h). They know no
// clock, socket or process: their shell runs the effects and tells what became of them. Plain
// values. (actors/effects.h is the same for workers and servers.)
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/secret.h"
#include "base/status.h"
#include "control/role_events.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"
#include "trust/identity.h"
#include "trust/token.h"

namespace troupe::control {

/// What is kept of why a job waits or has failed: others may choose how long they tell it.
inline constexpr std::size_t kNoteBytesMax = 1'024;

// ---- events of several machines ----

/// The machine's work begins; before it only Ticks may come, which change nothing. The clock is
/// that of Tick.
struct Begin {
  std::uint64_t now_ms = 0;
};
/// A person or the system wants an end: of the job, or of the agent.
struct StopRequested {
  bool checkpoint = false;  ///< of a job: with a cut out of turn before
};
/// Result of FindStart.
struct StartFound {
  std::string job;
  std::uint64_t run = 1;  ///< FindStart's: an answer to an earlier run's question is no answer
  base::Status status;
  std::uint64_t step = 0;
  std::uint64_t generation = 1;
  std::uint64_t steps_total = 0;  ///< the step that the job ends at
  std::string checkpoint;         ///< that it goes on from; empty: from the beginning
  base::Secret secret{};          ///< random, for the run's processes
  /// With FindStart's `copied`: names of the checkpoint's files, and which of them hold the slices
  /// of each of the run's shards, by position.
  std::vector<std::string> files = {};
  std::vector<std::vector<std::uint32_t>> files_of_shard = {};
  /// With FindStart's `copied`: the newest one was damaged and is set aside; nothing else is told.
  bool set_aside = false;
  /// With FindStart's `copied`: most bytes of the files of one of the job's checkpoints.
  std::uint64_t checkpoint_bytes = 0;
};
/// Result of ProbeFolder.
struct FolderProbed {
  schemas::FolderProbeResult result;
  std::string nonce = {};  ///< that was chosen; empty where it was given
};
/// Result of HoldFolder.
struct FolderHeld {
  std::string job;
  std::uint64_t run = 1;  ///< HoldFolder's
  base::Status status;    ///< ok: nobody else writes there
  /// The newest checkpoint whose files are there with their sizes; both 0: there is none.
  schemas::NamedCheckpoint newest = {};
};
/// What a run waits for in the background goes on: its turn has come or is nearer, or pieces of
/// what is being collected come. Told now and then.
struct WorkGoesOn {
  std::string job;
  std::uint64_t run = 1;  ///< of ProbeFolder, HoldFolder, FindStart or CollectCheckpoint
};
/// Result of CollectCheckpoint.
struct CheckpointCollected {
  std::string job;
  std::uint64_t run = 1;  ///< generation of the run that wants it
  std::uint64_t step = 0;
  std::uint64_t generation = 1;  ///< of the checkpoint
  base::Status status;           ///< ok: the copy is complete
};

// ---- coordinator: events ----

/// One end of the coordinator's links, an agent or a person; chosen by the shell, never used twice.
using PeerId = std::uint64_t;

/// A peer has greeted, before it says anything.
struct PeerLinked {
  PeerId peer = 0;
  /// Where it calls from, a number, and its ports have to be; absent: anywhere, for whoever listens
  /// there shows a certificate of its own.
  std::optional<std::string> host;
  std::string address = {};                 ///< where it calls from, with the port
  std::optional<trust::Identity> holder{};  ///< of its certificate; none: it needs none
};
/// A peer has sent a message.
struct PeerSaid {
  PeerId peer = 0;
  schemas::Message message;
};
/// A peer's link is down for good.
struct PeerLost {
  PeerId peer = 0;
  std::string reason;
};

/// A peer's link is cut; PeerBack or PeerLost follows.
struct PeerCut {
  PeerId peer = 0;
  std::string reason;
};
/// A cut link is whole again; nothing was lost.
struct PeerBack {
  PeerId peer = 0;
};

/// Whether the certificate has ended that a peer has shown on its newest connection; told often
/// while it has, and once when it holds again.
struct CertificateJudged {
  PeerId peer = 0;
  base::Status ended;  ///< ok: it holds
};

/// A token that the coordinator knows, and why it is worth nothing, if so.
struct KnownToken {
  trust::Token token;
  base::Status refused;  ///< ok: it holds
  friend bool operator==(const KnownToken&, const KnownToken&) = default;
};
/// The tokens of people, whenever they have changed.
struct TokensRead {
  bool needed = false;  ///< false: who shows none may do everything
  std::vector<KnownToken> tokens;
  bool unread = false;  ///< they cannot be read, so nobody may anything
  friend bool operator==(const TokensRead&, const TokensRead&) = default;
};
/// A change, for those who want to know later who has made it.
struct Audit {
  std::string who;            ///< "person 'alice'", "agent 'a'", "somebody"
  std::string what;           ///< "submits job 'x'"
  std::string from;           ///< HOST:PORT, or a file
  base::Status refused = {};  ///< ok: it was done
};
/// A list of what is revoked: one that TakeDenyList has asked about, or that lies in the
/// coordinator's folder.
struct DenyListRead {
  PeerId peer = 0;      ///< who has handed it in; 0: nobody did
  base::Status status;  ///< ok: it is the authority's, newer than the one before, and kept
  std::string pem;
  std::optional<Audit> change = {};  ///< none: it is what was known before
};

using CoordinatorEvent =
    std::variant<Tick, PeerLinked, PeerSaid, PeerCut, PeerBack, PeerLost, StartFound, FolderProbed,
                 FolderHeld, WorkGoesOn, CheckpointCollected, TokensRead, DenyListRead,
                 CertificateJudged>;

// ---- effects of several machines ----

/// Write or read back a nonce, in the background; answered by FolderProbed. An empty nonce to write
/// removes the file.
struct ProbeFolder {
  schemas::FolderProbe probe;
  bool choose = false;     ///< the coordinator: write a nonce that nobody can know
  std::string owner = {};  ///< the coordinator: as of FindStart
};
/// Read a piece of a checkpoint's file and send it, in the background.
struct ServePiece {
  PeerId peer = 0;  ///< of an agent: the coordinator, whatever it says
  schemas::PieceQuery query;
  std::string owner = {};  ///< the coordinator: as of FindStart
};

/// Remove files of checkpoints here, in the background; not answered.
struct DropFiles {
  schemas::DropCheckpoint drop;
};

// ---- coordinator: effects ----

/// End a peer's link; it is told why.
struct DropPeer {
  PeerId peer = 0;
  base::Status reason;
};
/// Find where the job begins (train/resume.h), in the background; answered by StartFound.
struct FindStart {
  std::string job;
  std::uint64_t run = 1;  ///< the generation of the run that asks
  schemas::JobSpec spec;
  bool copied = false;     ///< machines do not share checkpoint.dir; see StartFound
  std::string owner = {};  ///< the person whose job it is; empty: nobody knows
};
/// Have the coordinator's own folder for this job alone, until LetGoOfFolder, and look what lies
/// there, in the background; answered by FolderHeld. Once held it is looked at again.
struct HoldFolder {
  std::string job;
  std::uint64_t run = 1;  ///< generation of the run that wants it
  std::string folder;
  std::uint64_t wait_ms = 0;  ///< for another holder to let go
  std::string owner = {};     ///< as of FindStart
};
/// The job needs the coordinator's own folder no more.
struct LetGoOfFolder {
  std::string job;
};
/// Fetch the files of a checkpoint from the agents of machines into the coordinator's own folder,
/// in the background; answered by CheckpointCollected.
struct CollectCheckpoint {
  std::string job;
  std::uint64_t run = 1;  ///< generation of the run that wants it
  std::uint64_t step = 0;
  std::uint64_t generation = 1;  ///< of the checkpoint
  std::string folder;            ///< there and here
  std::uint32_t keep = 0;
  std::uint64_t start_step = 0;     ///< as of store::Retention
  std::vector<PeerId> of_manifest;  ///< agents of the machines that may have the manifest
  std::vector<PeerId> of_shard;     ///< agent of the machine that has the file, by shard; empty:
                                    ///< one of those that may have the manifest
  std::string owner = {};           ///< as of FindStart
  /// Of what machines hold from before the run: it has to be of this job, and nothing is removed
  /// for it. None: the run's own.
  std::optional<schemas::JobSpec> gathered_for = {};
  std::uint64_t checkpoint_bytes = 0;  ///< most bytes of its files, as of StartFound; 0: not known
};
/// Nobody waits any more for what the run collects.
struct EndCollecting {
  std::string job;
};
/// Read all of a copy, and set it aside when it is damaged; not answered.
struct CheckCopy {
  std::string checkpoint;
  std::string owner = {};  ///< as of FindStart
};
/// A job has left the queue, for metrics.
struct JobAdmitted {
  std::uint64_t queued_ms = 0;
};
/// A job has ended, for metrics.
struct JobFinished {
  schemas::JobPhase phase = schemas::JobPhase::succeeded;
};

/// Check a list of what is revoked and keep it, in the background; answered by DenyListRead.
struct TakeDenyList {
  PeerId peer = 0;
  std::string pem;
  Audit change = {};  ///< who hands it in
};

using CoordinatorEffect =
    std::variant<Send<PeerId>, DropPeer, FindStart, ProbeFolder, HoldFolder, LetGoOfFolder,
                 CollectCheckpoint, EndCollecting, ServePiece, CheckCopy, DropFiles, Note,
                 JobAdmitted, JobFinished, TakeDenyList, Audit>;

// ---- a run: events and effects; the coordinator hands them on ----

/// What an agent tells about a run.
using AgentReport =
    std::variant<schemas::FolderProbeResult, schemas::ProcessMessage, schemas::ProcessExited,
                 schemas::PieceQuery, schemas::CheckpointPlaced>;

/// The agent of a machine has told something about this run.
struct AgentSaid {
  std::uint32_t machine = 0;
  AgentReport report;
};
/// The link to the agent of a machine is cut: it may heal, or the machine is gone.
struct AgentCut {
  std::uint32_t machine = 0;
  std::string reason;
};
/// The link to the agent of a machine is whole again.
struct AgentBack {
  std::uint32_t machine = 0;
};
/// The agent of a machine is gone for good, and its processes with it.
struct AgentLost {
  std::uint32_t machine = 0;
  std::string reason;
};

/// A person wants a checkpoint of the run as it is now, and is sent a JobCheckpointAnswer.
struct CheckpointRequested {
  PeerId peer = 0;
};
/// The agent of a machine was asked to end, and waits for this run's processes to go.
struct MachineLeaving {
  std::uint32_t machine = 0;
  std::string reason;
};

/// Effect of a run alone: nobody waits any longer for the link to an agent to heal. The coordinator
/// answers with AgentLost.
struct GiveUpAgent {
  PeerId peer = 0;
  std::string reason;
};

using RunEvent = std::variant<Begin, Tick, AgentSaid, AgentCut, AgentBack, AgentLost, StartFound,
                              FolderProbed, FolderHeld, WorkGoesOn, CheckpointCollected,
                              StopRequested, CheckpointRequested, MachineLeaving>;
using RunEffect =
    std::variant<Send<PeerId>, FindStart, ProbeFolder, HoldFolder, LetGoOfFolder, CollectCheckpoint,
                 EndCollecting, ServePiece, CheckCopy, DropFiles, GiveUpAgent, Note>;

// ---- agent: events ----

/// Names a process of an agent. Runs of one job differ in their generation.
struct ProcessKey {
  std::string job;
  std::uint64_t generation = 1;
  schemas::ActorId actor;  ///< the machine's device server (host process) or a parameter server
  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

/// The link of JoinCoordinator `join` is up.
struct CoordinatorUp {
  std::uint64_t join = 0;
};
/// A message from the coordinator.
struct CoordinatorSaid {
  std::uint64_t join = 0;
  schemas::Message message;
};
/// The link to the coordinator is down for good, or could not be made.
struct CoordinatorLost {
  std::uint64_t join = 0;
  std::string reason;
};
/// StartChild has led to a process. `link`: ok, or why there is none to it; then no ChildSilent
/// follows.
struct ChildStarted {
  ProcessKey process;
  base::Status link;
  std::int64_t pid = 0;
};
/// StartChild has led to nothing; nothing else is told of this child.
struct ChildNotStarted {
  ProcessKey process;
  std::string reason;
};
/// A child has sent a message in the name of one of its actors.
struct ChildSaid {
  ProcessKey process;
  schemas::ActorId from;
  schemas::Message message;
};
/// A child's process has ended and is reaped; what it said before may still be on its way.
struct ChildExited {
  ProcessKey process;
  std::string how;  ///< "exit 0", "signal 9"
  bool clean = false;
};
/// A child's link is down: everything that it said has been told. deadline_exceeded: the child
/// hangs; else it is ending.
struct ChildSilent {
  ProcessKey process;
  base::Status why;
};
/// Whether this machine can take new processes: empty, or why not; and which of its GPUs can take
/// none. What runs goes on.
struct OfferChanged {
  std::string withheld;
  std::vector<schemas::LostGpu> lost_gpus = {};
  friend bool operator==(const OfferChanged&, const OfferChanged&) = default;
};
/// Result of PlaceFiles. None comes where a newer one of the same job has taken its place.
struct FilesPlaced {
  schemas::CheckpointPlaced result;
  std::uint64_t number = 0;  ///< PlaceFiles'
};

using AgentEvent = std::variant<Begin, Tick, CoordinatorUp, CoordinatorSaid, CoordinatorLost,
                                ChildStarted, ChildNotStarted, ChildSaid, ChildExited, ChildSilent,
                                FolderProbed, FilesPlaced, OfferChanged, StopRequested>;

// ---- agent: effects ----

/// Address: the coordinator.
struct ToCoordinator {};
/// Address: an actor of a child.
struct ToChild {
  ProcessKey process;
  schemas::ActorId actor;
};

/// Dial the coordinator, for `wait_ms` at most; answered by CoordinatorUp or CoordinatorLost with
/// the same `join`. An earlier link is over.
struct JoinCoordinator {
  std::uint64_t join = 0;
  std::uint64_t wait_ms = 0;
};
/// Say goodbye to the coordinator; answered by CoordinatorLost when it has been said.
struct LeaveCoordinator {
  std::string text;
};
/// Start a child; answered by ChildStarted or ChildNotStarted.
struct StartChild {
  ProcessKey process;
  std::vector<std::uint32_t> gpus = {};  ///< LaunchProcess::gpus
};
/// Ask a child that has started to end (SIGTERM), or end it (SIGKILL).
struct StopChild {
  ProcessKey process;
  bool kill = false;
};
/// Have files of a checkpoint here, in the background; answered by FilesPlaced. Takes the place of
/// an earlier one of the same job.
struct PlaceFiles {
  schemas::PlaceCheckpoint place;
  std::uint64_t number = 0;  ///< never used twice
};

/// Believe none of these any more, on links of the agent itself, too.
struct UseDenyList {
  std::string pem;
};

/// End: no child is left, or none that can be ended. ok: as a person wished; unavailable: the
/// coordinator is gone.
using AgentEffect =
    std::variant<Send<ToCoordinator>, Send<ToChild>, JoinCoordinator, LeaveCoordinator, StartChild,
                 StopChild, ProbeFolder, ServePiece, PlaceFiles, DropFiles, UseDenyList, Note, End>;

}  // namespace troupe::control
