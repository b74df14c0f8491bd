// SPDX-License-Identifier: Apache-2.0
// The loop of training. It pushes a step's work and goes on; it waits only for data, for the step
// before the last (so that at most two are in the engine), and where somebody wants numbers.
#include "train/fit.h"

#include <array>
#include <vector>

#include "ndarray/run_kernel.h"
#include "train/module.h"
#include "train/rank_phases.h"

namespace troupe::train {
namespace {

// Steps pushed to the engine and not finished.
constexpr std::uint64_t kStepsInFlight = 2;

using Marks = std::array<engine::Variable, kStepsInFlight>;

class FitLoop {
 public:
  FitLoop(Module& module, data::BatchIterator& batches, store::KVStore& store,
          const FitOptions& options)
      : module_(module),
        engine_(module.runtime().engine),
        batches_(batches),
        store_(store),
        options_(options),
        clock_(module.runtime().clock),
        own_phases_(clock_),
        phases_(options.phases == nullptr ? own_phases_ : *options.phases) {
    phases_.enter(RankPhase::idle);
    for (engine::Variable& mark : computed_) mark = engine_.new_variable("gradients");
    for (engine::Variable& mark : ready_) mark = engine_.new_variable("what is pushed");
    for (engine::Variable& mark : committed_) mark = engine_.new_variable("step mark");
  }

  base::Status run();

 private:
  base::Status check() const;
  base::Result<BatchEnd> step(std::uint64_t number);
  base::Result<ModuleBatch> next_batch(std::uint64_t number);
  base::Status end_epoch(std::uint64_t number);
  void mark(std::uint64_t number);
  base::Status wait_computed(std::uint64_t number);
  base::Status wait_committed(std::uint64_t number);

  Module& module_;
  engine::Engine& engine_;
  data::BatchIterator& batches_;
  store::KVStore& store_;
  const FitOptions& options_;
  const base::Clock& clock_;
  RankPhases own_phases_;
  RankPhases& phases_;
  Marks computed_;   // gradients of a step are there, or an error
  Marks ready_;      // what the store gets of them, too: where others are added, theirs have come
  Marks committed_;  // the weights behind it have come
};

base::Status FitLoop::check() const {
  if (options_.steps.epoch_steps == 0 || options_.evaluation_epochs == 0) {
    return base::error(base::Errc::invalid_argument,
                       "fit: epochs of {} steps, scored at every {}th; both must be at least 1",
                       options_.steps.epoch_steps, options_.evaluation_epochs);
  }
  return {};
}

base::Status FitLoop::run() {
  const store::StepPlan& steps = options_.steps;
  TROUPE_TRY(check());
  if (batches_.position() != steps.start) batches_.seek(steps.start);
  TROUPE_TRY(module_.init_optimizer(store_, options_.rule, options_.publish));
  TROUPE_TRY(module_.pull(steps.start, true));
  for (std::uint64_t now = steps.start; now < steps.total; ++now) {
    const std::int64_t begin_ns = clock_.now_ns();
    TROUPE_TRY_ASSIGN(BatchEnd pushed, step(now));
    if (now > steps.start) TROUPE_TRY(wait_committed(now - 1));
    pushed.seconds = static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9;
    if (options_.batch_end) TROUPE_TRY(options_.batch_end(pushed));
    if ((now + 1) % steps.epoch_steps == 0) TROUPE_TRY(end_epoch(now));
  }
  if (steps.total > steps.start) TROUPE_TRY(wait_committed(steps.total - 1));
  TROUPE_TRY(engine_.wait_all());
  return store_.finish(steps.total);
}

base::Result<ModuleBatch> FitLoop::next_batch(std::uint64_t number) {
  const InPhase waiting(phases_, RankPhase::data);
  data::BatchIterator::Item item = batches_.next(options_.deadline);
  TROUPE_TRY(item.status());
  if (!item->has_value()) {
    return base::error(base::Errc::invalid_argument,
                       "fit: the training data ends before step {} of {}", number,
                       options_.steps.total);
  }
  return module_.batch(**item);
}

base::Result<BatchEnd> FitLoop::step(std::uint64_t number) {
  TROUPE_TRY_ASSIGN(const ModuleBatch batch, next_batch(number));
  const InPhase issuing(phases_, RankPhase::issue);
  TROUPE_TRY(module_.forward_backward(batch, number));
  const bool barrier = options_.steps.is_barrier(number + 1);
  TROUPE_TRY(module_.update(number, static_cast<double>(batch.size), barrier));
  mark(number);
  return BatchEnd{number, batch.size};
}

base::Status FitLoop::end_epoch(std::uint64_t number) {
  TROUPE_TRY(wait_committed(number));
  EpochEnd end{(number + 1) / options_.steps.epoch_steps, number + 1, {}};
  const bool due =
      end.epochs % options_.evaluation_epochs == 0 || end.steps == options_.steps.total;
  if (options_.evaluation != nullptr && due) {
    const InPhase scoring(phases_, RankPhase::eval);
    auto found = module_.score(*options_.evaluation, options_.deadline, options_.stop);
    const bool stopped = options_.stop != nullptr && options_.stop->load();
    if (!found.ok() && !(stopped && found.status().code() == base::Errc::cancelled)) {
      return found.status();
    }
    if (found.ok()) end.evaluation = *std::move(found);
  }
  return options_.epoch_end ? options_.epoch_end(end) : base::Status();
}

// An operation behind all gradients of the step, one behind what is pushed of them, and one behind
// all weights of the next.
void FitLoop::mark(std::uint64_t number) {
  std::vector<engine::Variable> gradients, pushed, weights;
  for (const schemas::KeyInfo& key : module_.keys()) {
    gradients.push_back(module_.gradient(key.id).variable());
    pushed.push_back(module_.pushed_gradient(key.id).variable());
    weights.push_back(module_.parameter(key.id).variable());
  }
  const auto push = [&](std::string_view name, const std::vector<engine::Variable>& reads,
                        const engine::Variable& written) {
    engine_.push({name, reads, {&written, 1}, {{}, engine::LaneKind::priority}, 0},
                 [](engine::RunContext&) { return base::Status(); });
  };
  push("gradients mark", gradients, computed_[number % kStepsInFlight]);
  if (ndarray::uses_stream(module_.options().device)) {  // else they are the same arrays
    push("push mark", pushed, ready_[number % kStepsInFlight]);
  }
  push("step mark", weights, committed_[number % kStepsInFlight]);
}

// A gradient that failed is never pushed, so the weights of its step would be awaited for ever.
base::Status FitLoop::wait_computed(std::uint64_t number) {
  const InPhase waiting(phases_, RankPhase::compute);
  return engine_.wait(computed_[number % kStepsInFlight]);
}

base::Status FitLoop::wait_committed(std::uint64_t number) {
  TROUPE_TRY(wait_computed(number));
  const InPhase waiting(phases_, RankPhase::pull);
  TROUPE_TRY(engine_.wait(ready_[number % kStepsInFlight]));
  return engine_.wait(committed_[number % kStepsInFlight]);
}

}  // namespace

base::Status Module::fit(data::BatchIterator& batches, store::KVStore& store,
                         const FitOptions& options) {
  const base::Status status = FitLoop(*this, batches, store, options).run();
  if (!status.ok()) runtime_.engine.cancel(status.text());
  return status;
}

}  // namespace troupe::train
