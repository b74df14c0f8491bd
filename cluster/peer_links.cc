// SPDX-License-Identifier: Apache-2.0
// One place for each peer; a handler that gives up its own place and nobody else's.
#include "cluster/peer_links.h"

#include <utility>
#include <variant>
#include <vector>

#include "actors/outflow.h"
#include "base/log.h"
#include "base/units.h"
#include "schemas/message_families.h"

namespace troupe::cluster {

using base::Errc;
using schemas::ActorId;
using schemas::Role;

namespace {

/// Keys used first in the next forward pass go first.
std::int32_t priority_of(const schemas::Message& message) {
  const auto slice = schemas::slice_of(message);
  return slice ? -static_cast<std::int32_t>(slice->key) : 0;
}

/// Messages between a job's processes. All else goes through agents.
bool for_peers(const schemas::Message& message) {
  return std::visit(
      [](const auto& m) {
        using T = std::decay_t<decltype(m)>;
        return schemas::DataMessage<T> || std::is_same_v<T, schemas::CheckpointReport>;
      },
      message);
}

}  // namespace

base::Status check_peer_envelope(const ActorId& peer, const schemas::Envelope& envelope) {
  const std::string_view name = schemas::message_name(envelope.message.index());
  if (envelope.from != peer) {
    return base::error(Errc::data_loss, "[peer] {} sends a {} in the name of {}", peer.to_string(),
                       name, envelope.from.to_string());
  }
  // A worker speaks with the device server of its own process alone.
  const bool to_server =
      envelope.to.role == Role::device_server || envelope.to.role == Role::parameter_server;
  if (to_server && for_peers(envelope.message)) return {};
  return base::error(Errc::data_loss, "[peer] {} sends a {} to {}", peer.to_string(), name,
                     envelope.to.to_string());
}

/// One link.
class PeerLinks::Handler final : public link::LinkHandler {
 public:
  Handler(PeerLinks& owner, ActorId peer) : owner_(owner), peer_(peer) {}
  const std::shared_ptr<actors::Outflow>& outflow() const { return outflow_; }
  base::Status allow(const schemas::Envelope& envelope) override {
    return check_peer_envelope(peer_, envelope);
  }
  void on_envelope(schemas::Envelope envelope) override {
    owner_.post_office_.post(std::move(envelope));
  }
  void on_resumed() override { owner_.resumed_(peer_); }
  void on_drained() override { outflow_->drained(); }
  void on_down(const base::Status& reason) override { owner_.down(*this, peer_, reason); }

 private:
  PeerLinks& owner_;
  const ActorId peer_;
  const std::shared_ptr<actors::Outflow> outflow_ = std::make_shared<actors::Outflow>();
};

PeerLinks::PeerLinks(ActorId self, JobSize size, actors::PostOffice& post_office, Resumed resumed,
                     Failed failed)
    : self_(self),
      size_(size),
      post_office_(post_office),
      resumed_(std::move(resumed)),
      failed_(std::move(failed)) {}

base::Result<std::shared_ptr<link::LinkHandler>> PeerLinks::accept(
    const ActorId& peer, const std::shared_ptr<link::Link>& link) {
  const bool serves = self_.role == Role::parameter_server;
  const bool device_server = peer.role == Role::device_server && peer.index < size_.machines;
  const bool server = peer.role == Role::parameter_server && peer.index < size_.shards &&
                      self_.index == size_.first_shard && peer.index != self_.index;
  if (!serves || !(device_server || server)) {
    return base::error(Errc::permission_denied, "[peer] {} of a job of {} and {} does not serve {}",
                       self_.to_string(), base::format_counted(size_.machines, "machine"),
                       base::format_counted(size_.shards, "shard"), peer.to_string());
  }
  TROUPE_TRY_ASSIGN(auto handler, take_place(peer, link));
  open(*handler, peer, link);
  return std::shared_ptr<link::LinkHandler>(std::move(handler));
}

void PeerLinks::place(const schemas::Placement& placement) {
  std::vector<std::pair<std::shared_ptr<link::Link>, base::Status>> wrong;
  {
    const base::MutexLock lock(mutex_);
    placement_ = placement;
    for (const auto& [peer, held] : accepted_) {
      const auto link = held.lock();
      if (link == nullptr) continue;
      if (const base::Status status = check_machine(peer, *link); !status.ok()) {
        wrong.emplace_back(link, status);
      }
    }
  }
  for (const auto& [link, status] : wrong) link->abort(status);  // which may call down()
}

base::Status PeerLinks::check_machine(const ActorId& peer, const link::Link& link) const {
  if (!placement_) return {};
  const auto machine = placement_->machine_of(peer);
  const std::string name = link.peer().name;
  if (machine && placement_->machines.at(*machine) == name) return {};
  return base::error(Errc::permission_denied, "[peer] {} is not on machine '{}'", peer.to_string(),
                     name);
}

base::Status PeerLinks::dial(link::LinkSet& links, link::DialOptions options) {
  const ActorId peer = options.peer.actor;
  TROUPE_TRY_ASSIGN(const auto handler, take_place(peer, nullptr));
  const auto link = links.dial(std::move(options), handler);
  if (!link.ok()) {
    const base::MutexLock lock(mutex_);
    places_.erase(peer);
    return link.status();
  }
  open(*handler, peer, *link);
  return {};
}

base::Result<std::shared_ptr<PeerLinks::Handler>> PeerLinks::take_place(
    const ActorId& peer, const std::shared_ptr<link::Link>& from) {
  auto handler = std::make_shared<Handler>(*this, peer);
  const base::MutexLock lock(mutex_);
  if (from != nullptr) TROUPE_TRY(check_machine(peer, *from));
  if (!places_.emplace(peer, handler.get()).second) {
    return base::error(Errc::already_exists, "[peer] {} has a link with {} already",
                       self_.to_string(), peer.to_string());
  }
  if (from != nullptr) accepted_[peer] = from;
  return handler;
}

/// A link that was dialed may be down before its envelopes can go there.
void PeerLinks::open(const Handler& handler, const ActorId& peer,
                     const std::shared_ptr<link::Link>& link) {
  const base::MutexLock lock(mutex_);
  const auto place = places_.find(peer);
  if (place == places_.end() || place->second != &handler) return;
  handler.outflow()->begin([this, peer, link](schemas::Envelope& envelope) {
    if (!link->has_room()) return false;
    const std::int32_t priority = priority_of(envelope.message);
    const base::Status status = link->send(std::move(envelope), priority);
    // No repetition makes it fit. A link that is down has told its handler.
    if (status.code() == Errc::invalid_argument) {
      failed_(status.with_context("cannot send to " + peer.to_string()), std::nullopt);
    }
    return true;
  });
  post_office_.open(peer, [outflow = handler.outflow()](schemas::Envelope envelope) {
    outflow->post(std::move(envelope));
  });
}

void PeerLinks::down(const Handler& handler, const ActorId& peer, const base::Status& reason) {
  {
    const base::MutexLock lock(mutex_);
    const auto place = places_.find(peer);
    if (place != places_.end() && place->second == &handler) {
      places_.erase(place);
      accepted_.erase(peer);
      post_office_.close(peer);
    }
  }
  if (reason.ok()) return;  // after a Goodbye the peer had nothing more to say
  if (reason.code() == Errc::data_loss) return base::log_warn("{}", reason.text());
  failed_(base::error(Errc::unavailable, "lost {}: {}", peer.to_string(), reason.text()), peer);
}

}  // namespace troupe::cluster
