// SPDX-License-Identifier: Apache-2.0
// The series of a job as a whole, troupe_job_*: the one place that names them, for `troupe run` and
// for the coordinator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "monitoring/metrics.h"

namespace troupe::actors {

/// What is known of a job; what is not known yet has no series.
struct JobSeries {
  std::string job;                                ///< id
  std::uint64_t samples = 0;                      ///< by all ranks since this run began
  std::optional<std::uint64_t> step;              ///< that every rank has reported
  std::uint64_t steps_total = 0;                  ///< 0: unknown
  std::optional<double> loss;                     ///< mean training loss of the last report
  std::optional<double> accuracy;                 ///< 0 to 1, on the test set after the last epoch
  std::optional<double> checkpoint_unix_seconds;  ///< when the newest one became durable
  std::vector<std::uint32_t> missing_ranks;       ///< waited for long
  std::optional<double> goodput;                  ///< 0 to 1 (control/goodput.h)
  std::optional<std::uint64_t> resumes;           ///< runs after the first one
  std::optional<bool> failed;                     ///< it has ended so
};

/// Adds the job's series to a scrape. Any thread.
void show_job(const JobSeries& job, monitoring::Scrape& scrape);

}  // namespace troupe::actors
