// SPDX-License-Identifier: Apache-2.0
// What goes into the state machines of the coordinator and of agents (events) and what comes out
// of them (effects). They know no clock, socket or process: their shell runs the effects and tells
// what became of them. Plain values. (effects.h is the same for the roles of a job.)
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "control/role_events.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::control {

/// One end of the coordinator's links, an agent or a person; chosen by the shell, never used twice.
using PeerId = std::uint64_t;

// ---- coordinator: events ----

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
/// Result of FindStart.
struct StartFound {
  std::string job;
  base::Status status;
  std::uint64_t step = 0;
  std::uint64_t generation = 1;
  std::uint64_t steps_total = 0;  ///< the step that the job ends at
  std::string checkpoint;         ///< that it goes on from; empty: from the beginning
};
/// Time passes, on a monotonic clock.
struct TimePassed {
  std::uint64_t now_ms = 0;
};

using CoordinatorEvent = std::variant<PeerSaid, PeerLost, StartFound, TimePassed>;

// ---- coordinator: effects ----

/// Send to a peer.
struct ToPeer {
  PeerId peer = 0;
  schemas::Message message;
};
/// End a peer's link; it is told why.
struct DropPeer {
  PeerId peer = 0;
  base::Status reason;
};
/// Find where the job begins (train/resume.h), in the background; answered by StartFound.
struct FindStart {
  std::string job;
  schemas::JobSpec spec;
};
/// A job has left the queue, for metrics.
struct JobAdmitted {
  std::uint64_t queued_ms = 0;
};
/// A job has ended, for metrics.
struct JobFinished {
  schemas::JobPhase phase = schemas::JobPhase::succeeded;
};

using CoordinatorEffect = std::variant<ToPeer, DropPeer, FindStart, Note, JobAdmitted, JobFinished>;

// ---- agent: events ----

/// Names a process of an agent. Runs of one job differ in their generation.
struct ProcessKey {
  std::string job;
  std::uint64_t generation = 1;
  schemas::ActorId actor;  ///< the machine's device server (host process) or a parameter server
  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

/// A message from the coordinator.
struct CoordinatorSaid {
  schemas::Message message;
};
/// The link to the coordinator is down for good.
struct CoordinatorLost {
  std::string reason;
};
/// A child has sent a message in the name of one of its actors.
struct ChildSaid {
  ProcessKey process;
  schemas::ActorId from;
  schemas::Message message;
};
/// A child has ended, or never began; everything it said has been told before.
struct ChildEnded {
  ProcessKey process;
  std::string how;  ///< "exit 0", "signal 9", "not started: ..."
  bool clean = false;
};
/// Result of ProbeFolder.
struct FolderProbed {
  schemas::FolderProbeResult result;
};
/// A person or the system wants the agent to end.
struct StopRequested {};

using AgentEvent = std::variant<CoordinatorSaid, CoordinatorLost, ChildSaid, ChildEnded,
                                FolderProbed, StopRequested, TimePassed>;

// ---- agent: effects ----

/// Sends to the coordinator.
struct ToCoordinator {
  schemas::Message message;
};
/// Start a child; answered by ChildSaid and ChildEnded.
struct StartChild {
  ProcessKey process;
  schemas::LaunchProcess launch;
};
/// Send to an actor of a child.
struct ToChild {
  ProcessKey process;
  schemas::ActorId to;
  schemas::Message message;
};
/// Ask a child to end (SIGTERM), or end it (SIGKILL).
struct StopChild {
  ProcessKey process;
  bool kill = false;
};
/// Write or read back a nonce, in the background; answered by FolderProbed. An empty nonce to write
/// removes the file.
struct ProbeFolder {
  schemas::FolderProbe probe;
};
/// Dial the coordinator anew, for `wait_ms` at most. Of the earlier link nothing more is told.
struct JoinAgain {
  std::uint64_t wait_ms = 0;
};
/// Say goodbye to the coordinator.
struct LeaveCoordinator {
  std::string text;
};
/// Last effect: no child is left. ok: as a person wished; unavailable: the coordinator is gone.
struct ExitAgent {
  base::Status status;
};

using AgentEffect = std::variant<ToCoordinator, StartChild, ToChild, StopChild, ProbeFolder,
                                 JoinAgain, LeaveCoordinator, ExitAgent, Note>;

}  // namespace troupe::control
