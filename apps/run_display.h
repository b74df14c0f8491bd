// SPDX-License-Identifier: Apache-2.0
// What a running job tells: progress for people, troupe_job_* for Prometheus, results at the end.
// Calls come one at a time; scrapes from another thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "actors/job_metrics.h"
#include "apps/progress.h"
#include "base/mutex.h"
#include "monitoring/metrics.h"
#include "train/local_run.h"

namespace troupe::apps {

/// Shows one job.
class RunDisplay final : public train::JobObserver {
 public:
  RunDisplay(Console& console, const base::Clock& clock);

  /// Call before the run. The job's series are shown while the result lives, which `metrics` and
  /// this object outlive.
  [[nodiscard]] monitoring::Collection start(std::shared_ptr<const train::Job> job,
                                             monitoring::Metrics& metrics);
  void began(const train::RunStart& start) override;
  void progress(const control::StepProgress& progress) override;
  void scored(const control::EpochScore& score) override;
  void checkpointed(std::uint64_t step, const std::string& path) override;
  /// Leaves the last line standing.
  void end() { display_.end(); }

  /// True once training has begun.
  bool has_begun() const { return began_; }

  /// After a stop: what the same command does next.
  std::string way_on() const;

  /// Lines of data: "test accuracy 0.9161 ..." and "checkpoint PATH", as far as there are any.
  std::string results() const;

 private:
  Console& console_;
  const base::Clock& clock_;
  ProgressDisplay display_;
  bool began_ = false;
  bool diverged_ = false;  // and said so
  std::shared_ptr<const train::Job> job_;
  base::Mutex mutex_;
  actors::JobSeries series_ TROUPE_GUARDED_BY(mutex_);

  std::int64_t report_ms_ = 0;      // of the last report
  std::uint64_t samples_done_ = 0;  // as it said
  Progress shown_;
  std::optional<control::EpochScore> score_;
  std::string checkpoint_;
};

}  // namespace troupe::apps
