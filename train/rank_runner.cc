// SPDX-License-Identifier: Apache-2.0
// A rank's engine, memory, data and module, and what it tells from fit's callbacks.
#include "train/rank_runner.h"

#include <algorithm>
#include <ctime>
#include <limits>

#include "data/metrics.h"
#include "gpu/stream.h"
#include "store/schedule.h"
#include "train/metrics.h"

namespace troupe::train {

namespace {

symbol::Recompute recompute_of(const schemas::MemorySpec& memory, base::Device device) {
  if (memory.budget != 0) return symbol::Recompute::budget;
  switch (memory.recompute) {
    case schemas::Recompute::none:
      return symbol::Recompute::none;
    case schemas::Recompute::cheap:
      return symbol::Recompute::cheap;
    case schemas::Recompute::sqrt:
      return symbol::Recompute::sqrt;
    case schemas::Recompute::automatic:
      return symbol::recompute_by_default(device);
  }
  return symbol::Recompute::none;
}

using Streams = std::vector<std::unique_ptr<base::Stream>>;

/// What a rank on a GPU computes on and copies by: kernels, gradients to the host, and, ahead of
/// both, batches and weights to the device. None where the caller has given streams or for a CPU.
base::Result<Streams> own_streams(const RankOptions& options) {
  Streams made;
  if (options.device.kind != base::DeviceKind::cuda || !options.streams.empty()) return made;
  for (const auto priority :
       {gpu::StreamPriority::normal, gpu::StreamPriority::normal, gpu::StreamPriority::high}) {
    TROUPE_TRY_ASSIGN(made.emplace_back(), gpu::make_stream(options.device, priority));
  }
  return made;
}

}  // namespace

struct RankRunner::Parts {
  Parts(std::shared_ptr<const Job> the_job, const ops::OpTable& table, base::Clock& the_clock,
        const RankOptions& the_options, Streams the_streams)
      : job(std::move(the_job)),
        clock(the_clock),
        options(the_options),
        streams(std::move(the_streams)),
        plan(store::make_step_plan(job->spec, job->train_data->records(), options.start_step)),
        storage({.cache_bytes_max = job->spec.limits.pool_cache_bytes_max},
                storage::gpu_pool_options(job->spec.memory.device_limit)),
        kernels(job->spec.limits.prepared_kernels_max),
        engine(engine::make_threaded_engine(engine_options(), clock)),
        runtime{*engine, storage, table, kernels, clock},
        phases(clock) {
    figures.global_step.store(options.start_step, std::memory_order_relaxed);
    if (options.metrics == nullptr) return;
    const std::string rank = std::to_string(options.rank);
    step_seconds =
        &options.metrics->histogram(monitoring::family("troupe_worker_step_seconds"), {rank});
  }

  engine::EngineOptions engine_options() const {
    engine::EngineOptions made;
    made.threads = static_cast<int>(job->spec.workers.threads);
    made.engine_pending_operations_max = job->spec.limits.engine_pending_operations_max;
    made.engine_pending_bytes_max = job->spec.limits.engine_pending_bytes_max;
    made.thread_name = "rank" + std::to_string(options.rank);
    made.trace_path = options.trace_path;
    made.graphs = job->spec.workers.gpu_graphs;
    made.streams = options.streams;
    for (const auto& stream : streams) made.streams.push_back(stream.get());
    return made;
  }

  base::Status open_data();
  monitoring::Histogram* batch_seconds(std::string_view source) const {
    return options.metrics == nullptr ? nullptr : &data::batch_seconds(*options.metrics, source);
  }
  void committed(std::uint64_t steps);
  FitOptions fit_options(RankObserver& observer);
  base::Status step_ended(const BatchEnd& end, RankObserver& observer);
  base::Status check_running() const;
  base::Status report(std::uint64_t number, RankObserver& observer);
  void scored(const EpochEnd& end, RankObserver& observer) const;

