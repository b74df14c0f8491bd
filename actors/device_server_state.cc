// SPDX-License-Identifier: Apache-2.0
// Routing between a machine's ranks, its slices and their owners.
#include "actors/device_server_state.h"

#include <fmt/core.h>

#include <algorithm>

namespace troupe::actors {

using base::Errc;
using schemas::Envelope;
using schemas::PushResult;
using schemas::Role;

DeviceServerState::DeviceServerState(const JobPlan& plan, std::uint32_t machine)
    : mail_(plan, {Role::device_server, machine}, effects_),
      machine_(machine),
      pushes_(plan.spec.limits),
      pulls_(plan.spec.limits),
      finals_(plan.spec.limits) {}

std::vector<DeviceEffect> DeviceServerState::handle(Event event) {
  std::visit([this](auto& what) { on(what); }, event);
  return effects_.take();
}

void DeviceServerState::on(Received& received) {
  mail_.receive(
      std::move(received.envelope), [this] { open(); }, [this] { moved(); },
      [this](Envelope& envelope) {
        std::visit([&](const auto& message) { take(envelope, message); }, envelope.message);
      });
}

void DeviceServerState::open() {
  const store::SliceRules& rules = mail_.rules();
  for (const std::uint32_t rank : rules.ranks_of_machine(machine_)) ranks_.insert(rank);
  if (ranks_.empty()) {
    return mail_.fail(base::error(Errc::failed_precondition, "machine {} holds no rank", machine_));
  }
  for (const store::SliceInfo& slice : mail_.plan().layout.slices()) {
    slices_.emplace_back(rules, machine_, slice.id);
  }
}

void DeviceServerState::moved() {
  mail_.send_again(pushes_);
  mail_.send_again(pulls_);
  mail_.send_again(finals_);
}

void DeviceServerState::on(const LinkResumed& resumed) {
  if (!mail_.open()) return;
  mail_.ask_about(pushes_, resumed.peer);
  mail_.ask_about(pulls_, resumed.peer);
  mail_.ask_about(finals_, resumed.peer);
}

/// True when the sender is a rank of this machine and the slice exists; else the job ends.
bool DeviceServerState::knows(const Envelope& envelope, const schemas::SliceId& slice) {
  const bool own = envelope.from.role == Role::worker && ranks_.count(envelope.from.index) != 0;
  if (own && mail_.plan().layout.contains(slice)) return true;
  mail_.fail(
      base::error(Errc::invalid_argument,
                  "[device server {}] {} speaks of slice ({}, {}), which is not between them",
                  machine_, envelope.from.to_string(), slice.key, slice.slice));
  return false;
}

void DeviceServerState::take(Envelope& envelope, const schemas::GradientPush& push) {
  if (!knows(envelope, push.slice)) return;
  if (push.abstains) {
    return mail_.fail(base::error(Errc::invalid_argument, "rank {} abstains, as only machines may",
                                  envelope.from.index));
  }
  const store::SliceInfo& info = mail_.plan().layout.info(push.slice);
  const std::size_t bytes = envelope.payload.size();
  const bool nothing = bytes == 0 && push.count == 0.0;
  if (bytes != info.gradient_bytes && !nothing) {
    return mail_.fail(base::error(
        Errc::data_loss, "gradient of rank {} step {} slice ({}, {}) has {} bytes instead of {}",
        envelope.from.index, push.step, push.slice.key, push.slice.slice, bytes,
        info.gradient_bytes));
  }
  const std::size_t position = mail_.plan().layout.position(push.slice);
  slices_[position].push({envelope.from.index, push.step, push.count, std::move(envelope.payload)});
  pump(position);
}

void DeviceServerState::take(Envelope& envelope, const schemas::PushQuery& query) {
  if (!knows(envelope, query.slice)) return;
  const DeviceSlice& slice = slices_[mail_.plan().layout.position(query.slice)];
  const auto result = slice.asked(envelope.from.index, query.step);
  if (!result) return;
  mail_.send(envelope.from, schemas::PushAck{query.slice, query.node, query.step, *result});
}

void DeviceServerState::take(Envelope& envelope, const schemas::WeightPull& pull) {
  if (!knows(envelope, pull.slice)) return;
  if (pull.version == schemas::kBarrierVersion && !mail_.rules().steps.is_barrier(pull.step)) {
    return mail_.fail(base::error(Errc::invalid_argument,
                                  "rank {} wants a barrier at step {}, where there is none",
                                  envelope.from.index, pull.step));
  }
  const std::size_t position = mail_.plan().layout.position(pull.slice);
  slices_[position].want(envelope.from.index, pull.step);
  pump(position);
}

void DeviceServerState::take(Envelope&, const schemas::PushAck& ack) {
  if (!mail_.settle(pushes_, ack)) return;
  const std::size_t position = mail_.plan().layout.position(ack.slice);
  slices_[position].gather().acknowledged(ack.step);
  pump(position);
}

void DeviceServerState::take(Envelope& envelope, const schemas::WeightReply& reply) {
  if (!mail_.plan().layout.contains(reply.slice)) return;
  const store::SliceInfo& info = mail_.plan().layout.info(reply.slice);
  if (reply.code == Errc::ok && envelope.payload.size() != info.weight_bytes) {
    return mail_.fail(base::error(
        Errc::data_loss, "weights of slice ({}, {}) version {} have {} bytes instead of {}",
        reply.slice.key, reply.slice.slice, reply.version, envelope.payload.size(),
        info.weight_bytes));
  }
  const std::size_t position = mail_.plan().layout.position(reply.slice);
  const base::Status status = slices_[position].replied(reply, envelope.payload);
  if (!status.ok()) return mail_.fail(status);
  pump(position);
}

void DeviceServerState::take(Envelope&, const schemas::Finished& finished) {
  for (const std::uint32_t rank : finished.ranks) {
    if (ranks_.count(rank) != 0) finished_[rank] = finished.steps;
  }
  finish_if_done();
}

/// From here until ExtraCut no rank of this machine gets anywhere that none has been: the first
/// step that nobody has begun is beyond what any slice has seen.
void DeviceServerState::take(Envelope& envelope, const schemas::CutQuery& query) {
  if (envelope.from != kCoordinator || !mail_.open()) return;
  const store::StepPlan& steps = mail_.rules().steps;
  std::uint64_t next = steps.start;
  for (const DeviceSlice& slice : slices_) next = std::max(next, slice.begun());
  next = std::min(next, steps.total);
  for (DeviceSlice& slice : slices_) slice.hold(next);
  mail_.send(kCoordinator, schemas::CutReady{query.number, machine_, next});
}

/// All owners know the cut by now. Where a tier is eventual it is a barrier like the others; before
/// the run's last cut the ranks stay where they are.
void DeviceServerState::take(Envelope& envelope, const schemas::ExtraCut& cut) {
  if (envelope.from != kCoordinator || !mail_.open()) return;
  if (!mail_.add_cut(cut.step)) {
    return mail_.fail(base::error(Errc::internal, "[device server {}] cannot be cut at step {}",
                                  machine_, cut.step));
  }
  const bool holds = cut.last && cut.step < mail_.rules().steps.total;
  for (DeviceSlice& slice : slices_) slice.hold(holds ? cut.step : store::kNoStep);
  for (std::size_t position = 0; position < slices_.size(); ++position) pump(position);
}

/// Once all ranks have finished, every shard is told; nothing but the job's end answers that. The
/// server is done when its last sums have been acknowledged: until then an owner may need them
/// again.
void DeviceServerState::finish_if_done() {
  if (finished_.size() < ranks_.size()) return;
  if (finals_.empty()) {
    schemas::Finished message;
    for (const auto& [rank, steps] : finished_) {
      message.ranks.push_back(rank);
      message.steps = std::max(message.steps, steps);
    }
    for (std::uint32_t shard = 0; shard < mail_.plan().layout.shards(); ++shard) {
      const Letter letter{{Role::parameter_server, shard}, message, {}};
      mail_.send(letter);
      finals_.keep(shard, letter, mail_.now_ms());
    }
  }
  if (done_ || !pushes_.empty()) return;
  done_ = true;
  mail_.send(kCoordinator, schemas::ActorDone{mail_.self(), finished_.begin()->second});
}

void DeviceServerState::on(EffectDone& done) {
  if (mail_.ended()) return;
  const auto found = running_.find(done.id);
  TROUPE_CHECK(found != running_.end(), "an effect ends that was never given");
  const Work work = found->second;
  running_.erase(found);
  DeviceSlice& slice = slices_[work.slice];
  if (!done.status.ok()) {
    return mail_.fail(done.status.with_context(fmt::format("sum of key '{}' slice {} on machine {}",
                                                           mail_.plan().keys[slice.id().key].name,
                                                           slice.id().slice, machine_)));
  }
  slice.gather().done(work.id, std::get<base::Buffer>(std::move(done.result)));
  pump(work.slice);
}

void DeviceServerState::on(const Tick& tick) {
  mail_.tick(tick.now_ms);
  if (!mail_.open()) return;
  mail_.attend(pushes_);
  mail_.attend(pulls_);
  mail_.attend(finals_);
}

/// Whatever has changed in a slice: runs additions, hands weights out, sends sums and questions on,
/// in this order, because a handout may be the last thing that keeps the machine from being
/// blocked. A machine that has just become blocked abstains in all its slices (decision 0008):
/// another slice's round may wait for this machine, which cannot push there before that round gives
/// it weights.
void DeviceServerState::pump(std::size_t position) {
  const bool was_blocked = blocked();
  run_work(position);
  hand_out(position);
  note_waiting(position);
  send_pushes(position);
  send_pulls(position);
  if (mail_.rules().has_abstentions() && blocked() && !was_blocked) {
    // With nothing to compute on, the machine must not hold up other slices' rounds.
    for (std::size_t other = 0; other < slices_.size(); ++other) {
      send_pushes(other);
      send_pulls(other);
    }
  }
  if (finished_.size() == ranks_.size()) finish_if_done();
}

void DeviceServerState::note_waiting(std::size_t position) {
  for (const std::uint32_t rank : ranks_) {
    if (slices_[position].waits(rank)) {
      waiting_[rank].insert(position);
    } else {
      waiting_[rank].erase(position);
    }
  }
}

/// True when every rank that has steps left waits for weights.
bool DeviceServerState::blocked() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [this](std::uint32_t rank) {
    const auto slices = waiting_.find(rank);
    return finished_.count(rank) != 0 || (slices != waiting_.end() && !slices->second.empty());
  });
}

