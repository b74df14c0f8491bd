// SPDX-License-Identifier: Apache-2.0
// Pushes and pulls as engine operations with completions.
#include "actors/worker_store.h"

#include "base/check.h"
#include "store/convert.h"

namespace troupe::actors {

using ndarray::NDArray;

WorkerStore::WorkerStore(std::uint32_t rank, const schemas::JobSpec& spec,
                         ndarray::Runtime& runtime, Post post)
    : rank_(rank), spec_(spec), runtime_(runtime), arrivals_(runtime), post_(std::move(post)) {}

base::Status WorkerStore::init(std::span<const schemas::KeyInfo> keys,
                               std::span<const NDArray> values) {
  if (!values.empty()) {
    return base::error(base::Errc::unimplemented,
                       "a job's first values come from its seed, a checkpoint or train.weights");
  }
  if (!keys_.empty()) {
    return base::error(base::Errc::failed_precondition, "rank {} has begun on this store before",
                       rank_);
  }
  keys_.assign(keys.begin(), keys.end());
  return {};
}

base::Status WorkerStore::set_updater(const store::UpdateRule& rule) {
  if (rule.optimizer == spec_.train.optimizer && rule.schedule == spec_.train.schedule) return {};
  return base::error(base::Errc::invalid_argument, "the job has another update rule");
}

void WorkerStore::push(std::uint32_t key, const NDArray& gradient, const store::PushInfo& info) {
  TROUPE_CHECK(key < keys_.size(), "a push of a key that init has not declared");
  store::check_gradient(keys_[key], gradient);
  const engine::Variable reads[] = {gradient.variable()};
  runtime_.engine.push_async(
      {"push", reads, {}, engine::kHostCopyLane, info.priority},
      [this, key, gradient, info](engine::RunContext&, engine::Completion completion) {
        base::Status failure;
        {
          const base::MutexLock lock(mutex_);
          failure = failure_;
          if (failure.ok()) pushes_[key] = std::move(completion);
        }
        if (!failure.ok()) return completion.complete(failure);
        const double count = info.ready_count();
        auto bytes = count == 0.0 ? base::Buffer() : rounded(key, gradient);
        if (!bytes.ok()) return fail(bytes.status());
        post_(PushWanted{key, info.step, count, *std::move(bytes)});
      });
}

void WorkerStore::pull(std::uint32_t key, const NDArray& weight, const store::PullInfo& info) {
  TROUPE_CHECK(key < keys_.size(), "a pull before init");
  arrivals_.pull(keys_[key], weight, info.priority,
                 [this, key, info](const std::shared_ptr<store::WeightArrival>& arrival) {
                   base::Status failure;
                   {
                     const base::MutexLock lock(mutex_);
                     failure = failure_;
                     if (failure.ok()) pulls_[key] = arrival;
                   }
                   if (!failure.ok()) return arrival->end(failure);
                   post_(PullWanted{key, info.step, info.barrier});
                 });
}

/// A gradient as it travels; a copy where it is rounded here.
base::Result<base::Buffer> WorkerStore::rounded(std::uint32_t key, const NDArray& gradient) {
  return store::convert(gradient.buffer(), gradient.dtype(), keys_[key].gradient_wire,
                        runtime_.storage.pool(base::Device{}), "gradients on their way");
}

base::Status WorkerStore::finish(std::uint64_t steps) {
  post_(Finish{steps});
  return {};
}

void WorkerStore::taken(const GradientTaken& taken) {
  engine::Completion completion;
  {
    const base::MutexLock lock(mutex_);
    const auto waiting = pushes_.extract(taken.key);
    if (waiting.empty()) return;
    completion = std::move(waiting.mapped());
  }
  completion.complete();
}

void WorkerStore::ready(WeightsReady ready) {
  std::shared_ptr<store::WeightArrival> arrival;
  {
    const base::MutexLock lock(mutex_);
    auto waiting = pulls_.extract(ready.key);
    if (waiting.empty()) return;
    arrival = std::move(waiting.mapped());
  }
  arrival->slices() = std::move(ready.slices);
  arrival->end({});
}

void WorkerStore::fail(const base::Status& status) {
  std::map<std::uint32_t, engine::Completion> pushes;
  std::map<std::uint32_t, std::shared_ptr<store::WeightArrival>> pulls;
  {
    const base::MutexLock lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    pushes.swap(pushes_);
    pulls.swap(pulls_);
  }
  for (auto& [key, completion] : pushes) completion.complete(status);
  for (auto& [key, arrival] : pulls) arrival->end(status);
}

}  // namespace troupe::actors
