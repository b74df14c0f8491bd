// SPDX-License-Identifier: Apache-2.0
// ServerObserver: what servers tell about their work while they run, for metrics and tests. Called
// on the server's actor; be quick.
#pragma once

#include <functional>

#include "actors/device_server_state.h"
#include "actors/parameter_server_state.h"

namespace troupe::actors {

/// What a server hands to metrics.
struct ServerObserver {
  std::function<void(const Observe&)> observe;              ///< staleness; may be empty
  std::function<void(const DeviceServerCounters&)> device;  ///< after each event; may be empty
  std::function<void(const ParameterServerCounters&)> parameter;
};

}  // namespace troupe::actors