void DeviceServerState::run_work(std::size_t position) {
  DeviceSlice& slice = slices_[position];
  const base::DType dtype = mail_.plan().keys[slice.id().key].gradient_wire;
  while (auto work = slice.gather().next_work()) {
    const EffectId id = effects_.next_id();
    running_[id] = {position, work->id};
    if (work->right) {
      effects_.emit(Add{id, slice.id(), dtype, std::move(work->left), std::move(work->right)});
    } else {
      effects_.emit(Copy{id, slice.id(), dtype, std::move(work->left)});
    }
  }
  for (const RankAnswer& answer : slice.gather().take_answers()) {
    mail_.send({Role::worker, answer.rank},
               schemas::PushAck{slice.id(), mail_.rules().tree.leaf(answer.rank), answer.step,
                                answer.result});
  }
}

void DeviceServerState::send_pushes(std::size_t position) {
  DeviceSlice& slice = slices_[position];
  const std::uint32_t shard = mail_.plan().layout.slices()[position].shard;
  while (auto push = slice.next_push(blocked())) {
    schemas::GradientPush message{slice.id(), push->node, push->step, push->count,
                                  std::move(push->contributions)};
    message.abstains = push->abstains;
    const schemas::PushName name = schemas::push_name(message, machine_);
    Letter letter{{Role::parameter_server, shard}, std::move(message), std::move(push->data)};
    mail_.send(letter);
    pushes_.keep(name, std::move(letter), mail_.now_ms());
  }
}

