// SPDX-License-Identifier: Apache-2.0
// What becomes of checkpoints, as metrics.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "monitoring/metrics.h"

namespace troupe::store {

/// Checkpoints as they are written: troupe_checkpoint_*. One file at a time.
class CheckpointMetrics {
 public:
  /// All series stand at 0 from now on. `metrics` outlives it.
  explicit CheckpointMetrics(monitoring::Metrics& metrics);

  /// A shard's file of `bytes` has been written and synced, or not.
  void shard(double seconds, const base::Status& status, std::uint64_t bytes);
  /// The manifest, last.
  void manifest(double seconds, const base::Status& status);

 private:
  monitoring::Histogram& shard_seconds_;
  monitoring::Histogram& manifest_seconds_;
  monitoring::Counter& shard_bytes_;
  monitoring::Counter& shard_failures_;
  monitoring::Counter& manifest_failures_;
};

}  // namespace troupe::store
