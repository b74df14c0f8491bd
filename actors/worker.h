// SPDX-License-Identifier: Apache-2.0
// Worker: one virtual rank of a job in this process: the actor around its WorkerState, and the
// thread that runs the rank. Made, started and destroyed by the thread that owns the job's parts.
#pragma once

#include <condition_variable>
#include <memory>
#include <thread>

#include "actors/post_office.h"
#include "actors/stage.h"
#include "actors/worker_state.h"
#include "actors/worker_store.h"
#include "base/mutex.h"
#include "train/rank_runner.h"

namespace troupe::actors {

/// What a job's actors of one process share. All outlive the actors.
struct JobParts {
  Stage& stage;
  PostOffice& post_office;
  const JobPlan& plan;
  std::shared_ptr<const train::Job> job;
  const ops::OpTable& table;
  base::Clock& clock;
};

/// A rank at work.
class Worker {
 public:
  Worker(const JobParts& parts, const train::RankOptions& options);
  /// Stops the rank if it still runs, and waits for it.
  ~Worker();

  /// Checks the data files, waits for the job's start, then trains, on a thread of its own.
  void start();
  /// Figures of the rank; zero until it trains. Any thread.
  const train::RankFigures* figures() const;
  data::BatchStats data_stats() const;

 private:
  class Observer;
  void handle(Event event);
  void run(Effect effect);
  base::Status check_data();
  base::Status wait_for_start(StartTraining& start);
  base::Status work();
  void main();
  void stop(const base::Status& status);

  const JobParts parts_;
  train::RankOptions options_;
  WorkerState state_;  // the actor's alone
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::optional<StartTraining> start_ TROUPE_GUARDED_BY(mutex_);
  base::Status stopped_ TROUPE_GUARDED_BY(mutex_);
  std::unique_ptr<WorkerStore> store_ TROUPE_GUARDED_BY(mutex_);  // outlives the engine of runner_
  std::unique_ptr<train::RankRunner> runner_ TROUPE_GUARDED_BY(mutex_);
  std::unique_ptr<RoleActor> actor_;
  std::thread thread_;
};

}  // namespace troupe::actors
