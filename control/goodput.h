// SPDX-License-Identifier: Apache-2.0
// Goodput: of the time that a job held its machines, the share in which steps were done that count.
// Both halves are times of the coordinator's clock. A run counts from the moment that its processes
// are up until its newest report of a step; when it ends before the job is done, only the share of
// those steps that its newest checkpoint holds: the others are done again. Starting, a stall since
// the newest report, ending and lost steps are what is missing to 1. Pure; one owner.
#pragma once

#include <cstdint>
#include <optional>

namespace troupe::control {

/// Sums over runs.
struct HeldTime {
  std::uint64_t held_ms = 0;     ///< from placement to the last process's end
  std::uint64_t counted_ms = 0;  ///< of steps that count

  /// 0 to 1; none before any time has passed.
  std::optional<double> goodput() const;
};

/// One run's part. Times are those of one clock that does not go back.
class Goodput {
 public:
  /// The run got its machines.
  void placed(std::uint64_t now_ms);
  /// Its processes are up; `step` steps were done before it.
  void trains(std::uint64_t step, std::uint64_t now_ms);
  /// Every rank has reported `step` steps.
  void stepped(std::uint64_t step, std::uint64_t now_ms);
  /// A checkpoint of `step` steps is durable.
  void checkpointed(std::uint64_t step);
  /// Nothing of the run is left; `done`: the job has reached its end.
  void ended(bool done, std::uint64_t now_ms);

  /// So far, or as it was at the end. `now_ms` is not before what was told last.
  HeldTime time(std::uint64_t now_ms) const;

 private:
  std::uint64_t placed_ms_ = 0;
  std::uint64_t trains_ms_ = 0;
  std::uint64_t stepped_ms_ = 0;
  std::uint64_t start_ = 0;  // steps
  std::uint64_t step_ = 0;
  std::uint64_t checkpoint_ = 0;
  std::optional<HeldTime> end_;
};

}  // namespace troupe::control
