// SPDX-License-Identifier: Apache-2.0
// The figures of device servers (level 1) and parameter servers (level 2) as troupe_kv_*. Made by
// the program; outlives the servers that report to it.
#pragma once

#include <deque>

#include "actors/server_observer.h"
#include "base/mutex.h"
#include "monitoring/metrics.h"
#include "schemas/messages.h"

namespace troupe::actors {

/// Makes observers. Any thread.
class ServerMetrics {
 public:
  /// `metrics` outlives it.
  explicit ServerMetrics(monitoring::Metrics& metrics);
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  /// The observer of one server. Its series stand at 0 from now on.
  ServerObserver observer(schemas::ActorId server);

 private:
  struct Cells;
  monitoring::Metrics& metrics_;
  base::Mutex mutex_;
  std::deque<Cells> cells_ GUARDED_BY(mutex_);
};

}  // namespace troupe::actors
