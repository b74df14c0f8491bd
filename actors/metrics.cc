// SPDX-License-Identifier: Apache-2.0
// Servers' running totals carried over into counters, by difference.
#include "actors/metrics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <set>
#include <string_view>

#include "store/metrics.h"

namespace troupe::actors {

using monitoring::family;

namespace {

constexpr std::array<std::string_view, 2> kLevels = {"1", "2"};

}  // namespace

/// One server's cells; written by its actor alone, those of computing by its engine.
struct ServerMetrics::Cells {
  Cells(monitoring::Metrics& metrics, std::size_t which, std::string_view level)
      : tier(which),
        taken(metrics.counter(family("troupe_kv_requests_total"), {level, "push", "taken"})),
        duplicate(
            metrics.counter(family("troupe_kv_requests_total"), {level, "push", "duplicate"})),
        not_ready(
            metrics.counter(family("troupe_kv_requests_total"), {level, "push", "not_ready"})),
        replied(metrics.counter(family("troupe_kv_requests_total"), {level, "pull", "replied"})),
        push_bytes(metrics.counter(family("troupe_kv_bytes_total"), {level, "push"})),
        pull_bytes(metrics.counter(family("troupe_kv_bytes_total"), {level, "pull"})),
        additions(metrics.counter(family("troupe_kv_additions_total"), {level})),
        updates(metrics.counter(family("troupe_kv_updates_total"), {level})),
        push_seconds(metrics.histogram(family("troupe_kv_request_seconds"), {level, "push"})),
        pull_seconds(metrics.histogram(family("troupe_kv_request_seconds"), {level, "pull"})),
        round_seconds(metrics.histogram(family("troupe_kv_round_seconds"), {level})),
        aggregate_seconds(metrics.histogram(family("troupe_kv_aggregate_seconds"), {level})) {}

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

  void take(const ServerHoldings& now) {
    pending_pushes.store(now.pending_pushes, std::memory_order_relaxed);
    keys.store(now.keys, std::memory_order_relaxed);
    store_bytes.store(now.store_bytes, std::memory_order_relaxed);
    version.store(now.version, std::memory_order_relaxed);
  }
  void take(const Spent& spent) {
    const double seconds = static_cast<double>(spent.ns) * 1e-9;
    if (spent.what == Spent::What::push) push_seconds.observe(seconds);
    if (spent.what == Spent::What::pull) pull_seconds.observe(seconds);
    if (spent.what == Spent::What::round) round_seconds.observe(seconds);
  }

  /// The cell is this server's alone, so its value is the total last seen.
  static void grow(monitoring::Counter& cell, std::uint64_t total) {
    cell.add(static_cast<double>(total) - cell.value());
  }

