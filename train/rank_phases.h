// SPDX-License-Identifier: Apache-2.0
// RankPhases: what a rank's thread has spent its time on. One thread enters phases, any thread
// reads the sums; a mutex that is almost never contended keeps them consistent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace troupe::train {

/// What the thread is doing.
enum class RankPhase : std::uint8_t {
  data,     ///< waits for a batch
  issue,    ///< hands a step's operations to the engine, and waits for room in it
  compute,  ///< waits for a step's gradients
  pull,     ///< waits for a step's weights
  eval,     ///< scores
  idle      ///< anything else
};
inline constexpr std::array<std::string_view, 6> kRankPhaseNames = {"data", "issue", "compute",
                                                                    "pull", "eval",  "idle"};

/// Sums by phase. Nothing is counted before the first enter(); from then on the phases add up to
/// the time that has passed.
class RankPhases {
 public:
  using Times = std::array<std::int64_t, kRankPhaseNames.size()>;  // nanoseconds, by phase

  /// `clock` outlives it.
  explicit RankPhases(const base::Clock& clock) : clock_(clock) {}

  /// The phase from now on; returns the one before.
  RankPhase enter(RankPhase phase) {
    const base::MutexLock lock(mutex_);
    const std::int64_t now = clock_.now_ns();
    if (begun_) times_[index(phase_)] += now - since_ns_;
    begun_ = true;
    since_ns_ = now;
    return std::exchange(phase_, phase);
  }

  /// Up to now.
  Times times() const {
    const base::MutexLock lock(mutex_);
    Times times = times_;
    if (begun_) times[index(phase_)] += clock_.now_ns() - since_ns_;
    return times;
  }

 private:
  static constexpr std::size_t index(RankPhase phase) { return static_cast<std::size_t>(phase); }

  const base::Clock& clock_;
  mutable base::Mutex mutex_;
  Times times_ TROUPE_GUARDED_BY(mutex_) = {};
  RankPhase phase_ TROUPE_GUARDED_BY(mutex_) = RankPhase::idle;
  std::int64_t since_ns_ TROUPE_GUARDED_BY(mutex_) = 0;
  bool begun_ TROUPE_GUARDED_BY(mutex_) = false;
};

/// A phase for as long as it lives; then the one before goes on.
class InPhase {
 public:
  InPhase(RankPhases& phases, RankPhase phase) : phases_(phases), before_(phases.enter(phase)) {}
  ~InPhase() { phases_.enter(before_); }
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  RankPhases& phases_;
  const RankPhase before_;
};

}  // namespace troupe::train
