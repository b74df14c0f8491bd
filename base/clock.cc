// SPDX-License-Identifier: Apache-2.0
// The steady clock.
#include "base/clock.h"

#include <chrono>

namespace troupe::base {

std::int64_t SteadyClock::now_ns() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace troupe::base
