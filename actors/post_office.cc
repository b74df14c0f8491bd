// SPDX-License-Identifier: Apache-2.0
// The table of sinks.
#include "actors/post_office.h"

#include <mutex>

namespace troupe::actors {

void PostOffice::open(const schemas::ActorId& actor, Sink sink) {
  const std::unique_lock lock(mutex_);
  sinks_[actor] = std::make_shared<const Sink>(std::move(sink));
}

void PostOffice::close(const schemas::ActorId& actor) {
  const std::unique_lock lock(mutex_);
  sinks_.erase(actor);
}

void PostOffice::post(schemas::Envelope envelope) const {
  std::shared_ptr<const Sink> sink;
  {
    const std::shared_lock lock(mutex_);
    const auto found = sinks_.find(envelope.to);
    if (found != sinks_.end()) sink = found->second;
  }
  if (sink == nullptr) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  (*sink)(std::move(envelope));
}

}  // namespace troupe::actors
