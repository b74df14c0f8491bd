// SPDX-License-Identifier: Apache-2.0
// Families and units of a job's series.
#include "actors/job_metrics.h"

namespace troupe::actors {

void show_job(const JobSeries& job, monitoring::Scrape& scrape) {
  const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
  for (const std::uint32_t rank : job.missing_ranks) {
    scrape.value(monitoring::family("troupe_job_missing_ranks"), {job.job, std::to_string(rank)},
                 1.0);
  }
  if (job.checkpoint_unix_seconds) {
    scrape.value(monitoring::family("troupe_job_last_checkpoint_timestamp_seconds"), {job.job},
                 *job.checkpoint_unix_seconds);
  }
  if (job.goodput) {
    scrape.value(monitoring::family("troupe_job_goodput_ratio"), {job.job}, *job.goodput);
  }
  if (job.resumes) {
    scrape.value(monitoring::family("troupe_job_resumes_total"), {job.job}, number(*job.resumes));
  }
  if (job.failed) {
    scrape.value(monitoring::family("troupe_job_failed"), {job.job}, *job.failed ? 1.0 : 0.0);
  }
  scrape.value(monitoring::family("troupe_job_samples_total"), {job.job}, number(job.samples));
  if (job.step) {
    scrape.value(monitoring::family("troupe_job_step"), {job.job}, number(*job.step));
  }
  if (job.step && job.steps_total > 0) {
    scrape.value(monitoring::family("troupe_job_progress_ratio"), {job.job},
                 number(*job.step) / number(job.steps_total));
  }
  if (job.loss) {
    scrape.value(monitoring::family("troupe_job_loss"), {job.job, "train"}, *job.loss);
  }
  if (job.accuracy) {
    scrape.value(monitoring::family("troupe_job_accuracy_ratio"), {job.job, "test"}, *job.accuracy);
  }
}

}  // namespace troupe::actors
