// SPDX-License-Identifier: Apache-2.0
// Routing between machines, the owners of a shard's slices and its checkpoints.
#include "actors/parameter_server_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace troupe::actors {

using base::Errc;
using schemas::Envelope;
using schemas::PushResult;
using schemas::Role;

ParameterServerState::ParameterServerState(const JobPlan& plan, std::uint32_t shard)
    : mail_(plan, {Role::parameter_server, shard}), shard_(shard) {}

std::vector<Effect> ParameterServerState::handle(Event event, std::int64_t now_ns) {
  mail_.set_event_ns(now_ns);
  if (auto* received = std::get_if<Received>(&event)) {
    receive(std::move(received->envelope));
  } else if (auto* done = std::get_if<EffectDone>(&event)) {
    if (!mail_.ended()) effect_done(*done);
  } else if (const auto* time = std::get_if<Tick>(&event)) {
    tick(time->now_ms);
  } else {
    TROUPE_CHECK(false, "an event of a worker at a parameter server");
  }
  return mail_.take_effects();
}

void ParameterServerState::receive(Envelope envelope) {
  switch (mail_.judge(envelope)) {
    case Mail::Verdict::done:
      return;
    case Mail::Verdict::take:
      return take(envelope);
    case Mail::Verdict::opened:
      open();
      break;
    case Mail::Verdict::moved:
      break;
  }
  while (auto parked = mail_.parked()) receive(std::move(*parked));
}

void ParameterServerState::open() {
  const auto slices = mail_.plan().layout.slices();
  progress_ms_ = mail_.now_ms();
  for (std::size_t position = 0; position < slices.size(); ++position) {
    if (slices[position].shard != shard_) continue;
    const schemas::SliceId id = slices[position].id;
    index_[id] = slices_.size();
    const EffectId effect = mail_.next_id();
    running_[effect] = {slices_.size(), 0};
    slices_.push_back({position, store::SliceOwner(mail_.rules(), id)});
    mail_.emit(InitSlice{effect, id, mail_.rules().steps.start});
  }
  std::set<std::uint32_t> keys;
  for (const auto& [id, index] : index_) keys.insert(id.key);
  keys_ = keys.size();
  version_.reset(slices_.size());
  checkpoints_.emplace(mail_, shard_, slices_.size());
}

void ParameterServerState::take(Envelope& envelope) {
  if (auto* push = std::get_if<schemas::GradientPush>(&envelope.message)) {
    take_push(envelope, *push);
  } else if (const auto* pull = std::get_if<schemas::WeightPull>(&envelope.message)) {
    take_pull(envelope, *pull);
  } else if (const auto* finished = std::get_if<schemas::Finished>(&envelope.message)) {
    take_finished(*finished);
  } else if (const auto* file = std::get_if<schemas::ShardCheckpoint>(&envelope.message)) {
    checkpoints_->take(*file);
  } else if (const auto* report = std::get_if<schemas::CheckpointReport>(&envelope.message)) {
    const base::Status status = checkpoints_->take(*report);
    if (!status.ok()) return mail_.fail(status);
    ++progress_;
    for (std::size_t index = 0; index < slices_.size(); ++index) pump(index);
    finish_if_done();
  }
}

const store::SliceInfo& ParameterServerState::info(const Owned& owned) const {
  return mail_.plan().layout.slices()[owned.position];
}

/// The slice's index here; a peer that asks the wrong shard has another plan, which ends the job.
std::optional<std::size_t> ParameterServerState::own(const schemas::SliceId& slice) {
  const auto found = index_.find(slice);
  if (found != index_.end()) return found->second;
  mail_.fail(base::error(Errc::invalid_argument,
                         "[parameter server {}] slice ({}, {}) does not belong to this shard",
                         shard_, slice.key, slice.slice));
  return std::nullopt;
}

