// SPDX-License-Identifier: Apache-2.0
// WorkerStore: the KVStore of a rank whose gradients and weights go through the company. Calls
// become asynchronous operations of the rank's engine; their completions wait here until the
// worker's state machine says that a gradient was added or that weights have come. Calls of
// KVStore: the rank's thread; the others: any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "actors/effects.h"
#include "base/mutex.h"
#include "ndarray/runtime.h"
#include "store/kvstore.h"
#include "store/weight_arrivals.h"
#include "train/rank_runner.h"

namespace troupe::actors {

/// A rank's KVStore over the tiers.
class WorkerStore final : public store::KVStore {
 public:
  using Post = std::function<void(WorkerEvent)>;

  /// `post` hands events to the worker; `spec` is the job's.
  WorkerStore(std::uint32_t rank, const schemas::JobSpec& spec, ndarray::Runtime& runtime,
              Post post);

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return spec_.ranks(); }
  /// Only says what travels how, as the job's keys do: the servers hold them already. Values of a
  /// caller are refused, and a second call.
  base::Status init(std::span<const schemas::KeyInfo> keys,
                    std::span<const ndarray::NDArray> values) override;
  /// The job's own rule is the servers'; another one is refused.
  base::Status set_updater(const store::UpdateRule& rule) override;
  void push(std::uint32_t key, const ndarray::NDArray& gradient,
            const store::PushInfo& info) override;
  void pull(std::uint32_t key, const ndarray::NDArray& weight,
            const store::PullInfo& info) override;
  base::Status finish(std::uint64_t steps) override;

  /// The worker's effects. Quick: copies run on the rank's lanes.
  void taken(const GradientTaken& taken);
  void ready(WeightsReady ready);
  /// Ends every waiting and later operation with `status`.
  void fail(const base::Status& status);

 private:
  base::Result<base::Buffer> rounded(std::uint32_t key, const ndarray::NDArray& gradient);

  std::uint32_t rank_;
  const schemas::JobSpec& spec_;
  std::vector<schemas::KeyInfo> keys_;  // set in init(), before any push or pull
  ndarray::Runtime& runtime_;
  store::WeightArrivals arrivals_;
  Post post_;
  base::Mutex mutex_;
  base::Status failure_ TROUPE_GUARDED_BY(mutex_);
  std::map<std::uint32_t, engine::Completion> pushes_ TROUPE_GUARDED_BY(mutex_);  // by key
  std::map<std::uint32_t, std::shared_ptr<store::WeightArrival>> pulls_
      TROUPE_GUARDED_BY(mutex_);  // by key
};

}  // namespace troupe::actors
