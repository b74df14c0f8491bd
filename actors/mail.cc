// SPDX-License-Identifier: Apache-2.0
// The fence in front of a role.
#include "actors/mail.h"

#include <fmt/core.h>

#include <algorithm>

namespace troupe::actors {

using schemas::Envelope;
using schemas::Role;

Mail::Verdict Mail::judge(Envelope& envelope) {
  if (ended_) return Verdict::done;
  if (envelope.generation != plan_->generation) {
    ++counters_.other_generation;
    return Verdict::done;
  }
  if (envelope.from.role == Role::coordinator || envelope.from.role == Role::agent) {
    if (const auto* end = std::get_if<schemas::JobEnd>(&envelope.message)) {
      ended_ = true;
      const bool good = end->code == base::Errc::ok;
      effects_->emit(End{good ? base::Status() : base::Status(end->code, end->text)});
      return Verdict::done;
    }
    if (const auto* placement = std::get_if<schemas::Placement>(&envelope.message)) {
      return take_placement(*placement);
    }
    if (const auto* start = std::get_if<schemas::TrainingStart>(&envelope.message)) {
      if (start_) return Verdict::done;
      start_ = *start;
      return open_if_complete();
    }
    return Verdict::take;
  }
  if (std::holds_alternative<schemas::StaleView>(envelope.message)) return Verdict::done;
  if (!rules_ || envelope.view > placement_->view) {
    park(envelope);
    return Verdict::done;
  }
  if (envelope.view < placement_->view) {
    ++counters_.stale_view;
    send(envelope.from, schemas::StaleView{placement_->view});
    return Verdict::done;
  }
  return Verdict::take;
}

Mail::Verdict Mail::take_placement(const schemas::Placement& placement) {
  if (placement_ && placement.view <= placement_->view) return Verdict::done;
  if (rules_ && placement.machine_of_rank != rules_->machine_of_rank) {
    fail(base::error(base::Errc::unimplemented,
                     "[placement] view {} moves ranks of a running job; resume from a checkpoint "
                     "instead",
                     placement.view));
    return Verdict::done;
  }
  placement_ = placement;
  return rules_ ? Verdict::moved : open_if_complete();
}

Mail::Verdict Mail::open_if_complete() {
  if (!placement_ || !start_) return Verdict::done;
  auto rules = store::make_rules(plan_->spec, *placement_, *start_);
  if (!rules.ok()) {
    fail(rules.status());
    return Verdict::done;
  }
  rules_ = std::move(rules).value();
  return Verdict::opened;
}

void Mail::park(Envelope& envelope) {
  if (parked_.size() >= kParkedEnvelopesMax) return;
  ++counters_.parked;
  parked_.push_back(std::move(envelope));
}

std::optional<Envelope> Mail::parked() {
  if (!open()) return std::nullopt;
  const auto due = std::find_if(parked_.begin(), parked_.end(), [this](const Envelope& envelope) {
    return envelope.view <= placement_->view;
  });
  if (due == parked_.end()) return std::nullopt;
  Envelope envelope = std::move(*due);
  parked_.erase(due);
  return envelope;
}

void Mail::send(const schemas::ActorId& to, schemas::Message message, base::Buffer payload) {
  Envelope envelope;
  envelope.job = plan_->job;
  envelope.generation = plan_->generation;
  envelope.view = placement_ ? placement_->view : 0;
  envelope.from = self_;
  envelope.to = to;
  envelope.message = std::move(message);
  envelope.payload = std::move(payload);
  effects_->emit(Send{std::move(envelope)});
}

void Mail::send_again(const Letter& letter) {
  ++counters_.repeated;
  send(letter);
}

/// A push is asked about without its payload. The other letters are as small as a question about
/// them would be, and whoever has taken one already knows it.
void Mail::ask(const Letter& letter) {
  ++counters_.asked;
  const auto* push = std::get_if<schemas::GradientPush>(&letter.message);
  if (push == nullptr) return send(letter);
  send(letter.to, schemas::PushQuery{push->slice, push->node, push->step});
}

bool Mail::settle(Outbox<schemas::PushName>& pushes, const schemas::PushAck& ack) {
  const schemas::PushName name = schemas::push_name(ack, self_.index);
  switch (ack.result) {
    case schemas::PushResult::taken:
    case schemas::PushResult::duplicate:
      return pushes.answered(name);
    case schemas::PushResult::not_ready:
      pushes.not_ready(name, now_ms_);
      return false;
    case schemas::PushResult::unknown:
      pushes.unknown(name, now_ms_, [this](const Letter& letter) { send_again(letter); });
      return false;
    case schemas::PushResult::stale_view:  // told by StaleView; the new view sends letters again
      return false;
  }
  return false;
}

void Mail::fail(const base::Status& status) {
  if (ended_) return;
  send(kCoordinator, schemas::ActorFailed{self_, status.code(), status.text()});
  effects_->emit(Fail{status});
  ended_ = true;
}

}  // namespace troupe::actors
