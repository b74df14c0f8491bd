// SPDX-License-Identifier: Apache-2.0
// One process of a job, started by an agent: a host process (a machine's device server and workers)
// or a parameter server. It opens its actors, links to the other tier, and lives until the
// coordinator ends the job. Main thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/listening.h"
#include "base/status.h"
#include "http/guard.h"
#include "monitoring/metrics.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::cluster {

/// What the agent says on the command line; the rest comes over its socket (process.h).
struct JobProcessOptions {
  std::string job;
  std::uint64_t generation = 1;
  schemas::ActorId actor;        ///< a device server (host process) or a parameter server
  std::string machine;           ///< the agent's name
  std::string host;              ///< where its links' port is
  std::string pages_host;        ///< where its pages are
  base::PortRange ports;         ///< of both
  http::GuardFiles guard_files;  ///< of the pages
  schemas::JobRoots roots;       ///< the agent's
  base::Limits agent_limits;     ///< of the link to the agent, which has the same
};

/// Runs to the job's end. ok: the job is done; else why this process could not go on, or the
/// coordinator's reason. After an error the caller should leave at once, without destructors of
/// its own: ranks may be in the middle of a step. `metrics` outlives the call.
base::Status run_job_process(const JobProcessOptions& options, monitoring::Metrics& metrics);

}  // namespace troupe::cluster
