// SPDX-License-Identifier: Apache-2.0
// People and agents, and who of the people reads nothing.
#include "cluster/linked_peers.h"

#include <utility>
#include <vector>

#include "base/units.h"
#include "trust/certificate.h"

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
  ended_.erase(peer);
}

std::shared_ptr<link::Link> LinkedPeers::find(PeerId peer) const {
  const base::MutexLock lock(mutex_);
  for (const Links* links : {&people_, &agents_}) {
    if (const auto found = links->find(peer); found != links->end()) return found->second;
  }
  return nullptr;
}

std::vector<control::CertificateJudged> LinkedPeers::judge(std::int64_t now) {
  const base::MutexLock lock(mutex_);
  std::vector<control::CertificateJudged> judged;
  for (const Links* links : {&people_, &agents_}) {
    for (const auto& [peer, link] : *links) {
      const std::int64_t until = link->holder_until();
      if (trust::ended({0, until}, now)) {
        ended_.insert(peer);
        judged.push_back(
            {peer, base::error(base::Errc::permission_denied, "its certificate was valid until {}",
                               base::format_date(until))});
      } else if (ended_.erase(peer) > 0) {
        judged.push_back({peer, {}});
      }
    }
  }
  return judged;
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
