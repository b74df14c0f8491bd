// SPDX-License-Identifier: Apache-2.0
// Ranks, store, checkpoints and reports of a local run.
#include "train/local_run.h"

#include <fmt/core.h>
#include <algorithm>

#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/awake_wait.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/units.h"
#include "ndarray/prepared_kernels.h"
#include "ops/numerics.h"
#include "schemas/messages.h"
#include "storage/storage.h"
#include "store/checkpoint.h"
#include "store/checkpoint_failures.h"
#include "store/checkpoint_writer.h"
#include "store/local_store.h"
#include "store/metrics.h"
#include "store/schedule.h"
#include "store/slice_compute.h"
#include "store/slice_rules.h"
#include "store/step_judge.h"

namespace troupe::train {
namespace {

// How often a run looks whether it is to stop. LocalRunOptions::stop is a plain flag: whoever sets
// it, from wherever, wakes nobody. A person does not notice 20 ms, and 50 looks a second cost
// nothing beside training.
constexpr std::chrono::milliseconds kStopPoll{20};

// Adds up the ranks' reports and hands the sums on, one at a time.
class SharedObserver final : public RankObserver {
 public:
  SharedObserver(std::uint32_t ranks, JobObserver& observer)
      : progress_(ranks), observer_(observer) {}

  void progress(const schemas::ProgressReport& report) override {
    const base::MutexLock lock(mutex_);
    if (const auto sum = progress_.add(report)) observer_.progress(*sum);
  }
  void scored(const schemas::EvaluationReport& report) override {
    const base::MutexLock lock(mutex_);
    if (const auto score = progress_.add(report)) observer_.scored(*score);
  }
  void began(const RunStart& start) {
    const base::MutexLock lock(mutex_);
    observer_.began(start);
  }
  void trained() {
    const base::MutexLock lock(mutex_);
    observer_.trained();
  }
  void checkpointed(std::uint64_t step, const std::string& path) {
    const base::MutexLock lock(mutex_);
    observer_.checkpointed(step, path);
  }

 private:
  base::Mutex mutex_;
  control::JobProgress progress_ TROUPE_GUARDED_BY(mutex_);
  JobObserver& observer_;
};

class LocalRun {
 public:
  LocalRun(std::shared_ptr<const Job> job, const ops::OpTable& table, base::Clock& clock,
           JobObserver& observer, std::span<const base::Device> devices)
      : job_(std::move(job)),
        table_(table),
        clock_(clock),
        observer_(job_->spec.ranks(), observer),
        numeric_class_(ops::numeric_class(static_cast<int>(job_->spec.workers.threads), devices)),
        storage_({.cache_bytes_max = job_->spec.limits.pool_cache_bytes_max}),
        checkpoint_failures_(job_->spec.limits.checkpoint_failures_max) {}

  base::Status run(const LocalRunOptions& options) {
    if (options.metrics != nullptr) checkpoint_metrics_.emplace(*options.metrics);
    TROUPE_TRY_ASSIGN(start_, find_start(*job_, numeric_class_));
    if (start_.step == job_->steps_end()) {
      observer_.began(start_);
      return {};
    }
    TROUPE_TRY_ASSIGN(training_, training_start(*job_, start_.step));
    TROUPE_TRY(make_store());
    TROUPE_TRY(make_ranks(options));
    observer_.began(start_);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < runners_.size(); ++rank) {
      threads.emplace_back([this, rank] { run_rank(rank); });
    }
    std::thread watch;
    if (options.stop != nullptr) watch = std::thread([&] { watch_stop(*options.stop); });
    for (std::thread& thread : threads) thread.join();
    finish();
    if (watch.joinable()) watch.join();
    const auto has_trained = [](const auto& runner) { return runner->figures().steps.load() > 0; };
    if (std::ranges::any_of(runners_, has_trained)) observer_.trained();
    base::Status status = failure();
    if (status.ok()) status = store_->failure();
    if (status.ok() && options.at_end) options.at_end();
    return status;
  }

 private:
  base::Status make_store();
  base::Status make_ranks(const LocalRunOptions& options);
  base::Result<std::string> write_checkpoint(
      std::uint64_t step, std::vector<std::pair<store::SliceInfo, store::SliceState>> slices);
  base::Status checkpoint(std::uint64_t step,
                          std::vector<std::pair<store::SliceInfo, store::SliceState>> slices);
  void run_rank(std::uint32_t rank);
  void fail(const base::Status& status);
  base::Status failure() {
    const base::MutexLock lock(mutex_);
    return failure_;
  }
  void watch_stop(const std::atomic<bool>& stop);
  bool save_before_stop();
  void finish() {
    const base::MutexLock lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }

