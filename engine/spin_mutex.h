// SPDX-License-Identifier: Apache-2.0
// SpinMutex: guards the dependency graph. Its sections are tens of nanoseconds long, so a waiter
// spins a little before it sleeps. Satisfies BasicLockable. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutex.h"

namespace troupe::engine {

/// Tells the processor that this thread spins.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Behind SpinMutex::unlock(): what this thread has stored is seen before it loads anything, as
/// behind a sequentially consistent fence. On x86 the unlock's exchange is one.
inline void fence_behind_unlock() {
#if defined(__x86_64__) || defined(__i386__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// `spins`, or 0 where the calling thread, who makes an engine, may use one processor only: nobody
/// could do there what a spinning thread waits for.
int spins_here(int spins);

/// Non-recursive; spins kSpins times, then sleeps until the holder wakes it.
class TROUPE_CAPABILITY("mutex") SpinMutex {
 public:
  void lock() TROUPE_ACQUIRE() {
    std::uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) lock_slowly();
  }
  void unlock() TROUPE_RELEASE() {
    if (state_.exchange(kFree, std::memory_order_release) == kContended) state_.notify_one();
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kContended = 2;  ///< held, and somebody may sleep
  static constexpr int kSpins = 64;

  void lock_slowly();

  alignas(64) std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace troupe::engine