void ParameterServerState::take_push(Envelope& envelope, schemas::GradientPush& push) {
  const auto index = own(push.slice);
  if (!index) return;
  Owned& owned = slices_[*index];
  const std::size_t bytes = envelope.payload.size();
  const bool nothing = bytes == 0 && push.count == 0.0;
  if (bytes != info(owned).bytes && !nothing) {
    return mail_.fail(base::error(
        Errc::data_loss, "push of {} for slice ({}, {}) has {} bytes instead of {}",
        envelope.from.to_string(), push.slice.key, push.slice.slice, bytes, info(owned).bytes));
  }
  const schemas::PushName name = schemas::push_name(push, envelope.from.index);
  store::SlicePush contribution{
      envelope.from.index,        push.node, push.step, push.count, std::move(push.contributions),
      std::move(envelope.payload)};
  contribution.abstains = push.abstains;
  const auto result = owned.owner.push(std::move(contribution));
  if (!result.ok()) return mail_.fail(result.status());
  const std::optional<PushResult>& verdict = *result;
  if (verdict == PushResult::duplicate) ++counters_.duplicates;
  if (verdict == PushResult::not_ready) ++counters_.not_ready;
  if (verdict == PushResult::taken) {
    ++progress_;
    ++counters_.pushes;
    counters_.push_bytes += bytes;
    owned.round.add(mail_.event_ns());
  }
  if (verdict) {
    mail_.emit(Spent{Spent::What::push, 0});
    mail_.send(envelope.from, schemas::PushAck{push.slice, push.node, push.step, *verdict});
  } else {
    owned.pushes.open(name, mail_.event_ns());
  }
  pump(*index);
}

void ParameterServerState::take_pull(const Envelope& envelope, const schemas::WeightPull& pull) {
  const auto index = own(pull.slice);
  if (!index) return;
  Owned& owned = slices_[*index];
  if (owned.pulls.size() < kPullsWaitingMax) {
    owned.pulls.try_emplace({envelope.from.index, pull}, mail_.event_ns());
  }
  answer_pulls(*index);
}

void ParameterServerState::take_finished(const schemas::Finished& finished) {
  for (const std::uint32_t rank : finished.ranks) {
    if (rank >= mail_.rules().tree.ranks() || !finished_.insert(rank).second) continue;
    for (Owned& owned : slices_) owned.owner.finish(rank, finished.steps);
  }
  for (std::size_t index = 0; index < slices_.size(); ++index) pump(index);
  finish_if_done();
}

void ParameterServerState::effect_done(EffectDone& done) {
  if (checkpoints_ && checkpoints_->effect_done(done)) return;
  const auto found = running_.find(done.id);
  TROUPE_CHECK(found != running_.end(), "an effect ends that was never given");
  const Work work = found->second;
  running_.erase(found);
  Owned& owned = slices_[work.slice];
  if (!done.status.ok()) {
    const schemas::SliceId id = info(owned).id;
    return mail_.fail(done.status.with_context(fmt::format(
        "key '{}' slice {} version {} on parameter server {}", mail_.plan().keys[id.key].name,
        id.slice, owned.owner.state().version, shard_)));
  }
  ++progress_;
  if (auto* first = std::get_if<store::SliceState>(&done.result)) {
    store_bytes_ += first->values.weight.size();
    for (const base::Buffer& slot : first->values.slots) store_bytes_ += slot.size();
    owned.owner.start(std::move(*first));
    version_.set(work.slice, owned.owner.state().version);
  } else if (auto* values = std::get_if<store::SliceValues>(&done.result)) {
    owned.owner.updated(std::move(*values));
    version_.set(work.slice, owned.owner.state().version);
    ++counters_.updates;
  } else {
    owned.owner.added(work.addition, std::get<base::Buffer>(std::move(done.result)));
  }
  pump(work.slice);
  finish_if_done();
}

void ParameterServerState::tick(std::uint64_t now_ms) {
  mail_.tick(now_ms);
  if (!mail_.open()) return;
  checkpoints_->repeat();
  watch_progress();
}

void ParameterServerState::pump(std::size_t index) {
  do {
    run_work(index);
    answer_pulls(index);
  } while (cut(index));
}

void ParameterServerState::run_work(std::size_t index) {
  Owned& owned = slices_[index];
  const schemas::SliceId id = info(owned).id;
  const base::DType dtype = mail_.plan().keys[id.key].dtype;
  while (auto work = owned.owner.next_work()) {
    const EffectId effect = mail_.next_id();
    if (auto* addition = std::get_if<store::Addition>(&*work)) {
      ++counters_.additions;
      running_[effect] = {index, addition->id};
      mail_.emit(Add{effect, id, dtype, std::move(addition->left), std::move(addition->right)});
    } else {
      auto& update = std::get<store::SliceUpdate>(*work);
      if (mail_.rules().cluster_sequential()) {
        mail_.emit(Spent{Spent::What::round, owned.round.spread_ns()});
        owned.round = {};
      } else {
        counters_.push_bytes += update.gradient.size();  // every update is one push
      }
      running_[effect] = {index, 0};
      mail_.emit(Update{effect, id, std::move(update)});
    }
  }
  send_acks(index);
}

