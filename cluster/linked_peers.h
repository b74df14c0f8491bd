// SPDX-License-Identifier: Apache-2.0
// LinkedPeers: who is linked with a coordinator, by number: links come and go on their own thread,
// the coordinator speaks to them on its own. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "control/control_events.h"
#include "link/link.h"

namespace troupe::cluster {

/// See the top of the file. Whoever is not known as an agent is a person.
class LinkedPeers {
 public:
  control::PeerId add(const std::shared_ptr<link::Link>& link);
  void remove(control::PeerId peer);
  /// Null when it is gone.
  std::shared_ptr<link::Link> find(control::PeerId peer) const;
  /// Whose certificate has ended at `now` (Unix seconds), and once whose holds again, because the
  /// peer has shown a renewed one.
  std::vector<control::CertificateJudged> judge(std::int64_t now);
  /// The coordinator has taken it in.
  void note_agent(control::PeerId peer);
  /// Who reads no answers and is to lose its link before `peer`, which has asked, is sent another
  /// one: `peer` itself when more than `own_max` bytes wait for it; else, when more than `all_max`
  /// wait for all people together, who of them has most. Null: nobody. What waits for agents is
  /// work that they have not asked for.
  std::shared_ptr<link::Link> deaf(control::PeerId peer, std::uint64_t own_max,
                                   std::uint64_t all_max) const;

 private:
  using Links = std::map<control::PeerId, std::shared_ptr<link::Link>>;

  mutable base::Mutex mutex_;
  Links people_ TROUPE_GUARDED_BY(mutex_);
  Links agents_ TROUPE_GUARDED_BY(mutex_);
  std::set<control::PeerId> ended_ TROUPE_GUARDED_BY(mutex_);  // as last judged
  control::PeerId next_ TROUPE_GUARDED_BY(mutex_) = 1;
};

}  // namespace troupe::cluster
