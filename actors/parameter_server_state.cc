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
    : mail_(plan, {Role::parameter_server, shard}, effects_),
      shard_(shard),
      silence_(plan.spec.limits) {}

std::vector<ParameterEffect> ParameterServerState::handle(Event event) {
  std::visit([this](auto& what) { on(what); }, event);
  return effects_.take();
}

void ParameterServerState::on(Received& received) {
  mail_.receive(
      std::move(received.envelope), [this] { open(); }, [this] { moved(); },
      [this](Envelope& envelope) {
        std::visit([&](auto& message) { take(envelope, message); }, envelope.message);
      });
}

void ParameterServerState::open() {
  const auto slices = mail_.plan().layout.slices();
  moved_ = true;
  for (std::size_t position = 0; position < slices.size(); ++position) {
    if (slices[position].shard != shard_) continue;
    const schemas::SliceId id = slices[position].id;
    index_[id] = slices_.size();
    const EffectId effect = effects_.next_id();
    running_[effect] = {slices_.size(), 0};
    slices_.push_back({position, store::SliceOwner(mail_.rules(), id)});
    effects_.emit(InitSlice{effect, id, mail_.rules().steps.start});
  }
  checkpoints_.emplace(mail_, effects_, shard_, slices_.size());
  if (mail_.rules().judged) verdicts_.emplace(mail_, effects_, shard_, slices_.size());
}

/// Whoever had the new view already has refused what was answered in the last one.
void ParameterServerState::moved() {
  checkpoints_->send_again();
  if (verdicts_) verdicts_->send_again();
  for (Owned& owned : slices_) owned.pulls.forget({});
}

void ParameterServerState::on(const LinkResumed& resumed) {
  if (!mail_.open()) return;
  checkpoints_->ask_about(resumed.peer);
  if (verdicts_) verdicts_->ask_about(resumed.peer);
  if (resumed.peer.role != Role::device_server) return;
  for (Owned& owned : slices_) owned.pulls.forget(resumed.peer.index);
}

void ParameterServerState::take(Envelope& envelope, const schemas::ShardCheckpoint& file) {
  if (envelope.from != schemas::ActorId{Role::parameter_server, file.shard}) return;
  checkpoints_->take(file);
}

bool ParameterServerState::from_first_shard(const Envelope& envelope) const {
  const std::uint32_t first = mail_.plan().layout.first_shard();
  return envelope.from == schemas::ActorId{Role::parameter_server, first};
}

void ParameterServerState::take(Envelope& envelope, const schemas::CheckpointReport& report) {
  if (envelope.from == kCoordinator) return checkpoints_->answered(report);
  if (!from_first_shard(envelope)) return;
  const base::Status status = checkpoints_->take(report);
  if (!status.ok()) return mail_.fail(status);
  moved_ = true;
  for (std::size_t index = 0; index < slices_.size(); ++index) pump(index);
  finish_if_done();
}

void ParameterServerState::take(Envelope& envelope, const schemas::StepFacts& facts) {
  if (!verdicts_ || envelope.from != schemas::ActorId{Role::parameter_server, facts.shard}) return;
  const base::Status status = verdicts_->take(facts);
  if (!status.ok()) return mail_.fail(status);
  moved_ = true;
}

void ParameterServerState::take(Envelope& envelope, const schemas::StepVerdict& verdict) {
  if (!verdicts_ || !from_first_shard(envelope) || !verdicts_->take(verdict)) return;
  moved_ = true;
  for (Owned& owned : slices_) owned.owner.judged(verdict);
  for (std::size_t index = 0; index < slices_.size(); ++index) pump(index);
}

