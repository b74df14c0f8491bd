// SPDX-License-Identifier: Apache-2.0
// The figures of device servers (level 1) and parameter servers (level 2) as troupe_kv_*. Made by
// the program; outlives the servers that report to it.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "actors/server_observer.h"
#include "base/mutex.h"
#include "monitoring/metrics.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::actors {

/// Makes observers. Any thread.
class ServerMetrics {
 public:
  /// Of the servers of `train_job`. `metrics` outlives it.
  ServerMetrics(monitoring::Metrics& metrics, std::string train_job);
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  /// The observer of one server. Its series stand at 0 from now on.
  ServerObserver observer(schemas::ActorId server);
  /// Shows the bounds of eventual tiers, where a process has device servers.
  void show_bounds(const schemas::ConsistencySpec& consistency);

 private:
  struct Cells;
  void watch_parameter_server(Cells& cells, ServerObserver& observer);
  void watch_device_server(Cells& cells, ServerObserver& observer);
  void scrape(monitoring::Scrape& scrape) const;

  monitoring::Metrics& metrics_;
  const std::string train_job_;
  mutable base::Mutex mutex_;
  std::deque<std::unique_ptr<Cells>> cells_ TROUPE_GUARDED_BY(mutex_);
  monitoring::Collection shown_;  // of what the servers hold
};

}  // namespace troupe::actors