/// Asks for what is wanted and not yet asked for; forgets questions that are answered.
void DeviceServerState::send_pulls(std::size_t position) {
  const DeviceSlice& slice = slices_[position];
  const std::uint32_t shard = mail_.plan().layout.slices()[position].shard;
  const std::vector<schemas::WeightPull> desired = slice.desired();
  const auto of_slice = [&](const schemas::WeightPull& pull) { return pull.slice == slice.id(); };
  pulls_.erase_from({slice.id(), 0, 0, 0}, of_slice, [&](const schemas::WeightPull& pull) {
    return std::find(desired.begin(), desired.end(), pull) == desired.end();
  });
  for (const schemas::WeightPull& pull : desired) {
    if (pulls_.contains(pull)) continue;
    Letter letter{{Role::parameter_server, shard}, pull, {}};
    mail_.send(letter);
    pulls_.keep(pull, std::move(letter), mail_.now_ms());
  }
}

void DeviceServerState::hand_out(std::size_t position) {
  DeviceSlice& slice = slices_[position];
  while (auto handout = slice.weights().next_handout()) {
    schemas::WeightReply reply;
    reply.slice = slice.id();
    reply.version = handout->version;
    reply.step = handout->step;
    reply.next = std::move(handout->next);
    mail_.send({Role::worker, handout->rank}, std::move(reply), std::move(handout->weight));
  }
}

std::string DeviceServerState::waits_for() const {
  if (slices_.empty() || done_) return {};
  for (const auto& [rank, slices] : waiting_) {
    if (!slices.empty()) return slices_[*slices.begin()].waits_for();
  }
  return slices_.front().waits_for();
}

}  // namespace troupe::actors
