// SPDX-License-Identifier: Apache-2.0
// Servers' running totals carried over into counters, by difference.
#include "actors/metrics.h"

#include <string_view>

namespace troupe::actors {

using monitoring::family;

/// One server's cells; written by its actor alone.
struct ServerMetrics::Cells {
  Cells(monitoring::Metrics& metrics, std::string_view level)
      : taken(metrics.counter(family("troupe_kv_requests_total"), {level, "push", "taken"})),
        duplicate(
            metrics.counter(family("troupe_kv_requests_total"), {level, "push", "duplicate"})),
        not_ready(
            metrics.counter(family("troupe_kv_requests_total"), {level, "push", "not_ready"})),
        replied(metrics.counter(family("troupe_kv_requests_total"), {level, "pull", "replied"})),
        push_bytes(metrics.counter(family("troupe_kv_bytes_total"), {level, "push"})),
        pull_bytes(metrics.counter(family("troupe_kv_bytes_total"), {level, "pull"})),
        additions(metrics.counter(family("troupe_kv_additions_total"), {level})),
        updates(metrics.counter(family("troupe_kv_updates_total"), {level})) {}

  void take(const DeviceServerCounters& now) {
    grow(taken, now.worker_pushes);
    grow(duplicate, now.worker_duplicates);
    grow(replied, now.worker_replies);
    grow(push_bytes, now.worker_push_bytes);
    grow(pull_bytes, now.worker_reply_bytes);
    grow(additions, now.additions);
  }
  void take(const ParameterServerCounters& now) {
    grow(taken, now.pushes);
    grow(duplicate, now.duplicates);
    grow(not_ready, now.not_ready);
    grow(replied, now.replies);
    grow(push_bytes, now.push_bytes);
    grow(pull_bytes, now.reply_bytes);
    grow(additions, now.additions);
    grow(updates, now.updates);
  }

  /// The cell is this server's alone, so its value is the total last seen.
  static void grow(monitoring::Counter& cell, std::uint64_t total) {
    cell.add(static_cast<double>(total) - cell.value());
  }

  monitoring::Counter& taken;
  monitoring::Counter& duplicate;
  monitoring::Counter& not_ready;
  monitoring::Counter& replied;
  monitoring::Counter& push_bytes;
  monitoring::Counter& pull_bytes;
  monitoring::Counter& additions;
  monitoring::Counter& updates;
};

ServerMetrics::ServerMetrics(monitoring::Metrics& metrics) : metrics_(metrics) {}
ServerMetrics::~ServerMetrics() = default;

ServerObserver ServerMetrics::observer(schemas::ActorId server) {
  const base::MutexLock lock(mutex_);
  const bool level2 = server.role == schemas::Role::parameter_server;
  Cells& cells = cells_.emplace_back(metrics_, level2 ? "2" : "1");
  ServerObserver observer;
  if (level2) {
    observer.parameter = [&cells](const ParameterServerCounters& now) { cells.take(now); };
    return observer;
  }
  observer.device = [&cells](const DeviceServerCounters& now) { cells.take(now); };
  // A device server's reply tells the staleness of both tiers.
  monitoring::Histogram& machine = metrics_.histogram(family("troupe_kv_staleness_steps"), {"1"});
  monitoring::Histogram& cluster = metrics_.histogram(family("troupe_kv_staleness_steps"), {"2"});
  observer.observe = [&machine, &cluster](const Observe& seen) {
    (seen.level == 2 ? cluster : machine).observe(static_cast<double>(seen.staleness_steps));
  };
  return observer;
}

}  // namespace troupe::actors