  std::shared_ptr<const Job> job;
  base::Clock& clock;
  RankOptions options;
  const Streams streams;  // of its own; they outlive the engine
  const store::StepPlan plan;
  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  std::unique_ptr<engine::Engine> engine;
  ndarray::Runtime runtime;
  std::unique_ptr<Module> module;
  std::unique_ptr<data::BatchIterator> train_batches;
  std::unique_ptr<data::BatchIterator> test_batches;
  std::atomic<bool> stopped{false};
  RankFigures figures;
  RankPhases phases;
  monitoring::Histogram* step_seconds = nullptr;
  monitoring::Collection shown;  // of all above
};

RankRunner::RankRunner(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
RankRunner::~RankRunner() = default;
ndarray::Runtime& RankRunner::runtime() {
  return parts_->runtime;
}
Module& RankRunner::module() {
  return *parts_->module;
}
const RankFigures& RankRunner::figures() const {
  return parts_->figures;
}
data::BatchFigures RankRunner::data_stats() const {
  return parts_->train_batches->stats();
}
std::optional<data::BatchFigures> RankRunner::score_data_stats() const {
  if (!parts_->test_batches) return std::nullopt;
  return parts_->test_batches->stats();
}
const RankPhases& RankRunner::phases() const {
  return parts_->phases;
}

base::Result<std::unique_ptr<RankRunner>> RankRunner::create(std::shared_ptr<const Job> job,
                                                             const ops::OpTable& table,
                                                             base::Clock& clock,
                                                             const RankOptions& options) {
  const schemas::JobSpec& spec = job->spec;
  TROUPE_TRY_ASSIGN(Streams streams, own_streams(options));
  auto parts = std::make_unique<Parts>(job, table, clock, options, std::move(streams));
  ModuleOptions how;
  how.inputs = job->keys.inputs;
  how.keys = spec.train.keys;
  how.gradient_wire = spec.numerics.gradient_wire;
  how.weight_wire = spec.numerics.weight_wire;
  how.device = options.device;
  how.layouts = spec.numerics.layout == schemas::LayoutChoice::dense ? base::LayoutPolicy::dense
                                                                     : base::LayoutPolicy::chosen;
  how.reference_only = spec.numerics.reference_only;
  how.winograd = spec.numerics.winograd;
  how.tf32 = spec.numerics.tf32;
  if (base::is_16_bit(spec.numerics.dtype)) how.products = spec.numerics.dtype;
  how.loss_scale = job->loss_scale();
  how.kernels = job->kernels;
  how.recompute = recompute_of(spec.memory, options.device);
  how.budget = spec.memory.budget;
  constexpr std::uint64_t kAnyBatch = std::numeric_limits<std::int32_t>::max();
  how.sub_batch = static_cast<std::int64_t>(std::min(spec.memory.sub_batch, kAnyBatch));
  how.check_gradients = spec.train.non_finite == schemas::NonFinite::fail;
  how.seed = spec.seed;
  how.rank = options.rank;
  how.executors_max = spec.limits.executors_max;
  how.run_bytes = options.run_bytes;
  how.sums = options.sums;
  TROUPE_TRY_ASSIGN(parts->module, Module::create(parts->runtime, job->network, how));
  TROUPE_TRY(parts->open_data());
  std::unique_ptr<RankRunner> runner(new RankRunner(std::move(parts)));
  if (options.metrics != nullptr) {
    runner->parts_->shown = show_rank(*options.metrics, *runner, options.rank, options.device);
  }
  return runner;
}

base::Status RankRunner::Parts::open_data() {
  const schemas::DataSpec& spec = job->spec.data;
  base::BufferPool& pool = host_pool(runtime.storage, options.device);
  const data::PrefetchOptions prefetch{spec.prefetch_threads, spec.prefetch_batches};
  const data::BatchSources train_sources{
      job->train_data, data::make_training_plan(job->orders, options.rank, job->steps_end()), &pool,
      &clock, batch_seconds("train")};
  TROUPE_TRY_ASSIGN(train_batches,
                    data::BatchIterator::create(train_sources, job->training_samples(), prefetch,
                                                options.start_step));
  if (job->test_data == nullptr) return {};
  const data::DealSpec deal{job->test_data->records(), job->spec.ranks(),
                            spec.test_batch == 0 ? spec.batch : spec.test_batch, job->spec.seed};
  const data::BatchSources test_sources{job->test_data,
                                        data::make_evaluation_plan(deal, options.rank), &pool,
                                        &clock, batch_seconds("test")};
  TROUPE_TRY_ASSIGN(test_batches, data::BatchIterator::create(test_sources, job->samples, {1, 2}));
  return {};
}

base::Status RankRunner::run(store::KVStore& store, RankObserver& observer) {
  Parts& parts = *parts_;
  TROUPE_TRY(parts.check_running());
  TROUPE_TRY(parts.module->fit(*parts.train_batches, store, parts.fit_options(observer)));
  parts.committed(parts.plan.total);
  return {};
}

void RankRunner::stop(std::string_view reason) {
  parts_->stopped.store(true);
  parts_->engine->cancel(reason);
}

FitOptions RankRunner::Parts::fit_options(RankObserver& observer) {
  FitOptions fit;
  fit.rule = job->rule();
  fit.steps = plan;
  fit.publish = false;
  fit.stop = options.stop;
  fit.phases = &phases;
  fit.deadline = std::chrono::milliseconds(job->spec.limits.stall_ms);
  if (job->spec.train.score_every.count != 0) {
    fit.evaluation = test_batches.get();
    fit.evaluation_epochs = job->spec.train.score_every.count;
  }
  fit.batch_end = [this, &observer](const BatchEnd& end) { return step_ended(end, observer); };
  fit.epoch_end = [this, &observer](const EpochEnd& end) {
    committed(end.steps);
    if (end.evaluation) scored(end, observer);
    return base::Status();
  };
  return fit;
}

/// The weights behind the job's first `steps` steps are there.
void RankRunner::Parts::committed(std::uint64_t steps) {
  const std::uint64_t before = figures.global_step.exchange(steps, std::memory_order_relaxed);
  figures.steps.store(steps - plan.start, std::memory_order_relaxed);
  if (steps == before) return;
  figures.last_step_seconds.store(std::time(nullptr), std::memory_order_relaxed);
}

base::Status RankRunner::Parts::check_running() const {
  if (!stopped.load()) return {};
  return base::error(base::Errc::cancelled, "rank {} was stopped", options.rank);
}

base::Status RankRunner::Parts::step_ended(const BatchEnd& end, RankObserver& observer) {
  TROUPE_TRY(check_running());
  committed(end.step);
  if (step_seconds != nullptr) step_seconds->observe(end.seconds);
  figures.samples.fetch_add(static_cast<std::uint64_t>(end.samples), std::memory_order_relaxed);
  figures.epoch.store(end.step / plan.epoch_steps, std::memory_order_relaxed);
  const std::uint64_t log_steps = store::period_steps(job->spec.train.log_every, plan.epoch_steps);
  const std::uint64_t done = end.step + 1;
  const bool due = log_steps != 0 && done % log_steps == 0;
  if (!due && done % plan.epoch_steps != 0 && done != plan.total) return {};
  return report(end.step, observer);
}

base::Status RankRunner::Parts::report(std::uint64_t number, RankObserver& observer) {
  {
    const InPhase waiting(phases, RankPhase::compute);
    TROUPE_TRY(module->wait_gradients());
  }
  {
    const InPhase waiting(phases, RankPhase::pull);  // of others' gradients, where they are added
    TROUPE_TRY(module->wait_pushed());               // a step that failed is not reported
  }
  TROUPE_TRY_ASSIGN(const BatchMetrics metrics, module->training_metrics());
  TROUPE_TRY_ASSIGN(const auto values, metrics.read());
  schemas::ProgressReport progress;
  progress.rank = options.rank;
  progress.step = number + 1;
  progress.samples = figures.samples.load(std::memory_order_relaxed);
  for (const auto& [name, pair] : values) progress.metrics[name] = {pair.sum, pair.weight};
  const auto loss = values.find("cross_entropy");
  if (loss != values.end()) figures.loss.store(loss->second.mean(), std::memory_order_relaxed);
  const store::UpdateRule rule = job->rule();
  figures.learning_rate.store(
      store::learning_rate(rule.schedule, rule.optimizer.lr, rule.span, number),
      std::memory_order_relaxed);
  observer.progress(progress);
  return {};
}

void RankRunner::Parts::scored(const EpochEnd& end, RankObserver& observer) const {
  schemas::EvaluationReport result;
  result.rank = options.rank;
  result.epoch = end.epochs;
  result.step = end.steps;
  // A rank without test records has no metrics.
  if (const auto accuracy = end.evaluation->find("accuracy"); accuracy != end.evaluation->end()) {
    result.samples = static_cast<std::uint64_t>(accuracy->second.weight);
    result.correct = static_cast<std::uint64_t>(accuracy->second.sum);
    result.loss_sum = end.evaluation->at("cross_entropy").sum;
  }
  observer.scored(result);
}

}  // namespace troupe::train
