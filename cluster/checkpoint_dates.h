// SPDX-License-Identifier: Apache-2.0
// CheckpointDates: when the newest checkpoint of each job came, in Unix time. The coordinator's
// state counts milliseconds that stand still while the machine pauses, so a date is reckoned once,
// when the checkpoint is seen first, and kept. No clock of its own; one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "control/coordinator_state.h"

namespace troupe::cluster {

/// See the top of the file.
class CheckpointDates {
 public:
  /// Jobs as they are at `now_ms` of the state's clock, which is `unix_now` in seconds. Jobs that
  /// are not among them are forgotten.
  void look(std::span<const control::ScrapedJob> jobs, std::uint64_t now_ms, double unix_now);
  /// Of the newest checkpoint of a job, Unix seconds; none: it has none.
  std::optional<double> of(const std::string& job) const;

 private:
  struct Date {
    std::uint64_t ms = 0;  // by the state's clock
    double unix_seconds = 0.0;
  };
  std::map<std::string, Date> dates_;  // by job
};

}  // namespace troupe::cluster
