// SPDX-License-Identifier: Apache-2.0
// AgentNode: an agent as a program: the actor (actors/agent.h) with its link to the coordinator and
// its child processes, which are this program started again (job_process.h). Runs on the program's
// main thread, the only one that forks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/listening.h"
#include "base/numeric_class.h"
#include "base/status.h"
#include "cluster/checkpoint_files.h"
#include "cluster/identity_file.h"
#include "gpu/device_sampler.h"
#include "http/guard.h"
#include "monitoring/metrics.h"
#include "schemas/messages.h"

namespace troupe::cluster {

/// What an agent is given.
struct AgentOptions {
  std::string coordinator;               ///< HOST:PORT
  std::string name;                      ///< of the machine
  std::uint32_t slots = 1;               ///< for one worker each
  std::vector<gpu::WatchedDevice> gpus;  ///< that it offers, and watches
  std::string version;
  std::string http_address;  ///< of its own /metrics; may be empty
  base::NumericClass numeric_class;
  base::Limits limits;
  std::vector<std::string> command;  ///< starts a job process; its options are added
  CheckpointFiles files;
  std::function<bool()> stop;              ///< asked often; true ends the agent; may be empty
  std::string host = "127.0.0.1";          ///< name or number; where its processes' ports are
  base::PortRange ports;                   ///< of its processes
  std::string pages_host = "127.0.0.1";    ///< where its processes' pages are
  http::GuardFiles guard_files;            ///< of those pages
  std::shared_ptr<IdentityFile> identity;  ///< of the agent; null: no TLS, loopback alone
  std::string token;                       ///< shown where there is no TLS; may be empty
};

/// Joins the coordinator and serves until asked to end (ok), or until the coordinator is gone and
/// no child is left (unavailable); errors also when it was refused. `metrics` show its GPUs. Main
/// thread.
base::Status run_agent(const AgentOptions& options, monitoring::Metrics& metrics);

}  // namespace troupe::cluster
