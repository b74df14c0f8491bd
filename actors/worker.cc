// SPDX-License-Identifier: Apache-2.0
// The rank's thread and what the worker's effects do to it.
#include "actors/worker.h"

#include <chrono>

#include "base/awake_wait.h"

namespace troupe::actors {

using schemas::Role;

/// Hands the rank's reports to the actor, which sends them to the coordinator.
class Worker::Observer final : public train::RankObserver {
 public:
  explicit Observer(const Worker& worker) : worker_(worker) {}
  void progress(const schemas::ProgressReport& report) override { worker_.post(Report{report}); }
  void scored(const schemas::EvaluationReport& report) override { worker_.post(Report{report}); }

 private:
  const Worker& worker_;
};

Worker::Worker(const JobParts& parts, const train::RankOptions& options)
    : JobRole(parts, {Role::worker, options.rank}, parts.plan, options.rank), options_(options) {
  begin();
}

Worker::~Worker() {
  stop(base::error(base::Errc::cancelled, "the job's process ends"));
  if (thread_.joinable()) thread_.join();
  // Each of the two may be called by the next until that has ended: operations left in the engine
  // post to the actor, which takes nothing any more, but must still be there.
  end();
  std::unique_ptr<train::RankRunner> runner;
  {
    const base::MutexLock lock(mutex_);
    runner = std::move(runner_);
  }
}

void Worker::start() {
  thread_ = std::thread([this] { main(); });
}

const train::RankFigures* Worker::figures() const {
  const base::MutexLock lock(mutex_);
  return runner_ ? &runner_->figures() : nullptr;
}

data::BatchFigures Worker::data_stats() const {
  const base::MutexLock lock(mutex_);
  return runner_ ? runner_->data_stats() : data::BatchFigures();
}

void Worker::perform(const Fail& fail) {
  stop(fail.status);
}

void Worker::perform(const End& end) {
  stop(base::Status(base::Errc::cancelled, "the job has ended: " + end.status.text()));
}

void Worker::perform(const StartTraining& begin) {
  const base::MutexLock lock(mutex_);
  start_ = begin;
  changed_.notify_all();
}

void Worker::perform(WeightsReady ready) {
  const base::MutexLock lock(mutex_);
  if (store_) store_->ready(std::move(ready));
}

void Worker::perform(const GradientTaken& taken) {
  const base::MutexLock lock(mutex_);
  if (store_) store_->taken(taken);
}

void Worker::stop(const base::Status& status) {
  const base::MutexLock lock(mutex_);
  if (!stopped_.ok()) return;
  stopped_ = status;
  if (store_) store_->fail(status);
  if (runner_) runner_->stop(status.text());
  changed_.notify_all();
}

base::Status Worker::check_data() {
  const auto found = [](const data::Dataset& set) -> base::Result<schemas::FoundFile> {
    TROUPE_TRY_ASSIGN(const data::Fingerprint print, set.fingerprint());
    return schemas::FoundFile{set.path().string(), print.records, print.bytes, print.checksum};
  };
  const train::Job& job = *parts_.job;
  schemas::DatasetReport report;
  report.rank = options_.rank;
  TROUPE_TRY_ASSIGN(report.train, found(*job.train_data));
  if (job.test_data != nullptr) {
    TROUPE_TRY_ASSIGN(report.test, found(*job.test_data));
  }
  post(DatasetChecked{std::move(report)});
  return {};
}

base::Status Worker::wait_for_start(StartTraining& start) {
  const base::MutexLock lock(mutex_);
  const auto limit = std::chrono::milliseconds(parts_.plan.spec.limits.stall_ms);
  base::AwakeWait wait(limit);
  while (!start_ && stopped_.ok() && wait.once(changed_, mutex_)) {
  }
  if (!start_ && stopped_.ok()) {
    return base::error(base::Errc::deadline_exceeded, "the job did not start within {} ms",
                       limit.count());
  }
  TROUPE_TRY(stopped_);
  start = *start_;
  return {};
}

base::Status Worker::work() {
  StartTraining start;
  TROUPE_TRY(check_data());
  TROUPE_TRY(wait_for_start(start));
  options_.start_step = start.step;
  TROUPE_TRY_ASSIGN(auto runner,
                    train::RankRunner::create(parts_.job, parts_.table, parts_.clock, options_));
  auto store = std::make_unique<WorkerStore>(options_.rank, parts_.plan.spec, runner->runtime(),
                                             [this](WorkerEvent event) { post(std::move(event)); });
  train::RankRunner* running = runner.get();
  WorkerStore* rank_store = store.get();
  {
    const base::MutexLock lock(mutex_);
    TROUPE_TRY(stopped_);
    runner_ = std::move(runner);
    store_ = std::move(store);
  }
  Observer observer(*this);
  return running->run(*rank_store, observer);
}

void Worker::main() {
  const base::Status status = work();
  if (status.ok()) return;
  {
    const base::MutexLock lock(mutex_);
    if (!stopped_.ok()) return;  // told by somebody else, who knows why
  }
  post(Report{schemas::ActorFailed{{Role::worker, options_.rank}, status.code(), status.text()}});
}

}  // namespace troupe::actors
