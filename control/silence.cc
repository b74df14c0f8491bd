// SPDX-License-Identifier: Apache-2.0
// One warning in each silence, then the end.
#include "control/silence.h"

#include "base/check.h"

namespace troupe::control {

void Silence::heard(std::uint64_t now_ms) {
  since_ms_ = now_ms;
  warned_ = false;
}

SilenceFinding Silence::check(std::uint64_t now_ms) {
  using Verdict = SilenceFinding::Verdict;
  if (!since_ms_) heard(now_ms);
  TROUPE_CHECK(now_ms >= *since_ms_, "a monotonic clock does not go back");
  const std::uint64_t silent_ms = now_ms - *since_ms_;
  if (silent_ms >= fail_ms_) return {Verdict::fail, silent_ms};
  if (silent_ms < warn_ms_ || warned_) return {Verdict::quiet, silent_ms};
  warned_ = true;
  return {Verdict::warn, silent_ms};
}

}  // namespace troupe::control
