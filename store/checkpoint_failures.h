// SPDX-License-Identifier: Apache-2.0
// CheckpointFailures: which failed checkpoints end a run. One that cannot be written is given up
// and training goes on, because an older one is there to resume from. But the last step's is what
// the run was for, and many failures in a row mean that nothing is saved any more. Pure; one owner,
// one thread at a time.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace troupe::store {

/// Counts failures in a row. The local run and each shard's server have one.
class CheckpointFailures {
 public:
  /// `most`: so many failures in a row end the run (the limit checkpoint_failures_max).
  explicit CheckpointFailures(std::uint64_t most) : most_(most) {}

  /// What became of the checkpoint of `step`; `last_step` is the run's end. An error ends the run:
  /// it has the code of `written`, and says that this was the last step's checkpoint or the
  /// `most`-th failure in a row.
  base::Status settled(std::uint64_t step, std::uint64_t last_step, const base::Status& written);

 private:
  std::uint64_t most_;
  std::uint64_t in_a_row_ = 0;
};

}  // namespace troupe::store
