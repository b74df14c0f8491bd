// SPDX-License-Identifier: Apache-2.0
// The loop of a rank. It pushes a step's work and goes on; it waits only for data, for the step
// before the last (so that at most two are in the engine), and where somebody wants numbers.
#include "train/rank_runner.h"

#include <cstring>

#include "train/metrics.h"
#include "train/slice_rules.h"

namespace troupe::train {
namespace {

// Steps pushed to the engine and not finished.
constexpr std::uint64_t kStepsInFlight = 2;

}  // namespace

struct RankRunner::Parts {
  Parts(std::shared_ptr<const Job> the_job, const ops::OpTable& table, base::Clock& the_clock,
        const RankOptions& the_options)
      : job(std::move(the_job)),
        clock(the_clock),
        options(the_options),
        plan(make_step_plan(job->spec, job->train_data->records(), options.start_step)),
        storage({.cache_bytes_max = job->spec.limits.pool_cache_bytes_max}),
        kernels(job->spec.limits.prepared_kernels_max),
        engine(engine::make_threaded_engine(engine_options(), clock)),
        runtime{*engine, storage, table, kernels, clock} {}

  engine::EngineOptions engine_options() const {
    engine::EngineOptions made;
    made.threads = static_cast<int>(job->spec.workers.threads);
    made.engine_pending_operations_max = job->spec.limits.engine_pending_operations_max;
    made.engine_pending_bytes_max = job->spec.limits.engine_pending_bytes_max;
    made.thread_name = "rank" + std::to_string(options.rank);
    made.trace_path = options.trace_path;
    made.streams = options.streams;
    return made;
  }

  std::chrono::milliseconds deadline() const {
    return std::chrono::milliseconds(job->spec.limits.stall_ms);
  }

  base::Status open_data();
  base::Status train(RankObserver& observer);
  base::Status step(std::uint64_t number);
  base::Status mark(std::uint64_t number);
  base::Status wait_computed(std::uint64_t number);
  base::Status wait_for(std::uint64_t number);
  base::Status report(std::uint64_t number, RankObserver& observer);
  base::Status score(std::uint64_t step, RankObserver& observer);
  base::Result<ModuleBatch> module_batch(const data::Batch& batch);
  base::Result<base::Buffer> in_dtype(const base::Buffer& values);

