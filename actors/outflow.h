// SPDX-License-Identifier: Apache-2.0
// Outflow: the envelopes for one link. What the link's queue has no room for waits here, in order,
// until it has: a full queue is back-pressure and no fault, nothing is dropped and nothing sent
// twice. It holds handles of what roles hold anyway, and of that no more than they may have under
// way. Any thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "base/mutex.h"
#include "schemas/messages.h"

namespace troupe::actors {

/// See the top of the file.
class Outflow {
 public:
  /// Gives an envelope to the link. False: there is no room, the envelope is as it was, and
  /// drained() will be called.
  using Give = std::function<bool(schemas::Envelope&)>;

  /// Gives on what is posted from now on, and what has been.
  void begin(Give give) {
    const base::MutexLock lock(mutex_);
    give_ = std::move(give);
    run();
  }
  void post(schemas::Envelope envelope) {
    const base::MutexLock lock(mutex_);
    waiting_.push_back(std::move(envelope));
    if (waiting_.size() == 1) run();
  }
  /// The link has room again.
  void drained() {
    const base::MutexLock lock(mutex_);
    run();
  }
  /// Envelopes that wait for room.
  std::size_t waiting() const {
    const base::MutexLock lock(mutex_);
    return waiting_.size();
  }

 private:
  void run() TROUPE_REQUIRES(mutex_) {
    while (give_ && !waiting_.empty() && give_(waiting_.front())) waiting_.pop_front();
  }

  mutable base::Mutex mutex_;
  Give give_ TROUPE_GUARDED_BY(mutex_);
  std::deque<schemas::Envelope> waiting_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::actors