  std::shared_ptr<const Job> job_;
  const ops::OpTable& table_;
  base::Clock& clock_;
  SharedObserver observer_;
  const base::NumericClass numeric_class_;
  RunStart start_;
  schemas::TrainingStart training_;
  storage::Storage storage_;
  ndarray::PreparedKernels kernels_;
  std::optional<store::CheckpointWriter> checkpoints_;
  std::unique_ptr<store::LocalStore> store_;
  std::optional<store::CheckpointMetrics> checkpoint_metrics_;
  base::Mutex mutex_;
  base::CondVar changed_;  // finished_, settled_
  bool finished_ TROUPE_GUARDED_BY(mutex_) = false;
  store::CheckpointFailures checkpoint_failures_ TROUPE_GUARDED_BY(mutex_);
  base::Status failure_ TROUPE_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> last_cut_ TROUPE_GUARDED_BY(mutex_);  // with which it is to end
  std::uint64_t settled_ TROUPE_GUARDED_BY(mutex_) = 0;  // step of the last checkpoint, or failure
  // The ranks' engines may still be in checkpoint(): they end before anything above does.
  LocalSums sums_;  // outlives the ranks
  std::vector<std::unique_ptr<RankRunner>> runners_;
};

/// In the local store a push ends with its step's verdict, for which those of all keys are needed.
base::Status check_pending(const Job& job) {
  const std::uint64_t most = job.spec.limits.engine_pending_operations_max;
  const std::uint64_t least = 2 * job.keys.keys.size();
  if (most >= least || !store::judge_rule(job.spec).judges()) return {};
  return base::error(base::Errc::invalid_argument,
                     "limits.engine_pending_operations_max is {}: where steps are judged (f16, "
                     "clip_norm) the local store needs 2 for each of {}, {}",
                     most, base::format_counted(job.keys.keys.size(), "key"), least);
}

base::Status LocalRun::make_store() {
  const schemas::JobSpec& spec = job_->spec;
  TROUPE_TRY(check_pending(*job_));
  store::LocalStoreOptions options{
      .workers = spec.workers,
      .consistency = spec.consistency,
      .batch = spec.data.batch,
      .steps = store::make_step_plan(spec, job_->train_data->records(), start_.step),
      .deadline_ms = spec.limits.stall_ms,
      .stall_ms = spec.limits.stall_ms};
  TROUPE_TRY_ASSIGN(options.first, FirstValues::create(job_, std::move(start_.checkpoint)));
  TROUPE_TRY_ASSIGN(const auto compute,
                    store::SliceCompute::create(table_, job_->keys.keys, job_->rule()));
  if (!spec.checkpoint.dir.empty()) {
    checkpoints_ = make_checkpoint_writer(job_, numeric_class_, start_, compute->slots());
    TROUPE_TRY(check_checkpoint_folder(*job_, *checkpoints_, compute->slots().size()));
    options.cut = [this](std::uint64_t step,
                         std::vector<std::pair<store::SliceInfo, store::SliceState>> slices) {
      return checkpoint(step, std::move(slices));
    };
  }
  const store::LocalStoreParts parts{table_, storage_.pool(base::Device{}), kernels_};
  TROUPE_TRY_ASSIGN(store_, store::LocalStore::create(parts, options));
  return {};
}

base::Status LocalRun::make_ranks(const LocalRunOptions& options) {
  TROUPE_TRY_ASSIGN(sums_, LocalSums::create(job_->spec, table_, clock_, options));
  for (std::uint32_t rank = 0; rank < job_->spec.ranks(); ++rank) {
    RankOptions how = rank_options(options, sums_, rank);
    how.start_step = start_.step;
    TROUPE_TRY_ASSIGN(auto runner, RankRunner::create(job_, table_, clock_, how));
    runners_.push_back(std::move(runner));
  }
  return {};
}

base::Result<std::string> LocalRun::write_checkpoint(
    std::uint64_t step, std::vector<std::pair<store::SliceInfo, store::SliceState>> slices) {
  std::vector<store::SliceRecord> records;
  for (auto& [info, state] : slices) records.push_back({info.id, std::move(state)});
  const auto seconds_since = [this](std::int64_t begin_ns) {
    return static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9;
  };
  const std::int64_t shard_ns = clock_.now_ns();
  auto file = checkpoints_->write_shard(step, 0, 1, records);
  if (checkpoint_metrics_) {
    checkpoint_metrics_->shard(seconds_since(shard_ns), file.status(), file.ok() ? file->bytes : 0);
  }
  TROUPE_TRY(file.status());
  const std::int64_t manifest_ns = clock_.now_ns();
  auto path = checkpoints_->write_manifest(step, training_, {std::move(file).value()});
  if (checkpoint_metrics_) {
    checkpoint_metrics_->manifest(seconds_since(manifest_ns), path.status());
  }
  return path;
}

// A failed checkpoint is a warning, but for the last step; too many in a row end the run.
base::Status LocalRun::checkpoint(
    std::uint64_t step, std::vector<std::pair<store::SliceInfo, store::SliceState>> slices) {
  const auto path = write_checkpoint(step, std::move(slices));
  if (!path.ok()) checkpoints_->remove(step);
  if (path.ok()) {
    observer_.checkpointed(step, *path);
  } else if (step != job_->steps_end()) {
    base::log_warn("the checkpoint of step {} was given up, training goes on: {}", step,
                   path.status().text());
  }
  const base::MutexLock lock(mutex_);
  settled_ = step;
  changed_.notify_all();
  if (step == last_cut_ && step != job_->steps_end()) return {};  // the run ends, and says so
  return checkpoint_failures_.settled(step, job_->steps_end(), path.status());
}

void LocalRun::run_rank(std::uint32_t rank) {
  RankRunner& runner = *runners_[rank];
  const auto rank_store = store_->rank_store(rank, runner.runtime());
  const base::Status status = runner.run(*rank_store, observer_);
  if (!status.ok()) fail(status.with_context(fmt::format("rank {}", rank)));
}

void LocalRun::fail(const base::Status& status) {
  {
    const base::MutexLock lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
  }
  store_->fail(status);
  for (const auto& runner : runners_) runner->stop(status.text());
}

void LocalRun::watch_stop(const std::atomic<bool>& stop) {
  {
    const base::MutexLock lock(mutex_);
    while (!finished_ && !stop.load()) changed_.wait_for(mutex_, kStopPoll);
    if (finished_) return;
  }
  if (save_before_stop()) return;
  fail(base::error(base::Errc::cancelled, "the run was stopped"));
}

/// True when the job is done meanwhile.
bool LocalRun::save_before_stop() {
  const auto step = store_->cut_soon();
  if (!step) return false;
  base::AwakeWait wait{std::chrono::milliseconds(job_->spec.limits.cut_ms)};
  const base::MutexLock lock(mutex_);
  last_cut_ = step;
  while (!finished_ && settled_ < *step && failure_.ok() && wait.once(changed_, mutex_)) {
  }
  if (settled_ < *step && !finished_) {
    base::log_warn("no checkpoint within limits.cut_ms {}: step {} is not written yet",
                   job_->spec.limits.cut_ms, *step);
  }
  return finished_ || *step == job_->steps_end();
}

}  // namespace

