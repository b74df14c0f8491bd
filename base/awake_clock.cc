// SPDX-License-Identifier: Apache-2.0
// Leaving out what lies between two looks that are too far apart.
#include "base/awake_clock.h"

namespace troupe::base {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;

}  // namespace

AwakeClock::AwakeClock(const Clock& clock, std::uint64_t every_ms, std::uint64_t pause_ms)
    : clock_(clock),
      most_ns_(static_cast<std::int64_t>(every_ms + pause_ms) * kNsPerMs),
      looked_ns_(clock.now_ns()) {}

std::int64_t AwakeClock::now_ns() const {
  const MutexLock lock(mutex_);
  const std::int64_t now_ns = clock_.now_ns();
  const std::int64_t gap_ns = now_ns - looked_ns_;
  looked_ns_ = now_ns;
  if (gap_ns > most_ns_) {
    skipped_ns_ += gap_ns;
    ++pauses_;
  }
  return now_ns - skipped_ns_;
}

AwakeClock::Pauses AwakeClock::pauses() const {
  const MutexLock lock(mutex_);
  return {pauses_, static_cast<std::uint64_t>(skipped_ns_ / kNsPerMs)};
}

}  // namespace troupe::base
