// SPDX-License-Identifier: Apache-2.0
// The table of sinks.
#include "actors/post_office.h"

#include <utility>

namespace troupe::actors {

void PostOffice::open(const schemas::ActorId& actor, Sink sink) {
  // What a sink holds is let go outside of the lock, here and in close().
  const base::WriterLock lock(mutex_);
  std::swap(sinks_[actor], sink);
}

void PostOffice::close(const schemas::ActorId& actor) {
  std::map<schemas::ActorId, Sink>::node_type closed;
  const base::WriterLock lock(mutex_);
  closed = sinks_.extract(actor);
}

void PostOffice::post(schemas::Envelope envelope) const {
  const base::ReaderLock lock(mutex_);
  const auto found = sinks_.find(envelope.to);
  if (found == sinks_.end()) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  found->second(std::move(envelope));
}

}  // namespace troupe::actors
