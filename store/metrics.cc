// SPDX-License-Identifier: Apache-2.0
// Checkpoints by their families.
#include "store/metrics.h"

namespace troupe::store {

using monitoring::family;

CheckpointMetrics::CheckpointMetrics(monitoring::Metrics& metrics)
    : shard_seconds_(metrics.histogram(family("troupe_checkpoint_seconds"), {"shard"})),
      manifest_seconds_(metrics.histogram(family("troupe_checkpoint_seconds"), {"manifest"})),
      shard_bytes_(metrics.counter(family("troupe_checkpoint_bytes_total"), {"shard"})),
      shard_failures_(metrics.counter(family("troupe_checkpoint_failures_total"), {"shard"})),
      manifest_failures_(
          metrics.counter(family("troupe_checkpoint_failures_total"), {"manifest"})) {}

void CheckpointMetrics::shard(double seconds, const base::Status& status, std::uint64_t bytes) {
  if (!status.ok()) return shard_failures_.add();
  shard_seconds_.observe(seconds);
  shard_bytes_.add(static_cast<double>(bytes));
}

void CheckpointMetrics::manifest(double seconds, const base::Status& status) {
  if (!status.ok()) return manifest_failures_.add();
  manifest_seconds_.observe(seconds);
}

}  // namespace troupe::store
