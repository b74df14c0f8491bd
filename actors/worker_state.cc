// SPDX-License-Identifier: Apache-2.0
// A rank's keys, cut into slices on the way out and put together on the way in.
#include "actors/worker_state.h"

#include <fmt/core.h>

#include <utility>

namespace troupe::actors {

using base::Errc;
using schemas::Envelope;
using schemas::Role;

WorkerState::WorkerState(const JobPlan& plan, std::uint32_t rank)
    : mail_(plan, {Role::worker, rank}, effects_),
      rank_(rank),
      pushes_(plan.spec.limits),
      pulls_(plan.spec.limits),
      finals_(plan.spec.limits) {}

schemas::ActorId WorkerState::server() const {
  return {Role::device_server, mail_.rules().machine_of_rank[rank_]};
}

std::vector<WorkerEffect> WorkerState::handle(Event event) {
  std::visit([this](auto& what) { on(what); }, event);
  return effects_.take();
}

void WorkerState::on(Received& received) {
  mail_.receive(
      std::move(received.envelope), [this] { open(); }, [this] { moved(); },
      [this](Envelope& envelope) {
        std::visit([&](const auto& message) { take(envelope, message); }, envelope.message);
      });
}

void WorkerState::open() {
  effects_.emit(StartTraining{mail_.rules().steps.start, mail_.start().records});
}

void WorkerState::moved() {
  mail_.send_again(pushes_);
  mail_.send_again(pulls_);
  mail_.send_again(finals_);
}

void WorkerState::on(const DatasetChecked& checked) {
  if (mail_.ended()) return;
  mail_.send(kCoordinator, checked.report);
}

void WorkerState::on(Report& report) {
  if (mail_.ended()) return;
  mail_.send(kCoordinator, std::move(report.message));
}

/// The gradient is cut into slices without a copy: each letter borrows its part of the buffer that
/// was pushed, the executor's own or in 16 bits a copy. So the buffer may be written again only
/// when all parts have been taken (GradientTaken), and a letter that is repeated sends the same
/// bytes.
void WorkerState::on(const PushWanted& push) {
  if (mail_.ended()) return;
  TROUPE_CHECK(mail_.open(), "a gradient before the start");
  const auto slices = mail_.plan().layout.of_key(push.key);
  const store::SliceInfo& last = slices.back();
  const std::uint64_t key_bytes =
      last.offset * last.gradient_bytes / last.elements + last.gradient_bytes;
  const bool nothing = push.gradient.empty() && push.count == 0.0;
  TROUPE_CHECK(nothing || push.gradient.size() == key_bytes,
               fmt::format("gradient of key {} has {} bytes instead of {}", push.key,
                           push.gradient.size(), key_bytes));
  TROUPE_CHECK(untaken_.emplace(push.key, slices.size()).second,
               "a gradient is pushed while its last is still read");
  std::size_t offset = 0;
  for (const store::SliceInfo& slice : slices) {
    schemas::GradientPush message;
    message.slice = slice.id;
    message.node = mail_.rules().tree.leaf(rank_);
    message.step = push.step;
    message.count = push.count;
    base::Buffer payload =
        nothing ? base::Buffer() : push.gradient.slice(offset, slice.gradient_bytes);
    offset += slice.gradient_bytes;
    const schemas::PushName name = schemas::push_name(message, rank_);
    Letter letter{server(), std::move(message), std::move(payload)};
    mail_.send(letter);
    pushes_.keep(name, std::move(letter), mail_.now_ms());
  }
}

void WorkerState::take(Envelope&, const schemas::PushAck& ack) {
  if (!mail_.settle(pushes_, ack)) return;
  const auto untaken = untaken_.find(ack.slice.key);
  if (--untaken->second > 0) return;
  untaken_.erase(untaken);
  effects_.emit(GradientTaken{ack.slice.key, ack.step});
  finish_if_done();
}

/// Under sequential tiers a step's weights have a number, the step's. Under eventual ones the
/// device server decides which version is recent enough, but for a barrier, whose version is one
/// and the same for everybody (decision 0008).
void WorkerState::on(const PullWanted& pull) {
  if (mail_.ended()) return;
  TROUPE_CHECK(mail_.open(), "weights are wanted before the start");
  const auto slices = mail_.plan().layout.of_key(pull.key);
  Pulling pulling{pull.step, slices.size(), std::vector<base::Buffer>(slices.size())};
  TROUPE_CHECK(pulling_.emplace(pull.key, std::move(pulling)).second,
               "a key is pulled while it is being pulled");
  const bool exact = mail_.rules().sequential();
  for (const store::SliceInfo& slice : slices) {
    schemas::WeightPull message{slice.id, exact ? pull.step : schemas::kNewestVersion, 0,
                                pull.step};
    if (pull.barrier && !exact) {
      message.version = schemas::kBarrierVersion;
      message.applied_below = pull.step;
    }
    Letter letter{server(), message, {}};
    mail_.send(letter);
    pulls_.keep(slice.id, std::move(letter), mail_.now_ms());
  }
}

void WorkerState::take(Envelope& envelope, const schemas::WeightReply& reply) {
  if (reply.code != Errc::ok) return mail_.fail(base::Status(reply.code, reply.text));
  const auto found = pulling_.find(reply.slice.key);
  // An echo of an earlier step's reply, or of one that has been taken.
  if (found == pulling_.end() || found->second.step != reply.step) return;
  Pulling& pulling = found->second;
  if (reply.slice.slice >= pulling.slices.size() || !pulls_.answered(reply.slice)) return;
  pulling.slices[reply.slice.slice] = std::move(envelope.payload);
  if (--pulling.missing > 0) return;
  WeightsReady ready{reply.slice.key, reply.step, std::move(pulling.slices)};
  pulling_.erase(found);
  effects_.emit(std::move(ready));
}

void WorkerState::on(const Finish& finish) {
  if (mail_.ended()) return;
  finished_ = finish.steps;
  const Letter letter{server(), schemas::Finished{{rank_}, finish.steps}, {}};
  mail_.send(letter);
  finals_.keep(finish.steps, letter, mail_.now_ms());
  finish_if_done();
}

/// A rank is done when its last gradients have been taken, too: before that its process must not
/// end, since their buffers are its own.
void WorkerState::finish_if_done() {
  if (done_ || !finished_ || !untaken_.empty()) return;
  done_ = true;
  mail_.send(kCoordinator, schemas::ActorDone{mail_.self(), *finished_});
}

void WorkerState::on(const Tick& tick) {
  mail_.tick(tick.now_ms);
  if (!mail_.open()) return;
  mail_.attend(pushes_);
  mail_.attend(pulls_);
  mail_.attend(finals_);
}

std::string WorkerState::waits_for() const {
  if (!pulling_.empty()) {
    const auto& [key, pulling] = *pulling_.begin();
    return fmt::format("rank {} waits for weights of key '{}' for step {}", rank_,
                       mail_.plan().keys[key].name, pulling.step);
  }
  if (untaken_.empty()) return {};
  return fmt::format("rank {} waits until its gradient of key '{}' is taken", rank_,
                     mail_.plan().keys[untaken_.begin()->first].name);
}

}  // namespace troupe::actors
