// SPDX-License-Identifier: Apache-2.0
// Mutexes whose lock discipline clang checks at compile time (-Wthread-safety, tools/clang.py);
// plain std::mutex and std::shared_mutex elsewhere. No other folder uses those of the standard
// library, which no compiler checks.
#pragma once

#include <condition_variable>
#include <mutex>
#include <shared_mutex>

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
#define TROUPE_ACQUIRE_SHARED(...) TROUPE_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define TROUPE_RELEASE_SHARED(...) TROUPE_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
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

/// Many may read what it guards, or one may write. Non-recursive.
class TROUPE_CAPABILITY("shared_mutex") SharedMutex {
 public:
  void lock() TROUPE_ACQUIRE() { mutex_.lock(); }
  void unlock() TROUPE_RELEASE() { mutex_.unlock(); }
  void lock_shared() TROUPE_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() TROUPE_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

/// Holds a SharedMutex for a scope, to write.
class TROUPE_SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) TROUPE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~WriterLock() TROUPE_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

/// Holds a SharedMutex for a scope, to read.
class TROUPE_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) TROUPE_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() TROUPE_RELEASE() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

/// Waits on a Mutex that the caller holds.
using CondVar = std::condition_variable_any;

}  // namespace troupe::base
