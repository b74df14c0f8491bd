// SPDX-License-Identifier: Apache-2.0
// ServerObserver: what servers tell about their work while they run, for metrics and tests. Called
// on the server's actor, `computed` on threads of its engine; be quick.
#pragma once

#include <functional>
#include <variant>

#include "actors/server_compute.h"
#include "actors/server_figures.h"

namespace troupe::actors {

/// The totals of either server.
using ServerCounters = std::variant<DeviceServerCounters, ParameterServerCounters>;

/// What a server hands to metrics; any function may be empty.
struct ServerObserver {
  FigureSinks figures;
  std::function<void(const ServerCounters&)> counters;  ///< after each event
  std::function<void(const ServerHoldings&)> holdings;  ///< after each event
  std::function<void(const Missing&)> missing;          ///< when it has changed
  std::function<void(const Judged&)> judged;            ///< on the server that judges steps
  std::function<void(const Computed&)> computed;
  monitoring::Metrics* metrics = nullptr;  ///< shows the server's engine and memory; null: nobody
};

}  // namespace troupe::actors
