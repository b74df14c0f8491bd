// SPDX-License-Identifier: Apache-2.0
// Worker: one virtual rank of a job in this process: the actor around its WorkerState, and the
// thread that runs the rank. Made, started and destroyed by the thread that owns the job's parts.
#pragma once

#include <condition_variable>
#include <memory>
#include <optional>
#include <thread>

#include "actors/job_parts.h"
#include "actors/worker_state.h"
#include "actors/worker_store.h"
#include "base/mutex.h"
#include "train/rank_runner.h"

namespace troupe::actors {

/// A rank at work.
class Worker final : public JobRole<Worker, WorkerState> {
 public:
  Worker(const JobParts& parts, const train::RankOptions& options);
  /// Stops the rank if it still runs, and waits for it.
  ~Worker();

  /// Checks the data files, waits for the job's start, then trains, on a thread of its own.
  void start();
  /// Figures of the rank; zero until it trains. Any thread.
  const train::RankFigures* figures() const;
  data::BatchFigures data_stats() const;

 private:
  class Observer;
  friend class RoleShell<Worker, WorkerState>;
  using JobRole::perform;
  void perform(const Fail& fail);
  void perform(const End& end);
  void perform(const StartTraining& begin);
  void perform(WeightsReady ready);
  void perform(const GradientTaken& taken);
  base::Status check_data();
  base::Status wait_for_start(StartTraining& start);
  base::Status work();
  void main();
  void stop(const base::Status& status);

  train::RankOptions options_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::optional<StartTraining> start_ TROUPE_GUARDED_BY(mutex_);
  base::Status stopped_ TROUPE_GUARDED_BY(mutex_);
  std::unique_ptr<WorkerStore> store_ TROUPE_GUARDED_BY(mutex_);  // outlives the engine of runner_
  std::unique_ptr<train::RankRunner> runner_ TROUPE_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace troupe::actors