base::Result<LocalSums> LocalSums::create(const schemas::JobSpec& job, const ops::OpTable& table,
                                          base::Clock& clock, const LocalRunOptions& options) {
  LocalSums made;
  made.machine_of_rank_ = store::machine_of_rank_by_group(job.workers);
  std::vector<std::vector<SumRank>> machines(job.workers.machines);
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    machines[made.machine_of_rank_[rank]].push_back({rank, options.device_of(rank)});
  }
  for (std::size_t machine = 0; machine < machines.size(); ++machine) {
    DeviceSumsOptions how{.metrics = options.metrics, .name = fmt::format("sums{}", machine)};
    if (!options.sum_streams.empty()) how.streams = options.sum_streams[machine];
    TROUPE_TRY_ASSIGN(made.by_machine_.emplace_back(),
                      DeviceSums::create(job, machines[machine], table, clock, how));
  }
  return made;
}

DeviceSums* LocalSums::of_rank(std::uint32_t rank) const {
  return by_machine_.empty() ? nullptr : by_machine_[machine_of_rank_[rank]].get();
}

RankOptions rank_options(const LocalRunOptions& options, const LocalSums& sums,
                         std::uint32_t rank) {
  RankOptions made;
  made.rank = rank;
  made.device = options.device_of(rank);
  made.sums = sums.of_rank(rank);
  if (!options.streams.empty()) made.streams = options.streams[rank];
  made.run_bytes = options.run_bytes;
  made.metrics = options.metrics;
  made.stop = options.stop;
  if (rank == 0) made.trace_path = options.trace_path;
  return made;
}

base::Status run_local(const std::shared_ptr<const Job>& job, const ops::OpTable& table,
                       base::Clock& clock, JobObserver& observer, const LocalRunOptions& options) {
  return LocalRun(job, table, clock, observer, options.devices).run(options);
}

}  // namespace troupe::train
