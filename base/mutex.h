// SPDX-License-Identifier: Apache-2.0
// A mutex whose lock discipline clang checks at compile time (-Wthread-safety); plain std::mutex
// elsewhere.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TROUPE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TROUPE_THREAD_ANNOTATION(x)
#endif
#define TROUPE_CAPABILITY(x) TROUPE_THREAD_ANNOTATION(capability(x))
#define TROUPE_SCOPED_CAPABILITY TROUPE_THREAD_ANNOTATION(scoped_lockable)
#define TROUPE_GUARDED_BY(x) TROUPE_THREAD_ANNOTATION(guarded_by(x))
#define TROUPE_REQUIRES(...) TROUPE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define TROUPE_ACQUIRE(...) TROUPE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TROUPE_RELEASE(...) TROUPE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TROUPE_EXCLUDES(...) TROUPE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace troupe::base {

/// Non-recursive mutex; satisfies BasicLockable, so condition_variable_any waits on it.
class TROUPE_CAPABILITY("mutex") Mutex {
 public:
  void lock() TROUPE_ACQUIRE() { mutex_.lock(); }
  void unlock() TROUPE_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class TROUPE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TROUPE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() TROUPE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits on a Mutex that the caller holds.
using CondVar = std::condition_variable_any;

}  // namespace troupe::base
