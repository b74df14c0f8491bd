// SPDX-License-Identifier: Apache-2.0
// Reading figures off events and effects.
#include "actors/server_figures.h"

#include <algorithm>

#include "actors/outbox.h"

namespace troupe::actors {

using schemas::Envelope;
using schemas::PushResult;
using schemas::Role;

namespace {

std::map<schemas::SliceId, std::size_t> slices_of(const JobPlan& plan, std::uint32_t shard) {
  std::map<schemas::SliceId, std::size_t> index;
  for (const store::SliceInfo& slice : plan.layout.slices()) {
    if (slice.shard == shard) index.emplace(slice.id, index.size());
  }
  return index;
}

}  // namespace

DeviceFigures::DeviceFigures(const JobPlan& plan, std::uint32_t machine, FigureSinks sinks)
    : plan_(plan),
      machine_(machine),
      sinks_(std::move(sinks)),
      version_(plan.layout.slices().size()) {}

void DeviceFigures::tell(Spent::What what, std::int64_t ns) const {
  if (sinks_.spent) sinks_.spent({what, ns});
}

void DeviceFigures::arriving(const ServerEvent& event, std::int64_t now_ns) {
  const auto* received = std::get_if<Received>(&event);
  if (received != nullptr && received->envelope.generation == plan_.generation) {
    arrived(received->envelope, now_ns);
  }
}

void DeviceFigures::arrived(const Envelope& envelope, std::int64_t now_ns) {
  if (const auto* placement = std::get_if<schemas::Placement>(&envelope.message)) {
    for (std::uint32_t rank = 0; rank < placement->machine_of_rank.size(); ++rank) {
      if (placement->machine_of_rank[rank] == machine_) ranks_.insert(rank);
    }
  } else if (const auto* push = std::get_if<schemas::GradientPush>(&envelope.message)) {
    pushed(envelope, *push, now_ns);
  } else if (const auto* pull = std::get_if<schemas::WeightPull>(&envelope.message)) {
    Pull& last = pulls_[{pull->slice, envelope.from.index}];
    // A step that has been answered, or an earlier one, is an echo.
    if (pull->step > last.step) last = {pull->step, now_ns};
  } else if (const auto* ack = std::get_if<schemas::PushAck>(&envelope.message)) {
    if (settles(ack->result)) owner_pushes_.erase(schemas::push_name(*ack, machine_));
  } else if (const auto* reply = std::get_if<schemas::WeightReply>(&envelope.message)) {
    ++counters_.owner_replies;
    counters_.owner_reply_bytes += envelope.payload.size();
    if (reply->code != base::Errc::ok) return;
    if (!plan_.layout.contains(reply->slice)) return;
    std::uint64_t& held = held_bytes_[reply->slice];
    store_bytes_ += envelope.payload.size() - held;
    held = envelope.payload.size();
    version_.set(plan_.layout.position(reply->slice), reply->version);
  }
}

void DeviceFigures::pushed(const Envelope& envelope, const schemas::GradientPush& push,
                           std::int64_t now_ns) {
  const bool is_new = pushes_
                          .try_emplace({{push.slice, envelope.from.index}, push.step},
                                       Push{now_ns, envelope.payload.size()})
                          .second;
  // Where ranks go in lock step, all push a slice of one step before any of the next.
  const bool lock_step = plan_.spec.consistency.device.mode == schemas::ConsistencyMode::sequential;
  if (!is_new || !lock_step) return;
  PushRound& round = rounds_[push.slice];
  if (round.step != push.step) round = {push.step};
  round.add(now_ns);
  if (round.pushes == ranks_.size()) tell(Spent::What::round, round.spread_ns());
}

void DeviceFigures::leaving(const std::vector<DeviceEffect>& effects, std::int64_t now_ns) {
  for (const DeviceEffect& effect : effects) {
    if (const auto* send = std::get_if<Send>(&effect)) left(send->envelope, now_ns);
    if (std::holds_alternative<Add>(effect)) ++counters_.additions;
  }
}

void DeviceFigures::left(const Envelope& envelope, std::int64_t now_ns) {
  if (const auto* push = std::get_if<schemas::GradientPush>(&envelope.message)) {
    if (!owner_pushes_.insert(schemas::push_name(*push, machine_)).second) return;
    ++counters_.owner_pushes;
    counters_.owner_push_bytes += envelope.payload.size();
  } else if (const auto* ack = std::get_if<schemas::PushAck>(&envelope.message)) {
    answered(envelope.to.index, *ack, now_ns);
  } else if (const auto* reply = std::get_if<schemas::WeightReply>(&envelope.message)) {
    handed(envelope, *reply, now_ns);
  }
}

void DeviceFigures::answered(std::uint32_t rank, const schemas::PushAck& ack, std::int64_t now_ns) {
  const auto push = pushes_.find({{ack.slice, rank}, ack.step});
  if (push == pushes_.end()) return;  // the answer to a question about a push of the past
  if (ack.result == PushResult::taken) {
    ++counters_.worker_pushes;
    counters_.worker_push_bytes += push->second.bytes;
  } else {
    ++counters_.worker_duplicates;
  }
  tell(Spent::What::push, now_ns - push->second.since_ns);
  pushes_.erase(push);
}

void DeviceFigures::handed(const Envelope& envelope, const schemas::WeightReply& reply,
                           std::int64_t now_ns) {
  ++counters_.worker_replies;
  counters_.worker_reply_bytes += envelope.payload.size();
  std::uint64_t own = reply.step;
  std::uint64_t all = reply.step;
  for (std::uint32_t rank = 0; rank < reply.next.size(); ++rank) {
    all = std::min(all, reply.next[rank]);
    if (ranks_.contains(rank)) own = std::min(own, reply.next[rank]);
  }
  if (sinks_.staleness) {
    sinks_.staleness({1, reply.step - own});
    sinks_.staleness({2, reply.step - all});
  }
  Pull& pull = pulls_[{reply.slice, envelope.to.index}];
  if (pull.step == reply.step && pull.since_ns) {
    tell(Spent::What::pull, now_ns - *pull.since_ns);
    pull.since_ns.reset();
  }
}

ServerHoldings DeviceFigures::holdings() const {
  ServerHoldings holdings;
  holdings.pending_pushes = pushes_.size();
  holdings.keys = plan_.keys.size();
  holdings.store_bytes = store_bytes_;
  holdings.version = version_.lowest();
  return holdings;
}

ParameterFigures::ParameterFigures(const JobPlan& plan, std::uint32_t shard, FigureSinks sinks)
    : plan_(plan),
      sinks_(std::move(sinks)),
      index_(slices_of(plan, shard)),
      version_(index_.size()) {
  std::set<std::uint32_t> keys;
  for (const auto& [slice, index] : index_) keys.insert(slice.key);
  keys_ = keys.size();
}

void ParameterFigures::tell(Spent::What what, std::int64_t ns) const {
  if (sinks_.spent) sinks_.spent({what, ns});
}

void ParameterFigures::arriving(const ServerEvent& event, std::int64_t now_ns) {
  if (const auto* received = std::get_if<Received>(&event)) {
    if (received->envelope.generation == plan_.generation) arrived(received->envelope, now_ns);
  } else if (const auto* done = std::get_if<EffectDone>(&event)) {
    ended(*done);
  }
}

void ParameterFigures::ended(const EffectDone& done) {
  if (const auto* first = std::get_if<store::SliceState>(&done.result)) {
    store_bytes_ += first->values.weight.size();
    for (const base::Buffer& slot : first->values.slots) store_bytes_ += slot.size();
    store_bytes_ += first->values.rounded.size();
  }
  if (std::holds_alternative<store::SliceValues>(done.result)) ++counters_.updates;
  const auto found = running_.find(done.id);
  if (found == running_.end()) return;
  const auto& [slice, version] = found->second;
  if (done.status.ok()) version_.set(slice, version);
  running_.erase(found);
}

void ParameterFigures::arrived(const Envelope& envelope, std::int64_t now_ns) {
  if (const auto* push = std::get_if<schemas::GradientPush>(&envelope.message)) {
    pushes_.try_emplace(schemas::push_name(*push, envelope.from.index),
                        Push{now_ns, envelope.payload.size()});
  } else if (const auto* pull = std::get_if<schemas::WeightPull>(&envelope.message)) {
    const auto [entry, first] = pulls_.try_emplace({envelope.from.index, pull->slice});
    if (first || entry->second.name != *pull) entry->second = {*pull, now_ns, false};
  }
}

void ParameterFigures::leaving(const std::vector<ParameterEffect>& effects, std::int64_t now_ns) {
  for (const ParameterEffect& effect : effects) {
    if (const auto* send = std::get_if<Send>(&effect)) left(send->envelope, now_ns);
    if (std::holds_alternative<Add>(effect)) ++counters_.additions;
    if (const auto* update = std::get_if<Update>(&effect)) updating(*update);
    if (const auto* init = std::get_if<InitSlice>(&effect)) {
      running_[init->id] = {index_.at(init->slice), init->step};
    }
  }
}

void ParameterFigures::left(const Envelope& envelope, std::int64_t now_ns) {
  if (const auto* ack = std::get_if<schemas::PushAck>(&envelope.message)) {
    answered(envelope.to.index, *ack, now_ns);
  } else if (const auto* reply = std::get_if<schemas::WeightReply>(&envelope.message)) {
    ++counters_.replies;
    counters_.reply_bytes += envelope.payload.size();
    replied(envelope.to.index, *reply, now_ns);
    const auto index = index_.find(reply->slice);
    if (reply->code == base::Errc::ok && index != index_.end()) {
      version_.set(index->second, reply->version);
    }
  }
}

void ParameterFigures::answered(std::uint32_t machine, const schemas::PushAck& ack,
                                std::int64_t now_ns) {
  const auto push = pushes_.find(schemas::push_name(ack, machine));
  if (push == pushes_.end()) return;  // the answer to a question about a push of the past
  switch (ack.result) {
    case PushResult::taken:
      ++counters_.pushes;
      counters_.push_bytes += push->second.bytes;
      rounds_[ack.slice].add(now_ns);
      break;
    case PushResult::duplicate:
      ++counters_.duplicates;
      break;
    case PushResult::not_ready:
    case PushResult::stale_view:
    case PushResult::unknown:
      ++counters_.not_ready;
      break;
  }
  tell(Spent::What::push, now_ns - push->second.since_ns);
  pushes_.erase(push);
}

/// A reply names slice and step of its pull.
void ParameterFigures::replied(std::uint32_t machine, const schemas::WeightReply& reply,
                               std::int64_t now_ns) {
  const auto found = pulls_.find({machine, reply.slice});
  if (found == pulls_.end() || found->second.answered || found->second.name.step != reply.step)
    return;
  tell(Spent::What::pull, now_ns - found->second.since_ns);
  found->second.answered = true;
}

void ParameterFigures::updating(const Update& update) {
  running_[update.id] = {index_.at(update.slice), update.update.from.version + 1};
  const bool lock_step =
      plan_.spec.consistency.cluster.mode == schemas::ConsistencyMode::sequential;
  if (!lock_step) return;
  PushRound& round = rounds_[update.slice];
  tell(Spent::What::round, round.spread_ns());
  round = {};
}

ServerHoldings ParameterFigures::holdings() const {
  return {pushes_.size(), keys_, store_bytes_, version_.lowest()};
}

}  // namespace troupe::actors
