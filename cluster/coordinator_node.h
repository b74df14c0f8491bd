// SPDX-License-Identifier: Apache-2.0
// CoordinatorNode: the coordinator as a program: the actor (actors/coordinator.h) with its
// listener, its lock on the folder of state, /sd/targets and metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/address.h"
#include "base/limits.h"
#include "base/status.h"
#include "cluster/checkpoint_files.h"
#include "cluster/identity_file.h"
#include "control/control_events.h"
#include "http/guard.h"
#include "monitoring/metrics.h"

namespace troupe::cluster {

/// What a coordinator is given.
struct CoordinatorNodeOptions {
  std::string listen;        ///< HOST:PORT for agents and people
  base::Address pages;       ///< where /metrics and /sd/targets are
  std::string pages_host;    ///< the same host as Prometheus reaches it
  http::Guard guard;         ///< of the pages
  std::string state_folder;  ///< made if missing; one coordinator at a time
  std::string version;
  base::Limits limits;
  std::shared_ptr<IdentityFile> identity;  ///< of the coordinator; null: no TLS, loopback alone
  std::uint64_t agents = 0;                ///< as control::CoordinatorOptions have it
  std::function<bool()> stop;              ///< asked often; true ends the coordinator
  /// Does FindStart, for several jobs at a time on threads of its own; blocks. It may still run
  /// when the coordinator has ended, and refers to nothing of it.
  std::function<control::StartFound(const control::FindStart&)> find_start;
  CheckpointFiles files;
  /// Called once with both addresses when it listens.
  std::function<void(const std::string& listen, const std::string& http)> ready;
};

/// Serves until `stop`. Errors: an address in use or not loopback; already_exists when another
/// coordinator holds the folder. `metrics` outlives the call.
base::Status run_coordinator(const CoordinatorNodeOptions& options, monitoring::Metrics& metrics);

}  // namespace troupe::cluster
