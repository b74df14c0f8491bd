// SPDX-License-Identifier: Apache-2.0
// What a running job tells: progress for people, troupe_job_* for Prometheus, results at the end.
// Calls come one at a time; scrapes from another thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/job_metrics.h"
#include "apps/json_text.h"
#include "apps/progress.h"
#include "base/mutex.h"
#include "monitoring/metrics.h"
#include "train/local_run.h"

namespace troupe::apps {

/// What a job of `troupe run` has come to.
struct RunResult {
  std::string job;
  std::uint64_t steps_total = 0;
  bool trained = false;                      ///< false: its last step was done before
  std::optional<control::EpochScore> score;  ///< of the last epoch, on the test set
  std::string checkpoint;                    ///< newest one; empty: none was written

  /// Lines of data: "test accuracy 0.9161 ..." and "checkpoint PATH", as far as there are any.
  std::string to_string() const;
};

/// The same facts.
Json json_of(const RunResult& result);

/// Shows one job.
class RunDisplay final : public train::JobObserver {
 public:
  RunDisplay(Console& console, const base::Clock& clock);

  /// Call before the run. The job's series are shown while the result lives, which `metrics` and
  /// this object outlive.
  [[nodiscard]] monitoring::Collection start(std::shared_ptr<const train::Job> job,
                                             monitoring::Metrics& metrics);
  void began(const train::RunStart& start) override;
  void trained() override { trained_ = true; }
  void progress(const control::StepProgress& progress) override;
  void scored(const control::EpochScore& score) override;
  void checkpointed(std::uint64_t step, const std::string& path) override;
  /// Leaves the last line standing.
  void end() { display_.end(); }

  /// True once the job's actors work.
  bool has_begun() const { return began_; }
  /// True after a run in which a step was done.
  bool has_trained() const { return trained_; }

  /// After a stop: what the same command does next.
  std::string way_on() const;

  /// What the run has come to; also when the job is gone.
  RunResult result() const;

 private:
  Console& console_;
  const base::Clock& clock_;
  ProgressDisplay display_;
  bool began_ = false, trained_ = false;
  bool diverged_ = false;  // and said so
  std::shared_ptr<const train::Job> job_;
  std::string job_name_;
  std::uint64_t steps_total_ = 0;
  base::Mutex mutex_;
  actors::JobSeries series_ TROUPE_GUARDED_BY(mutex_);

  std::int64_t report_ms_ = 0;      // of the last report
  std::uint64_t samples_done_ = 0;  // as it said
  Progress shown_;
  std::optional<control::EpochScore> score_;
  std::string checkpoint_;
};

}  // namespace troupe::apps
