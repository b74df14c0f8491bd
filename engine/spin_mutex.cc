// SPDX-License-Identifier: Apache-2.0
// The contended path of SpinMutex, and whether spinning makes sense.
#include "engine/spin_mutex.h"

#include "base/processors.h"

namespace troupe::engine {

int spins_here(int spins) {
  return base::usable_processors() > 1 ? spins : 0;
}

void SpinMutex::lock_slowly() {
  for (int spin = 0; spin < kSpins; ++spin) {
    spin_pause();
    std::uint32_t expected = kFree;
    if (state_.load(std::memory_order_relaxed) == kFree &&
        state_.compare_exchange_weak(expected, kHeld, std::memory_order_acquire)) {
      return;
    }
  }
  while (state_.exchange(kContended, std::memory_order_acquire) != kFree) state_.wait(kContended);
}

}  // namespace troupe::engine
