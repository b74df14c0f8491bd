// SPDX-License-Identifier: Apache-2.0
// ServerObserver: what servers tell about their work while they run, for metrics and tests. Called
// on the server's actor, `computed` on threads of its engine; be quick.
#pragma once

#include <functional>

#include "actors/device_server_state.h"
#include "actors/parameter_server_state.h"
#include "actors/server_compute.h"

namespace troupe::actors {

/// What a server hands to metrics; any function may be empty.
struct ServerObserver {
  std::function<void(const Observe&)> observe;              ///< staleness
  std::function<void(const DeviceServerCounters&)> device;  ///< after each event
  std::function<void(const ParameterServerCounters&)> parameter;
  std::function<void(const ServerHoldings&)> holdings;  ///< after each event
  std::function<void(const Spent&)> spent;
  std::function<void(const Missing&)> missing;  ///< when it has changed
  std::function<void(const Computed&)> computed;
  monitoring::Metrics* metrics = nullptr;  ///< shows the server's engine and memory; null: nobody
};

}  // namespace troupe::actors
