// SPDX-License-Identifier: Apache-2.0
// The count of failures and the two sentences that end a run.
#include "store/checkpoint_failures.h"

#include <fmt/core.h>

namespace troupe::store {

base::Status CheckpointFailures::settled(std::uint64_t step, std::uint64_t last_step,
                                         const base::Status& written) {
  in_a_row_ = written.ok() ? 0 : in_a_row_ + 1;
  if (written.ok()) return {};
  if (step == last_step) {
    return written.with_context(
        fmt::format("the last checkpoint, of step {}, was not written", step));
  }
  if (in_a_row_ < most_) return {};
  return written.with_context(
      fmt::format("{} checkpoints failed in a row, the last one of step {}", in_a_row_, step));
}

}  // namespace troupe::store
