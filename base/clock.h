// SPDX-License-Identifier: Apache-2.0
// Time as a dependency: programs pass a Clock down, tests pass a manual one.
// Only the steady clock decides anything; wall-clock time appears in logs and file dates only.
#pragma once

#include <atomic>
#include <cstdint>

namespace troupe::base {

/// Monotonic time. Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds since an arbitrary start; never goes back.
  virtual std::int64_t now_ns() const = 0;
  std::int64_t now_ms() const { return now_ns() / 1'000'000; }
};

/// Seconds since 1970 by the machine's calendar, which people may set: for dates alone.
std::int64_t unix_seconds();

/// The machine's steady clock.
class SteadyClock final : public Clock {
 public:
  std::int64_t now_ns() const override;
};

/// A clock that moves only when told to.
class ManualClock final : public Clock {
 public:
  std::int64_t now_ns() const override { return now_.load(std::memory_order_relaxed); }
  void advance_ns(std::int64_t delta) { now_.fetch_add(delta, std::memory_order_relaxed); }
  void advance_ms(std::int64_t delta) { advance_ns(delta * 1'000'000); }

 private:
  std::atomic<std::int64_t> now_{0};
};

}  // namespace troupe::base
