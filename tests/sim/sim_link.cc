// SPDX-License-Identifier: Apache-2.0
// Queues, wires and cuts.
#include "tests/sim/sim_link.h"

#include <algorithm>
#include <utility>

namespace troupe::sim {
namespace {

/// A frame without its payload.
constexpr std::uint64_t kHeadBytes = 40;

std::uint64_t bytes_of(const schemas::Envelope& envelope) {
  return kHeadBytes + envelope.payload.size();
}

}  // namespace

SimLink::SimLink(const LinkShape& shape, SimLinkPorts ports, bool drops_when_full)
    : shape_(shape), ports_(std::move(ports)), drops_when_full_(drops_when_full) {}

void SimLink::begin() {
  for (std::size_t way = 0; way < 2; ++way) {
    ways_[way].outflow.begin([weak = weak_from_this(), way](schemas::Envelope& envelope) {
      const auto self = weak.lock();
      return self && self->give(way, envelope);
    });
  }
}

void SimLink::post(std::size_t way, schemas::Envelope envelope) {
  const Way& on = ways_[way];
  const bool full =
      on.queued_bytes > 0 && on.queued_bytes + bytes_of(envelope) > shape_.queue_bytes;
  if (drops_when_full_ && full) return;
  ways_[way].outflow.post(std::move(envelope));
}

/// Into the queue, if there is room. Messages of one slice arrive in order.
bool SimLink::give(std::size_t way, schemas::Envelope& envelope) {
  Way& on = ways_[way];
  const std::uint64_t bytes = bytes_of(envelope);
  if (on.queued_bytes > 0 && on.queued_bytes + bytes > shape_.queue_bytes) return false;
  on.queued_bytes += bytes;
  const std::uint64_t now_us = ports_.now_us();
  const std::uint64_t wire_us = shape_.bytes_per_ms == 0 ? 0 : bytes * 1'000 / shape_.bytes_per_ms;
  on.free_us = std::max(on.free_us, now_us) + wire_us;
  std::uint64_t arrival_us = on.free_us + ports_.delay(envelope);
  if (const auto slice = schemas::slice_of(envelope.message)) {
    std::uint64_t& last_us = on.behind[*slice];
    last_us = arrival_us = std::max(arrival_us, last_us);
  }
  const std::uint64_t number = ++numbers_;
  on.under_way.emplace(number, std::move(envelope));
  ports_.at(arrival_us - now_us,
            [self = shared_from_this(), way, number] { self->arrive(way, number); });
  return true;
}

void SimLink::arrive(std::size_t way, std::uint64_t number) {
  Way& on = ways_[way];
  const auto found = on.under_way.find(number);
  if (found == on.under_way.end()) return;  // lost
  if (down_) return on.late.push_back(number);
  const schemas::Envelope envelope = std::move(found->second);
  on.under_way.erase(found);
  on.queued_bytes -= bytes_of(envelope);
  ports_.deliver(envelope);
  on.outflow.drained();
}

void SimLink::cut(const std::function<bool()>& loses) {
  down_ = true;
  for (Way& on : ways_) {
    for (auto at = on.under_way.begin(); at != on.under_way.end();) {
      if (!loses()) {
        ++at;
        continue;
      }
      on.queued_bytes -= bytes_of(at->second);
      ports_.lost(at->second);
      at = on.under_way.erase(at);
    }
  }
}

void SimLink::resume() {
  down_ = false;
  for (std::size_t way = 0; way < 2; ++way) {
    for (const std::uint64_t number : std::exchange(ways_[way].late, {})) {
      ports_.at(0, [self = shared_from_this(), way, number] { self->arrive(way, number); });
    }
    ways_[way].outflow.drained();
  }
}

}  // namespace troupe::sim