  const std::size_t tier;  // 0: device servers
  monitoring::Counter& taken;
  monitoring::Counter& duplicate;
  monitoring::Counter& not_ready;
  monitoring::Counter& replied;
  monitoring::Counter& push_bytes;
  monitoring::Counter& pull_bytes;
  monitoring::Counter& additions;
  monitoring::Counter& updates;
  monitoring::Histogram& push_seconds;
  monitoring::Histogram& pull_seconds;
  monitoring::Histogram& round_seconds;
  monitoring::Histogram& aggregate_seconds;
  std::atomic<std::uint64_t> pending_pushes{0};
  std::atomic<std::uint64_t> keys{0};
  std::atomic<std::uint64_t> store_bytes{0};
  std::atomic<std::uint64_t> version{0};
  std::vector<std::uint32_t> missing;  // guarded by ServerMetrics::mutex_
};

ServerMetrics::ServerMetrics(monitoring::Metrics& metrics, std::string train_job)
    : metrics_(metrics),
      train_job_(std::move(train_job)),
      shown_(metrics.on_scrape([this](monitoring::Scrape& values) { scrape(values); })) {}
ServerMetrics::~ServerMetrics() = default;

ServerObserver ServerMetrics::observer(schemas::ActorId server) {
  const bool level2 = server.role == schemas::Role::parameter_server;
  // A scrape holds the lock of Metrics when it asks for this one's.
  auto made = std::make_unique<Cells>(metrics_, level2 ? 1 : 0, kLevels[level2 ? 1 : 0]);
  Cells& cells = *made;
  {
    const base::MutexLock lock(mutex_);
    cells_.push_back(std::move(made));
  }
  ServerObserver observer;
  observer.metrics = &metrics_;
  observer.counters = [&cells](const ServerCounters& now) {
    std::visit([&cells](const auto& totals) { cells.take(totals); }, now);
  };
  observer.holdings = [&cells](const ServerHoldings& now) { cells.take(now); };
  observer.figures.spent = [&cells](const Spent& spent) { cells.take(spent); };
  if (level2) {
    watch_parameter_server(cells, observer);
  } else {
    watch_device_server(cells, observer);
  }
  return observer;
}

void ServerMetrics::watch_parameter_server(Cells& cells, ServerObserver& observer) {
  observer.missing = [this, &cells](const Missing& missing) {
    const base::MutexLock lock(mutex_);
    cells.missing = missing.ranks;
  };
  // Made with the first verdict that has them: other jobs show none.
  observer.judged =
      [this, dropped = static_cast<monitoring::Counter*>(nullptr)](const Judged& judged) mutable {
        if (judged.loss_scale) {
          metrics_.gauge(family("troupe_kv_loss_scale"), {}).set(*judged.loss_scale);
          if (dropped == nullptr) {
            dropped = &metrics_.counter(family("troupe_kv_dropped_steps_total"), {});
          }
          if (judged.dropped) dropped->add(1.0);
        }
        if (!judged.dropped) metrics_.gauge(family("troupe_kv_gradient_norm"), {}).set(judged.norm);
      };
  monitoring::Histogram& updates = metrics_.histogram(family("troupe_kv_update_seconds"), {"2"});
  const auto files = std::make_shared<store::CheckpointMetrics>(metrics_);
  observer.computed = [&cells, &updates, files](const Computed& computed) {
    using Kind = Computed::Kind;
    const double seconds = computed.seconds;
    if (computed.kind == Kind::add) cells.aggregate_seconds.observe(seconds);
    if (computed.kind == Kind::update) updates.observe(seconds);
    if (computed.kind == Kind::shard) files->shard(seconds, computed.status, computed.bytes);
    if (computed.kind == Kind::manifest) files->manifest(seconds, computed.status);
  };
}

void ServerMetrics::watch_device_server(Cells& cells, ServerObserver& observer) {
  observer.computed = [&cells](const Computed& computed) {
    if (computed.kind != Computed::Kind::add) return;
    cells.aggregate_seconds.observe(computed.seconds);
  };
  // A device server's reply tells the staleness of both tiers.
  monitoring::Histogram& machine = metrics_.histogram(family("troupe_kv_staleness_steps"), {"1"});
  monitoring::Histogram& cluster = metrics_.histogram(family("troupe_kv_staleness_steps"), {"2"});
  observer.figures.staleness = [&machine, &cluster](const Staleness& seen) {
    (seen.level == 2 ? cluster : machine).observe(static_cast<double>(seen.steps));
  };
}

void ServerMetrics::show_bounds(const schemas::ConsistencySpec& consistency) {
  const auto show = [this](std::string_view level, const schemas::TierSpec& tier) {
    if (!tier.max_staleness) return;
    metrics_.gauge(family("troupe_kv_staleness_limit_steps"), {level}).set(*tier.max_staleness);
  };
  show(kLevels[0], consistency.device);
  show(kLevels[1], consistency.cluster);
}

void ServerMetrics::scrape(monitoring::Scrape& scrape) const {
  const base::MutexLock lock(mutex_);
  std::array<std::uint64_t, kLevels.size()> servers{};
  std::array<std::uint64_t, kLevels.size()> versions;
  versions.fill(std::numeric_limits<std::uint64_t>::max());
  std::set<std::uint32_t> missing;
  for (const auto& cells : cells_) {
    const std::string_view level = kLevels.at(cells->tier);
    const auto add = [&](const monitoring::Family& row, const std::atomic<std::uint64_t>& held) {
      scrape.value(row, {level}, static_cast<double>(held.load(std::memory_order_relaxed)));
    };
    add(family("troupe_kv_pending_pushes"), cells->pending_pushes);
    add(family("troupe_kv_keys"), cells->keys);
    add(family("troupe_kv_store_bytes"), cells->store_bytes);
    ++servers.at(cells->tier);
    std::uint64_t& lowest = versions.at(cells->tier);
    lowest = std::min(lowest, cells->version.load(std::memory_order_relaxed));
    missing.insert(cells->missing.begin(), cells->missing.end());
  }
  for (std::size_t tier = 0; tier < kLevels.size(); ++tier) {
    if (servers.at(tier) == 0) continue;
    scrape.value(family("troupe_kv_version"), {kLevels.at(tier)},
                 static_cast<double>(versions.at(tier)));
  }
  for (const std::uint32_t rank : missing) {
    scrape.value(family("troupe_job_missing_ranks"), {train_job_, std::to_string(rank)}, 1.0);
  }
}

}  // namespace troupe::actors