void ParameterServerState::send_acks(std::size_t index) {
  Owned& owned = slices_[index];
  const schemas::SliceId id = info(owned).id;
  for (const store::PushName& name : owned.owner.take_acks()) {
    ++progress_;
    ++counters_.pushes;
    owned.round.add(mail_.event_ns());
    const auto waited = owned.pushes.close(name, mail_.event_ns());
    mail_.emit(Spent{Spent::What::push, waited.value_or(0)});
    mail_.send({Role::device_server, name.sender},
               schemas::PushAck{id, name.node, name.step, PushResult::taken});
  }
}

void ParameterServerState::answer_pulls(std::size_t index) {
  Owned& owned = slices_[index];
  const schemas::SliceId id = info(owned).id;
  for (auto at = owned.pulls.begin(); at != owned.pulls.end();) {
    const auto& [machine, pull] = at->first;
    auto answer = owned.owner.answer(pull, machine);
    if (!answer) {
      ++at;
      continue;
    }
    schemas::WeightReply reply;
    reply.slice = id;
    reply.version = answer->code == Errc::ok ? answer->version : pull.version;
    reply.step = pull.step;
    reply.code = answer->code;
    reply.text = std::move(answer->text);
    reply.next = std::move(answer->next);
    ++counters_.replies;
    counters_.reply_bytes += answer->weight.size();
    mail_.emit(Spent{Spent::What::pull, mail_.event_ns() - at->second});
    mail_.send({Role::device_server, machine}, std::move(reply), std::move(answer->weight));
    at = owned.pulls.erase(at);
  }
}

/// Hands the slice's state at a due checkpoint in, if there is credit; true when it did.
bool ParameterServerState::cut(std::size_t index) {
  store::SliceOwner& owner = slices_[index].owner;
  const auto step = owner.cut_due();
  if (!step || !checkpoints_->admits(*step)) return false;
  checkpoints_->hand_in(*step, {info(slices_[index]).id, owner.take_cut()});
  return true;
}

/// Names who is missing when nothing has moved for long, and ends the job when for too long.
void ParameterServerState::watch_progress() {
  if (slices_.empty()) return;  // nothing ever comes here, however well the job goes
  if (progress_ != progress_seen_ || progress_ms_ == 0 || done_) {
    progress_seen_ = progress_;
    progress_ms_ = mail_.now_ms();
    warned_ = false;
    note_missing({});
    return;
  }
  const std::uint64_t silent_ms = mail_.now_ms() - progress_ms_;
  const base::Limits& limits = mail_.plan().spec.limits;
  if (silent_ms >= limits.stall_ms) {
    return mail_.fail(base::error(Errc::deadline_exceeded, "nothing has come for {} ms: {}",
                                  silent_ms, waits_for()));
  }
  if (silent_ms < limits.missing_log_ms || warned_) return;
  warned_ = true;
  mail_.emit(Warn{fmt::format("nothing has come for {} ms: {}", silent_ms, waits_for())});
  const Owned* last = furthest_behind();
  note_missing(last == nullptr ? std::vector<std::uint32_t>() : last->owner.missing_ranks());
}

void ParameterServerState::note_missing(std::vector<std::uint32_t> ranks) {
  if (ranks == missing_) return;
  missing_ = std::move(ranks);
  mail_.emit(Missing{missing_});
}

ServerHoldings ParameterServerState::holdings() const {
  ServerHoldings holdings;
  for (const Owned& owned : slices_) holdings.pending_pushes += owned.pushes.size();
  holdings.keys = keys_;
  holdings.store_bytes = store_bytes_;
  holdings.version = version_.lowest();
  return holdings;
}

void ParameterServerState::finish_if_done() {
  if (done_ || mail_.ended() || finished_.size() < mail_.rules().tree.ranks()) return;
  const std::uint64_t total = mail_.rules().steps.total;
  const bool complete = std::all_of(slices_.begin(), slices_.end(), [&](const Owned& owned) {
    return owned.owner.idle() && !owned.owner.cut_due() && owned.owner.applied_below() >= total;
  });
  if (!complete || !checkpoints_->idle()) return;
  done_ = true;
  mail_.send(kCoordinator, schemas::ActorDone{mail_.self(), total});
}

const ParameterServerState::Owned* ParameterServerState::furthest_behind() const {
  const auto last =
      std::min_element(slices_.begin(), slices_.end(), [](const Owned& a, const Owned& b) {
        return a.owner.applied_below() < b.owner.applied_below();
      });
  const bool behind =
      last != slices_.end() && last->owner.applied_below() < mail_.rules().steps.total;
  return behind ? &*last : nullptr;
}

std::string ParameterServerState::waits_for() const {
  const Owned* last = furthest_behind();
  return last == nullptr ? std::string() : last->owner.waits_for();
}

}  // namespace troupe::actors
