// SPDX-License-Identifier: Apache-2.0
// Backlog: bounds what an actor has been told and has not handled yet. Mailboxes have no bound of
// their own: without it a peer that floods a link would fill the memory of whoever reads slowly.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "base/mutex.h"

namespace troupe::actors {

/// See the top of the file. Any thread.
class Backlog {
 public:
  explicit Backlog(std::size_t most) : most_(most) {}

  /// One more is told; waits while there are `most`. Not from the actor, which would wait for
  /// itself, and never once it has ended.
  void enter() {
    const base::MutexLock lock(mutex_);
    handled_.wait(mutex_, [this]() TROUPE_REQUIRES(mutex_) { return waiting_ < most_; });
    ++waiting_;
  }
  /// The actor has handled one.
  void leave() {
    {
      const base::MutexLock lock(mutex_);
      TROUPE_CHECK(waiting_ > 0, "what is handled was told");
      --waiting_;
    }
    handled_.notify_one();
  }

 private:
  const std::size_t most_;
  base::Mutex mutex_;
  base::CondVar handled_;
  std::size_t waiting_ TROUPE_GUARDED_BY(mutex_) = 0;
};

/// Messages of links that an actor of the control plane has not handled: enough for a burst; each
/// may be as large as limits.control_header_bytes_max.
inline constexpr std::size_t kUnhandledMax = 64;

}  // namespace troupe::actors