  std::shared_ptr<const Job> job;
  base::Clock& clock;
  RankOptions options;
  const StepPlan plan;
  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  std::unique_ptr<engine::Engine> engine;
  ndarray::Runtime runtime;
  std::unique_ptr<Module> module;
  std::unique_ptr<data::BatchIterator> train_batches;
  std::unique_ptr<data::BatchIterator> test_batches;
  engine::Variable computed[kStepsInFlight];  // gradients of a step are there, or an error
  engine::Variable marks[kStepsInFlight];     // its weights have come
  std::atomic<bool> stopped{false};
  RankFigures figures;
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
data::BatchStats RankRunner::data_stats() const {
  return parts_->train_batches->stats();
}

base::Result<std::unique_ptr<RankRunner>> RankRunner::create(std::shared_ptr<const Job> job,
                                                             const ops::OpTable& table,
                                                             base::Clock& clock,
                                                             const RankOptions& options) {
  const schemas::JobSpec& spec = job->spec;
  auto parts = std::make_unique<Parts>(job, table, clock, options);
  ModuleOptions how;
  how.inputs = job->keys.inputs;
  how.device = options.device;
  how.layouts = spec.numerics.layout == schemas::LayoutChoice::dense ? symbol::LayoutPolicy::dense
                                                                     : symbol::LayoutPolicy::chosen;
  how.reference_only = spec.numerics.reference_only;
  how.check_gradients = spec.train.non_finite == schemas::NonFinite::fail;
  how.seed = spec.seed;
  how.rank = options.rank;
  how.executors_max = spec.limits.executors_max;
  TROUPE_TRY_ASSIGN(parts->module, Module::create(parts->runtime, job->network, how));
  for (engine::Variable& mark : parts->computed) mark = parts->engine->new_variable("gradients");
  for (engine::Variable& mark : parts->marks) mark = parts->engine->new_variable("step mark");
  TROUPE_TRY(parts->open_data());
  std::unique_ptr<RankRunner> runner(new RankRunner(std::move(parts)));
  if (options.metrics != nullptr) {
    runner->parts_->shown = show_rank(*options.metrics, *runner, options.rank);
  }
  return runner;
}

base::Status RankRunner::Parts::open_data() {
  const schemas::DataSpec& spec = job->spec.data;
  base::BufferPool& pool = storage.pool(base::Device{});
  const data::PrefetchOptions prefetch{spec.prefetch_threads, spec.prefetch_batches};
  const data::BatchSources train_sources{
      job->train_data, data::make_training_plan(job->orders, options.rank, job->steps_end()), &pool,
      &clock};
  TROUPE_TRY_ASSIGN(train_batches, data::BatchIterator::create(train_sources, job->samples,
                                                               prefetch, options.start_step));
  if (job->test_data == nullptr) return {};
  const data::DealSpec deal{job->test_data->records(), job->spec.ranks(),
                            spec.test_batch == 0 ? spec.batch : spec.test_batch, job->spec.seed};
  const data::BatchSources test_sources{
      job->test_data, data::make_evaluation_plan(deal, options.rank), &pool, &clock};
  TROUPE_TRY_ASSIGN(test_batches, data::BatchIterator::create(test_sources, job->samples, {1, 2}));
  return {};
}

base::Status RankRunner::run(KVStore& store, RankObserver& observer) {
  Parts& parts = *parts_;
  const base::Status status = [&] {
    TROUPE_TRY(parts.module->init_optimizer(store, parts.job->rule(), false));
    TROUPE_TRY(parts.module->pull(parts.options.start_step, true));
    TROUPE_TRY(parts.train(observer));
    return store.finish(parts.job->steps_end());
  }();
  if (!status.ok()) parts.engine->cancel(status.text());
  return status;
}

void RankRunner::stop(std::string_view reason) {
  parts_->stopped.store(true);
  parts_->engine->cancel(reason);
}

base::Status RankRunner::Parts::train(RankObserver& observer) {
  const std::uint64_t epoch_steps = job->steps_per_epoch();
  const std::uint64_t log_steps = period_steps(job->spec.train.log_every, epoch_steps);
  const std::uint64_t score_steps = period_steps(job->spec.train.score_every, epoch_steps);
  const std::uint64_t end = job->steps_end();
  for (std::uint64_t now = options.start_step; now < end; ++now) {
    if (stopped.load())
      return base::error(base::Errc::cancelled, "rank {} was stopped", options.rank);
    TROUPE_TRY(step(now));
    if (now >= options.start_step + 1) TROUPE_TRY(wait_for(now - 1));
    const std::uint64_t done = now + 1;
    const bool epoch_ends = done % epoch_steps == 0;
    if (epoch_ends || done == end || (log_steps != 0 && done % log_steps == 0)) {
      TROUPE_TRY(wait_computed(now));
      TROUPE_TRY(report(now, observer));
    }
    if (score_steps != 0 && done % score_steps == 0 && test_batches != nullptr) {
      TROUPE_TRY(wait_computed(now));
      TROUPE_TRY(score(done, observer));
    }
  }
  return engine->wait_all();
}

base::Status RankRunner::Parts::step(std::uint64_t number) {
  data::BatchIterator::Item item = train_batches->next(deadline());
  TROUPE_TRY(item.status());
  TROUPE_CHECK(item->has_value(), "the training plan is shorter than the job");
  TROUPE_TRY_ASSIGN(const ModuleBatch batch, module_batch(**item));
  TROUPE_TRY(module->forward_backward(batch, number));
  TROUPE_TRY(module->push(number, static_cast<double>(batch.size)));
  TROUPE_TRY(module->pull(number + 1, plan.is_barrier(number + 1)));
  figures.samples.fetch_add(static_cast<std::uint64_t>(batch.size), std::memory_order_relaxed);
  figures.epoch.store(number / job->steps_per_epoch(), std::memory_order_relaxed);
  return mark(number);
}

// An operation behind all gradients of the step, and one behind all weights of the next: when that
// has run, `number` is committed.
base::Status RankRunner::Parts::mark(std::uint64_t number) {
  std::vector<engine::Variable> reads;
  for (const schemas::KeyInfo& key : module->keys()) {
    reads.push_back(module->gradient(key.id).variable());
  }
  engine->push({"gradients mark",
                reads,
                {&computed[number % kStepsInFlight], 1},
                {{}, engine::LaneKind::priority},
                0},
               [](engine::RunContext&) { return base::Status(); });
  reads.clear();
  for (const schemas::KeyInfo& key : module->keys()) {
    reads.push_back(module->parameter(key.id).variable());
  }
  const engine::Variable& written = marks[number % kStepsInFlight];
  engine->push({"step mark", reads, {&written, 1}, {{}, engine::LaneKind::priority}, 0},
               [this, number](engine::RunContext&) {
                 figures.steps.store(number + 1 - options.start_step, std::memory_order_relaxed);
                 return base::Status();
               });
  return {};
}

// A gradient that failed is never pushed, so the weights of its step would be awaited for ever.
base::Status RankRunner::Parts::wait_computed(std::uint64_t number) {
  return engine->wait(computed[number % kStepsInFlight]);
}

base::Status RankRunner::Parts::wait_for(std::uint64_t number) {
  TROUPE_TRY(wait_computed(number));
  return engine->wait(marks[number % kStepsInFlight]);
}

base::Status RankRunner::Parts::report(std::uint64_t number, RankObserver& observer) {
  TROUPE_TRY_ASSIGN(const BatchMetrics metrics, module->training_metrics());
  TROUPE_TRY_ASSIGN(const auto values, metrics.read());
  schemas::ProgressReport progress;
  progress.rank = options.rank;
  progress.step = number + 1;
  progress.samples = figures.samples.load(std::memory_order_relaxed);
  for (const auto& [name, pair] : values) progress.metrics[name] = {pair.sum, pair.weight};
  const auto loss = values.find("cross_entropy");
  if (loss != values.end()) figures.loss.store(loss->second.mean(), std::memory_order_relaxed);
  const UpdateRule rule = job->rule();
  figures.learning_rate.store(learning_rate(rule.schedule, rule.optimizer.lr, rule.span, number),
                              std::memory_order_relaxed);
  observer.progress(progress);
  return {};
}

base::Status RankRunner::Parts::score(std::uint64_t step, RankObserver& observer) {
  schemas::EvaluationReport result;
  result.rank = options.rank;
  result.epoch = step / job->steps_per_epoch();
  result.step = step;
  test_batches->seek(0);
  while (true) {
    data::BatchIterator::Item item = test_batches->next(deadline());
    TROUPE_TRY(item.status());
    if (!item->has_value()) break;
    TROUPE_TRY_ASSIGN(const ModuleBatch batch, module_batch(**item));
    if (batch.size == 0) continue;
    TROUPE_TRY_ASSIGN(const BatchMetrics metrics, module->score(batch));
    TROUPE_TRY_ASSIGN(const auto values, metrics.read());
    result.samples += static_cast<std::uint64_t>(batch.size);
    result.correct += static_cast<std::uint64_t>(values.at("accuracy").sum);
    result.loss_sum += values.at("cross_entropy").sum;
  }
  observer.scored(result);
  return {};
}

base::Result<ModuleBatch> RankRunner::Parts::module_batch(const data::Batch& batch) {
  ModuleBatch made;
  made.size = static_cast<std::int64_t>(batch.count());
  TROUPE_TRY_ASSIGN(made.data, in_dtype(batch.images));
  TROUPE_TRY_ASSIGN(made.labels, in_dtype(batch.labels));
  return made;
}

// Batches are f32; jobs in f64 read them as such.
base::Result<base::Buffer> RankRunner::Parts::in_dtype(const base::Buffer& values) {
  if (job->keys.inputs.dtype == base::DType::f32 || values.empty()) return values;
  const auto from = values.as<float>();
  TROUPE_TRY_ASSIGN(base::Buffer wide,
                    storage.pool(base::Device{}).allocate(from.size() * sizeof(double), "batch"));
  std::copy(from.begin(), from.end(), wide.as<double>().begin());
  return wide;
}

}  // namespace troupe::train
