// SPDX-License-Identifier: Apache-2.0
// The messages of a cut out of turn: a checkpoint at a step where the job's plan has none, because
// a person wants it, a job is to be stopped or a machine leaves. Who says what when:
// control/extra_cut.h. Plain values; part of messages.h.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace troupe::schemas {

/// The coordinator to a device server: a cut out of turn is wanted. Let no rank begin a step that
/// none of yours has begun, until ExtraCut of this number comes. Answered by CutReady.
struct CutQuery {
  std::uint64_t number = 0;  ///< counts the cuts out of turn of a run
};

/// A device server to the coordinator: no rank of this machine has begun step `next` or a later
/// one, nor will before ExtraCut comes.
struct CutReady {
  std::uint64_t number = 0;
  std::uint32_t machine = 0;
  std::uint64_t next = 0;
};

/// The coordinator: `step` is a barrier and a checkpoint. To all parameter servers first, which
/// answer with ExtraCutTaken; then to all device servers.
struct ExtraCut {
  std::uint64_t number = 0;
  std::uint64_t step = 0;
  bool last = false;  ///< the run ends with it: no rank begins this step or a later one
};

/// A parameter server to the coordinator: its slices will be cut at the step of that ExtraCut.
struct ExtraCutTaken {
  std::uint64_t number = 0;
  std::uint32_t shard = 0;
};

/// An agent to the coordinator: it was asked to end, and waits for its jobs to be taken off this
/// machine.
struct AgentLeaving {
  std::string text;  ///< why
};

/// A person to the coordinator: ends a job; answered once it has ended.
struct JobStop {
  std::string id;
  bool checkpoint = false;  ///< with a cut out of turn before
};

/// A person to the coordinator: make a checkpoint of this job now. Answered when there is one, or
/// when it is known that there will be none.
struct JobCheckpoint {
  std::string id;
};

/// The answer to JobCheckpoint. `code` other than ok: there is no such job. An empty `path`: the
/// checkpoint was not written, and `text` says why.
struct JobCheckpointAnswer {
  base::Errc code = base::Errc::ok;
  std::string text;
  std::uint64_t step = 0;
  std::string path;
};

}  // namespace troupe::schemas
