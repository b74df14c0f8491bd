// SPDX-License-Identifier: Apache-2.0
// AwakeClock: the time in which this process ran. Whoever has deadlines for others looks at a clock
// every few milliseconds. When it finds that its last look was seconds ago, the whole process stood
// still (SIGSTOP, a paused virtual machine, heavy swapping), and nobody could have been heard
// meanwhile: that time is left out. Deadlines go on where they were, all of them.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace troupe::base {

/// A share of the silence after which a peer is dead; a pause of this process that is longer than
/// it is left out.
constexpr std::uint64_t own_pause_ms(std::uint64_t silence_dead_ms) {
  return silence_dead_ms / 4;
}

/// See the top of the file. Any thread.
class AwakeClock final : public Clock {
 public:
  /// What has been left out so far.
  struct Pauses {
    std::uint64_t count = 0;
    std::uint64_t total_ms = 0;
  };

  /// `clock` outlives it and is looked at every `every_ms` at least; two looks that are further
  /// apart by more than `pause_ms` have a pause between them.
  AwakeClock(const Clock& clock, std::uint64_t every_ms, std::uint64_t pause_ms);

  /// The clock's time less all pauses.
  std::int64_t now_ns() const override;
  Pauses pauses() const;

 private:
  const Clock& clock_;
  const std::int64_t most_ns_;  // between two looks
  mutable Mutex mutex_;
  mutable std::int64_t looked_ns_ TROUPE_GUARDED_BY(mutex_);
  mutable std::int64_t skipped_ns_ TROUPE_GUARDED_BY(mutex_) = 0;
  mutable std::uint64_t pauses_ TROUPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace troupe::base