/// No slice has come that far: every rank is held in front of that step (control/extra_cut.h).
void ParameterServerState::take(Envelope& envelope, const schemas::ExtraCut& cut) {
  if (envelope.from != kCoordinator || !mail_.open()) return;
  const bool passed = std::any_of(slices_.begin(), slices_.end(), [&](const Owned& owned) {
    return owned.owner.applied_below() >= cut.step;
  });
  const bool known = mail_.rules().steps.is_cut(cut.step);
  if (!known && (passed || !mail_.add_cut(cut.step))) {
    return mail_.fail(base::error(Errc::internal, "[parameter server {}] cannot be cut at step {}",
                                  shard_, cut.step));
  }
  mail_.send(kCoordinator, schemas::ExtraCutTaken{cut.number, shard_});
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

void ParameterServerState::take(Envelope& envelope, schemas::GradientPush& push) {
  const auto index = own(push.slice);
  if (!index) return;
  Owned& owned = slices_[*index];
  const std::size_t bytes = envelope.payload.size();
  const bool nothing = bytes == 0 && push.count == 0.0;
  const std::size_t whole = info(owned).gradient_bytes;
  if (bytes != whole && !nothing) {
    return mail_.fail(
        base::error(Errc::data_loss, "push of {} for slice ({}, {}) has {} bytes instead of {}",
                    envelope.from.to_string(), push.slice.key, push.slice.slice, bytes, whole));
  }
  store::SlicePush contribution{
      envelope.from.index,        push.node, push.step, push.count, std::move(push.contributions),
      std::move(envelope.payload)};
  contribution.abstains = push.abstains;
  const auto result = owned.owner.push(std::move(contribution));
  if (!result.ok()) return mail_.fail(result.status());
  const std::optional<PushResult>& verdict = *result;
  if (verdict == PushResult::taken) moved_ = true;
  if (verdict) {
    mail_.send(envelope.from, schemas::PushAck{push.slice, push.node, push.step, *verdict});
  }
  pump(*index);
}

void ParameterServerState::take(Envelope& envelope, const schemas::PushQuery& query) {
  const auto index = own(query.slice);
  if (!index) return;
  const auto result = slices_[*index].owner.asked(schemas::push_name(query, envelope.from.index));
  if (!result) return;
  mail_.send(envelope.from, schemas::PushAck{query.slice, query.node, query.step, *result});
}

/// An asker that has waited for long asks again: its pull waits here, or the answer is on the way.
void ParameterServerState::take(Envelope& envelope, const schemas::WeightPull& pull) {
  const auto index = own(pull.slice);
  if (!index) return;
  const Pull asked{envelope.from.index, pull};
  if (slices_[*index].pulls.is_new(asked)) answer_or_wait(*index, asked);
}

void ParameterServerState::take(Envelope&, const schemas::Finished& finished) {
  for (const std::uint32_t rank : finished.ranks) {
    if (rank >= mail_.rules().tree.ranks() || !finished_.insert(rank).second) continue;
    for (Owned& owned : slices_) owned.owner.finish(rank, finished.steps);
  }
  for (std::size_t index = 0; index < slices_.size(); ++index) pump(index);
  finish_if_done();
}

void ParameterServerState::on(EffectDone& done) {
  if (mail_.ended()) return;
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
  moved_ = true;
  if (auto* first = std::get_if<store::SliceState>(&done.result)) {
    owned.owner.start(std::move(*first));
  } else if (auto* values = std::get_if<store::SliceValues>(&done.result)) {
    owned.owner.updated(std::move(*values));
  } else if (const auto* examined = std::get_if<store::Examined>(&done.result)) {
    owned.owner.examined(*examined);
    const base::Status told = verdicts_->found(work.slice, *owned.owner.take_finding());
    if (!told.ok()) return mail_.fail(told);
  } else {
    owned.owner.added(work.addition, std::get<base::Buffer>(std::move(done.result)));
  }
  pump(work.slice);
  finish_if_done();
}

void ParameterServerState::on(const Tick& tick) {
  mail_.tick(tick.now_ms);
  if (!mail_.open()) return;
  checkpoints_->attend();
  if (verdicts_) verdicts_->attend();
  report();
  watch_progress();
}

/// The coordinator judges the silence of this server. A quarter of the time after which it names
/// who is silent leaves room for load.
void ParameterServerState::report() {
  const std::uint64_t every_ms = mail_.plan().spec.limits.missing_log_ms / 4;
  if (reported_ms_ && mail_.now_ms() - *reported_ms_ < every_ms) return;
  reported_ms_ = mail_.now_ms();
  std::uint64_t applied_below = mail_.rules().steps.total;
  for (const Owned& owned : slices_) {
    applied_below = std::min(applied_below, owned.owner.applied_below());
  }
  mail_.send(kCoordinator, schemas::ServerReport{shard_, applied_below});
}

/// Whatever has changed in a slice: starts the work that it allows, answers pulls that wait for it,
/// and hands its state in where a checkpoint is due; that frees the slice to go on, so all is
/// looked at again.
void ParameterServerState::pump(std::size_t index) {
  do {
    run_work(index);
    answer_pulls(index);
  } while (cut(index));
}

void ParameterServerState::run_work(std::size_t index) {
  Owned& owned = slices_[index];
  const schemas::SliceId id = info(owned).id;
  const base::DType dtype = mail_.plan().keys[id.key].gradient_wire;
  while (auto work = owned.owner.next_work()) {
    const EffectId effect = effects_.next_id();
    if (auto* addition = std::get_if<store::Addition>(&*work)) {
      running_[effect] = {index, addition->id};
      effects_.emit(Add{effect, id, dtype, std::move(addition->left), std::move(addition->right)});
    } else if (auto* examination = std::get_if<store::SliceExamination>(&*work)) {
      running_[effect] = {index, 0};
      effects_.emit(Examine{effect, id, std::move(*examination)});
    } else {
      auto& update = std::get<store::SliceUpdate>(*work);
      running_[effect] = {index, 0};
      effects_.emit(Update{effect, id, std::move(update)});
    }
  }
  send_acks(index);
}

/// Under cluster eventual a push is acknowledged when its update starts (decision 0008): then its
/// machine may send the next, and at most one of each waits here.
void ParameterServerState::send_acks(std::size_t index) {
  Owned& owned = slices_[index];
  const schemas::SliceId id = info(owned).id;
  for (const store::PushName& name : owned.owner.take_acks()) {
    moved_ = true;
    mail_.send({Role::device_server, name.sender},
               schemas::PushAck{id, name.node, name.step, PushResult::taken});
  }
}

/// Looks again at the pulls that can be answered now.
void ParameterServerState::answer_pulls(std::size_t index) {
  Owned& owned = slices_[index];
  const std::set<std::uint32_t> applied = owned.owner.take_applied();
  while (const auto pull = owned.pulls.next(owned.owner, applied)) answer_or_wait(index, *pull);
}

void ParameterServerState::answer_or_wait(std::size_t index, const Pull& asked) {
  Owned& owned = slices_[index];
  const auto& [machine, pull] = asked;
  if (const auto need = owned.owner.needs(pull, machine)) {
    if (owned.pulls.wait(asked, *need)) return;
    return mail_.fail(base::error(Errc::invalid_argument,
                                  "device server {} has asked {} times for slice ({}, {})", machine,
                                  kPullsWaitingMax, pull.slice.key, pull.slice.slice));
  }
  const auto answer = owned.owner.answer(pull, machine);
  schemas::WeightReply reply;
  reply.slice = pull.slice;
  reply.version = answer->code == Errc::ok ? answer->version : pull.version;
  reply.step = pull.step;
  reply.code = answer->code;
  reply.text = answer->text;
  reply.next = answer->next;
  mail_.send({Role::device_server, machine}, std::move(reply), answer->weight);
  owned.pulls.answered(asked);
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
  const bool ranks_done = finished_.size() == mail_.rules().tree.ranks();
  // What waits for nothing but the coordinator's copy, which it judges: ranks that are done owe
  // nothing, nor do those whose pushes a due checkpoint holds up.
  bool waits_for_copy = checkpoints_->waits_for_word();
  if (waits_for_copy && !ranks_done) {
    const Owned* last = furthest_behind();
    waits_for_copy = last != nullptr && last->owner.cut_due().has_value();
  }
  const bool owed_nothing = done_ || (waits_for_copy && ranks_done);
  if (std::exchange(moved_, false) || owed_nothing) silence_.heard(mail_.now_ms());
  const control::SilenceFinding found = silence_.check(mail_.now_ms());
  if (!silence_.warned()) note_missing({});
  if (found.verdict == control::SilenceFinding::Verdict::quiet) return;
  if (waits_for_copy && found.verdict == control::SilenceFinding::Verdict::fail) {
    return silence_.heard(mail_.now_ms());
  }
  const std::string text =
      fmt::format("nothing has come for {} ms: {}", found.silent_ms, waits_for());
  if (found.verdict == control::SilenceFinding::Verdict::fail) {
    return mail_.fail(base::Status(Errc::deadline_exceeded, text));
  }
  effects_.emit(Note{true, text});
  const Owned* last = furthest_behind();
  note_missing(last == nullptr ? std::vector<std::uint32_t>() : last->owner.missing_ranks());
}

void ParameterServerState::note_missing(std::vector<std::uint32_t> ranks) {
  if (ranks == missing_) return;
  missing_ = std::move(ranks);
  effects_.emit(Missing{missing_});
}

/// Ranks tell their device servers, and those every shard, that no more will come. The shard is
/// done when all of it is in its slices and every checkpoint that they owe has been settled.
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
        // What waits for a verdict waits for the others.
        return std::pair(a.owner.applied_below(), a.owner.waits_for_verdict()) <
               std::pair(b.owner.applied_below(), b.owner.waits_for_verdict());
      });
  const bool behind =
      last != slices_.end() && last->owner.applied_below() < mail_.rules().steps.total;
  return behind ? &*last : nullptr;
}

std::string ParameterServerState::waits_for() const {
  if (std::string verdict = verdicts_ ? verdicts_->waits_for() : ""; !verdict.empty()) {
    return verdict;
  }
  const Owned* last = furthest_behind();
  return last == nullptr ? checkpoints_->waits_for() : last->owner.waits_for();
}

}  // namespace troupe::actors
