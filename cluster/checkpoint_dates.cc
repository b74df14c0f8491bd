// SPDX-License-Identifier: Apache-2.0
// A new map at each look: what is gone is forgotten.
#include "cluster/checkpoint_dates.h"

#include <utility>

namespace troupe::cluster {

void CheckpointDates::look(std::span<const control::ScrapedJob> jobs, std::uint64_t now_ms,
                           double unix_now) {
  std::map<std::string, Date> dates;
  for (const control::ScrapedJob& job : jobs) {
    if (job.checkpointed_ms == 0) continue;
    const auto known = dates_.find(job.info.id);
    if (known != dates_.end() && known->second.ms == job.checkpointed_ms) {
      dates.insert(*known);
      continue;
    }
    const double ago = static_cast<double>(now_ms - job.checkpointed_ms) * 1e-3;
    dates[job.info.id] = {job.checkpointed_ms, unix_now - ago};
  }
  dates_ = std::move(dates);
}

std::optional<double> CheckpointDates::of(const std::string& job) const {
  const auto found = dates_.find(job);
  if (found == dates_.end()) return std::nullopt;
  return found->second.unix_seconds;
}

}  // namespace troupe::cluster
