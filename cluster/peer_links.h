// SPDX-License-Identifier: Apache-2.0
// PeerLinks: the links of a job's process to the other processes of its job: who may have one and
// what may come over it. The only way of peers' envelopes into the post office. The coordinator
// speaks over the agent's socket alone, never here. Any thread; outlives the LinkSet whose links it
// serves.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "actors/post_office.h"
#include "base/mutex.h"
#include "base/status.h"
#include "link/link_set.h"
#include "schemas/messages.h"

namespace troupe::cluster {

/// How many processes of each kind a job has, and which is special.
struct JobSize {
  std::uint32_t machines = 0;     ///< each with one device server
  std::uint32_t shards = 0;       ///< parameter servers
  std::uint32_t first_shard = 0;  ///< the one that writes the manifests; the others report to it
};

/// See the top of the file. Each peer has one link at a time, and envelopes for it go there. A peer
/// that breaks the protocol loses its link, with one log line; whether the job goes on without it
/// is decided where the peer is known: by its own process, which loses a peer, too, or by its
/// agent.
class PeerLinks {
 public:
  /// Hears what the process cannot go on without: a message that cannot be sent, or a peer, and
  /// which one that was.
  using Failed = std::function<void(base::Status, std::optional<schemas::ActorId> lost)>;

  /// Hears of peers whose link was cut and has healed: what they have not answered may be lost.
  using Resumed = std::function<void(const schemas::ActorId& peer)>;

  PeerLinks(schemas::ActorId self, JobSize size, actors::PostOffice& post_office, Resumed resumed,
            Failed failed);

  /// Decides about a peer that has said Hello as `peer`; see link::Acceptor. Lower tiers dial upper
  /// ones: a parameter server takes device servers, and the first one all other parameter servers.
  /// Errors: permission_denied (nobody of the job who dials this process), already_exists (it has a
  /// link), permission_denied too where place() has told another machine.
  base::Result<std::shared_ptr<link::LinkHandler>> accept(const schemas::ActorId& peer,
                                                          const std::shared_ptr<link::Link>& link);
  /// Tells on which machines the actors are. A peer of another one, which a certificate shows, is
  /// none of them: its link ends, and none is accepted from now on. Peers may have come before.
  void place(const schemas::Placement& placement);
  /// Dials `options.peer` out of `links`. Errors: those of LinkSet::dial, already_exists.
  base::Status dial(link::LinkSet& links, link::DialOptions options);

 private:
  class Handler;

  base::Status check_machine(const schemas::ActorId& peer, const link::Link& link) const
      TROUPE_REQUIRES(mutex_);
  base::Result<std::shared_ptr<Handler>> take_place(const schemas::ActorId& peer,
                                                    const std::shared_ptr<link::Link>& from);
  void open(const Handler& handler, const schemas::ActorId& peer,
            const std::shared_ptr<link::Link>& link);
  void down(const Handler& handler, const schemas::ActorId& peer, const base::Status& reason);

  const schemas::ActorId self_;
  const JobSize size_;
  actors::PostOffice& post_office_;
  const Resumed resumed_;
  const Failed failed_;
  base::Mutex mutex_;
  std::map<schemas::ActorId, const Handler*> places_ TROUPE_GUARDED_BY(mutex_);
  std::map<schemas::ActorId, std::weak_ptr<link::Link>> accepted_ TROUPE_GUARDED_BY(mutex_);
  std::optional<schemas::Placement> placement_ TROUPE_GUARDED_BY(mutex_);
};

/// What `peer` may send to other processes of its job: what workers and servers say to each other,
/// in its own name, and to an actor that is no coordinator. Error: data_loss.
base::Status check_peer_envelope(const schemas::ActorId& peer, const schemas::Envelope& envelope);

}  // namespace troupe::cluster
