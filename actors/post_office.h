// SPDX-License-Identifier: Apache-2.0
// PostOffice: where the envelopes of one job go in this process: to actors that live here, or to
// proxies that write to a link. Senders do not know the difference. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>

#include "base/mutex.h"
#include "schemas/messages.h"

namespace troupe::actors {

/// Takes an envelope; any thread. It only queues: a sink calls no function of the post office,
/// which is locked meanwhile.
using Sink = std::function<void(schemas::Envelope)>;

/// Routes by addressee.
class PostOffice {
 public:
  /// Envelopes for `actor` go to `sink` from now on; replaces an earlier one.
  void open(const schemas::ActorId& actor, Sink sink);
  /// Envelopes for `actor` are dropped from now on. Afterwards its sink is not running and never
  /// called again: what it refers to may go.
  void close(const schemas::ActorId& actor);
  /// Hands over, or drops and counts: whoever needs an answer repeats its envelope.
  void post(schemas::Envelope envelope) const;
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  mutable base::SharedMutex mutex_;
  std::map<schemas::ActorId, Sink> sinks_ TROUPE_GUARDED_BY(mutex_);
  mutable std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace troupe::actors
