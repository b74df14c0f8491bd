// SPDX-License-Identifier: Apache-2.0
// What Module::fit is given and what it tells: the steps to take, when to score, callbacks.
// Plain values; callbacks run on the thread that called fit.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/status.h"
#include "data/batch_iterator.h"
#include "store/schedule.h"
#include "train/score.h"

namespace troupe::train {

class RankPhases;

/// Longest wait for one batch where nobody says otherwise.
inline constexpr std::chrono::milliseconds kBatchDeadline = std::chrono::minutes(1);

/// A step that was pushed; the weights of all steps before it are there.
struct BatchEnd {
  std::uint64_t step = 0;    ///< from 0
  std::int64_t samples = 0;  ///< of this rank's batch
  double seconds = 0.0;      ///< since the step began with the wait for its batch
};

/// An epoch whose steps are all in this rank's weights.
struct EpochEnd {
  std::uint64_t epochs = 0;                ///< since step 0, this one included
  std::uint64_t steps = 0;                 ///< likewise
  std::optional<MetricValues> evaluation;  ///< this rank's sums, where the epoch was scored
};

/// How to fit, beside data and store.
struct FitOptions {
  store::UpdateRule rule;
  store::StepPlan steps;  ///< start, end, epochs and barriers: the store's own plan
  /// The module's present values become version 0; false: the store draws or loads its own.
  bool publish = true;
  data::BatchIterator* evaluation = nullptr;  ///< scored from its begin at ends of epochs
  std::uint64_t evaluation_epochs = 1;        ///< at every n-th; at least 1
  /// Set from outside: an epoch that is being scored is not scored to its end, and training goes on
  /// to where it is stopped. Null: nobody sets it.
  const std::atomic<bool>* stop = nullptr;
  std::chrono::milliseconds deadline = kBatchDeadline;  ///< of the wait for one batch
  RankPhases* phases = nullptr;                         ///< told what the calling thread waits for
  /// After each step and after each epoch. They may read metrics and weights (which waits), score
  /// and predict; an error ends the fit with that error.
  std::function<base::Status(const BatchEnd&)> batch_end = {};
  std::function<base::Status(const EpochEnd&)> epoch_end = {};
};

}  // namespace troupe::train
