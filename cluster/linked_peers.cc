// SPDX-License-Identifier: Apache-2.0
// People and agents, and who of the people reads nothing.
#include "cluster/linked_peers.h"

#include <utility>
#include <vector>

namespace troupe::cluster {

using control::PeerId;

PeerId LinkedPeers::add(const std::shared_ptr<link::Link>& link) {
  const base::MutexLock lock(mutex_);
  people_[next_] = link;
  return next_++;
}

void LinkedPeers::remove(PeerId peer) {
  const base::MutexLock lock(mutex_);
  people_.erase(peer);
  agents_.erase(peer);
}

std::shared_ptr<link::Link> LinkedPeers::find(PeerId peer) const {
  const base::MutexLock lock(mutex_);
  for (const Links* links : {&people_, &agents_}) {
    if (const auto found = links->find(peer); found != links->end()) return found->second;
  }
  return nullptr;
}

void LinkedPeers::note_agent(PeerId peer) {
  const base::MutexLock lock(mutex_);
  if (auto known = people_.extract(peer)) agents_.insert(std::move(known));
}

/// Links are asked outside of the lock: they have locks of their own.
std::shared_ptr<link::Link> LinkedPeers::deaf(PeerId peer, std::uint64_t own_max,
                                              std::uint64_t all_max) const {
  const auto asker = find(peer);
  if (asker == nullptr || asker->stats().queued_bytes > own_max) return asker;
  std::vector<std::shared_ptr<link::Link>> people;
  {
    const base::MutexLock lock(mutex_);
    for (const auto& [number, link] : people_) people.push_back(link);
  }
  std::uint64_t all = 0, most = 0;
  std::shared_ptr<link::Link> fullest;
  for (const auto& link : people) {
    const std::uint64_t bytes = link->stats().queued_bytes;
    all += bytes;
    if (bytes <= most) continue;
    most = bytes;
    fullest = link;
  }
  return all > all_max ? fullest : nullptr;
}

}  // namespace troupe::cluster
