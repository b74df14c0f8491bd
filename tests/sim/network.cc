// SPDX-License-Identifier: Apache-2.0
// Envelopes on their way: lost, doubled, late, out of order; and the coordinator's part.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tests/sim/simulation.h"

namespace troupe::sim {

using schemas::ActorId;
using schemas::Envelope;
using schemas::Role;

namespace {

std::string version_text(std::uint64_t version) {
  if (version == schemas::kNewestVersion) return "newest";
  return version == schemas::kBarrierVersion ? "barrier" : std::to_string(version);
}

std::string text_of(const schemas::GradientPush& m) {
  std::string listed;
  for (const auto& [rank, step] : m.contributions) listed += fmt::format(" {}@{}", rank, step);
  return fmt::format("({}, {}) {} count {}{}{}", m.slice.key, m.slice.slice, m.step, m.count,
                     listed, m.abstains ? " abstains" : "");
}
std::string text_of(const schemas::PushAck& m) {
  constexpr const char* kResults[] = {"taken", "duplicate", "stale view", "not ready", "unknown"};
  return fmt::format("({}, {}) {} {}", m.slice.key, m.slice.slice, m.step,
                     kResults[static_cast<int>(m.result)]);
}
std::string text_of(const schemas::PushQuery& m) {
  return fmt::format("({}, {}) {}", m.slice.key, m.slice.slice, m.step);
}
std::string text_of(const schemas::WeightPull& m) {
  return fmt::format("({}, {}) {} version {}, applied below {}", m.slice.key, m.slice.slice, m.step,
                     version_text(m.version), m.applied_below);
}
std::string text_of(const schemas::WeightReply& m) {
  return fmt::format("({}, {}) {} version {} next [{}] {}", m.slice.key, m.slice.slice, m.step,
                     version_text(m.version), fmt::join(m.next, " "), m.text);
}
std::string text_of(const schemas::ShardCheckpoint& m) {
  return fmt::format("step {} shard {} {}", m.step, m.shard, m.text);
}
std::string text_of(const schemas::StepFacts& m) {
  return fmt::format("step {} shard {}", m.step, m.shard);
}
std::string text_of(const schemas::StepVerdict& m) {
  return fmt::format("step {}{}", m.step, m.skip ? " dropped" : "");
}
std::string text_of(const schemas::CheckpointReport& m) {
  return fmt::format("step {} {}{}", m.step, m.path, m.text);
}
std::string text_of(const schemas::CutReady& m) {
  return fmt::format("{} next {}", m.number, m.next);
}
std::string text_of(const schemas::ExtraCut& m) {
  return fmt::format("{} step {}{}", m.number, m.step, m.last ? " last" : "");
}
template <typename Other>
std::string text_of(const Other&) {
  return {};
}

std::string envelope_text(const Envelope& envelope) {
  return fmt::format("g{} v{}  {} -> {}  {} {}", envelope.generation, envelope.view,
                     envelope.from.to_string(), envelope.to.to_string(),
                     schemas::message_name(envelope.message.index()),
                     std::visit([](const auto& m) { return text_of(m); }, envelope.message));
}

}  // namespace

/// Lets a role handle an event now and performs what follows. Nothing reaches the dead.
void Simulation::event(const ActorId& to, Event event) {
  const auto found = actors_.find(to);
  if (found == actors_.end()) return;
  trace({2, static_cast<std::uint64_t>(to.role), to.index, event.index()});
  found->second.handle(std::move(event));
}

void Simulation::post(Envelope envelope) {
  if (!bend(envelope)) return;
  const bool control = envelope.to.role == Role::coordinator;
  checker_->posted(envelope);
  // Owners do not answer a pull twice over a link that is up, because a link loses nothing.
  const bool reply = std::holds_alternative<schemas::WeightReply>(envelope.message) &&
                     envelope.to.role == Role::device_server;
  if (!control && !reply && faulty() && random_.chance(job_.faults.drop_percent)) {
    return checker_->misfortune(envelope);
  }
  if (faulty() && random_.chance(job_.faults.double_percent)) {
    checker_->misfortune(envelope);
    travel(envelope);
  }
  travel(envelope);
}

/// In a process by itself; between processes over their link.
void Simulation::travel(const Envelope& envelope) {
  const auto server = [](const ActorId& id) {
    return id.role == Role::device_server || id.role == Role::parameter_server;
  };
  payloads_in_flight_ += envelope.payload ? 1 : 0;
  payloads_peak_ = std::max(payloads_peak_, payloads_in_flight_);
  if (server(envelope.from) && server(envelope.to) && envelope.from != envelope.to) {
    outcome_.link_bytes += envelope.payload.size();
    return link_of(envelope).post(envelope.from < envelope.to ? 0 : 1, envelope);
  }
  at(delay_of(envelope), [this, envelope] { land(envelope); });
}

void Simulation::land(const Envelope& envelope) {
  payloads_in_flight_ -= envelope.payload ? 1 : 0;
  deliver(envelope);
}

std::uint64_t Simulation::delay_of(const Envelope& envelope) {
  const bool inside = envelope.from.role == Role::worker || envelope.to.role == Role::worker;
  const std::uint64_t delay_us = inside ? random_.between(1, 300) : random_.between(200, 4'000);
  const bool slow = faulty() && random_.chance(job_.faults.slow_percent);
  if (slow) checker_->misfortune(envelope);
  return slow ? 100 * delay_us : delay_us;
}

SimLink& Simulation::link_of(const Envelope& envelope) {
  auto& link = links_[std::minmax(envelope.from, envelope.to)];
  if (link) return *link;
  SimLinkPorts ports;
  ports.now_us = [this] { return now_us_; };
  ports.at = [this](std::uint64_t delay_us, std::function<void()> action) {
    at(delay_us, std::move(action));
  };
  ports.deliver = [this](const Envelope& arrived) { land(arrived); };
  ports.lost = [this](const Envelope& lost) {
    payloads_in_flight_ -= lost.payload ? 1 : 0;
    checker_->misfortune(lost);
  };
  ports.delay = [this](const Envelope& sent) { return delay_of(sent); };
  link = std::make_shared<SimLink>(job_.links, std::move(ports), bug_ == Bug::dropping_queue);
  link->begin();
  return *link;
}

/// Some link is cut for a while. Then both ends hear that it goes on.
void Simulation::cut_link() {
  if (links_.empty() || succeeded_) return;
  const auto chosen =
      std::next(links_.begin(), static_cast<std::ptrdiff_t>(random_.between(0, links_.size() - 1)));
  const Ends ends = chosen->first;
  const std::shared_ptr<SimLink> link = chosen->second;
  if (link->is_down()) return;
  trace({5, static_cast<std::uint64_t>(ends.first.role), ends.first.index, ends.second.index});
  link->cut([this] { return random_.chance(50); });
  at(random_.between(1'000, 300'000), [this, ends, link, generation = generation_] {
    link->resume();
    checker_->resumed(ends.first, ends.second);
    if (generation != generation_ || bug_ == Bug::silent_resumption) return;
    // The end that accepts connections hears it first.
    event(ends.second, actors::LinkResumed{ends.first});
    event(ends.first, actors::LinkResumed{ends.second});
  });
}

void Simulation::deliver(const Envelope& envelope) {
  if (listener_) listener_(fmt::format("{:>9} us  {}", now_us_, envelope_text(envelope)));
  trace({3, envelope.message.index(), envelope.generation, envelope.view, envelope.from.index});
  if (envelope.to.role == Role::coordinator) return coordinator(envelope);
  answered(envelope);
  event(envelope.to, actors::Received{envelope});
}

/// A planted bug: what has no answer is sent again after 50 ms, 150 ms, ... while its link is up.
void Simulation::repeat_by_time(const ActorId& from) {
  for (Unanswered& one : unanswered_) {
    if (one.envelope.from != from || now_us_ < one.due_us) continue;
    one.pause_us *= 2;
    one.due_us = now_us_ + one.pause_us;
    checker_->posted(one.envelope);
    travel(one.envelope);
  }
}

void Simulation::answered(const Envelope& envelope) {
  const auto* ack = std::get_if<schemas::PushAck>(&envelope.message);
  const auto* reply = std::get_if<schemas::WeightReply>(&envelope.message);
  if (unanswered_.empty() || (ack == nullptr && reply == nullptr)) return;
  std::erase_if(unanswered_, [&](const Unanswered& one) {
    if (one.envelope.from != envelope.to) return false;
    const auto* push = std::get_if<schemas::GradientPush>(&one.envelope.message);
    const auto* pull = std::get_if<schemas::WeightPull>(&one.envelope.message);
    if (push && ack) return schemas::push_name(*push, 0) == schemas::push_name(*ack, 0);
    return pull && reply && pull->slice == reply->slice && pull->step == reply->step;
  });
}

void Simulation::announce(const ActorId& to, const schemas::Message& message) {
  Envelope envelope;
  envelope.job = job_.spec.name;
  envelope.generation = generation_;
  envelope.view = placement_.view;
  envelope.from = actors::kCoordinator;
  envelope.to = to;
  envelope.message = message;
  std::uint64_t& until_us = told_until_us_[to];
  until_us = std::max(until_us, now_us_ + delay_of(envelope));
  at(until_us - now_us_, [this, envelope] { land(envelope); });
}

void Simulation::coordinator(const Envelope& envelope) {
  if (envelope.generation != generation_ || !job_state_) return;
  if (const auto* evaluation = std::get_if<schemas::EvaluationReport>(&envelope.message)) {
    checker_->evaluation(evaluation->step, evaluation->rank, evaluation->correct);
  } else if (const auto* checkpoint = std::get_if<schemas::CheckpointReport>(&envelope.message)) {
    if (checkpoint->code == base::Errc::ok && checkpoints_.count(checkpoint->step) == 0) {
      checker_->fail(fmt::format("checkpoint {} is reported but not there", checkpoint->step));
    }
  } else if (const auto* done = std::get_if<schemas::ActorDone>(&envelope.message)) {
    if (done->steps != job_.total_steps()) {
      checker_->fail(
          fmt::format("{} is done after {} steps", done->actor.to_string(), done->steps));
    }
  }
  drive(job_state_->handle(control::ActorSaid{envelope.from, envelope.message}));
}

/// Planted bugs in messages. False: the envelope is not sent.
bool Simulation::bend(Envelope& envelope) {
  auto* push = std::get_if<schemas::GradientPush>(&envelope.message);
  auto* pull = std::get_if<schemas::WeightPull>(&envelope.message);
  const bool to_owner = envelope.to.role == Role::parameter_server;
  if (bug_ == Bug::timed_repetition && to_owner && (push || pull)) {
    constexpr std::uint64_t kFirstUs = 50'000;
    unanswered_.push_back({envelope, now_us_ + kFirstUs, kFirstUs});
  }
  const auto forge_ack = [&] {
    Envelope ack = envelope;
    std::swap(ack.from, ack.to);
    ack.payload = {};
    ack.message = schemas::PushAck{push->slice, push->node, push->step};
    travel(ack);
  };
  if (auto* verdict = std::get_if<schemas::StepVerdict>(&envelope.message);
      bug_ == Bug::torn_verdict && verdict && envelope.to.index == 1) {
    verdict->skip = !verdict->skip;
  }
  if (bug_ == Bug::early_ack && push && !to_owner) forge_ack();
  if (bug_ == Bug::lost_push && push && to_owner && !lost_ && push->step > 0) {
    lost_ = true;
    forge_ack();
    return false;
  }
  if (bug_ == Bug::arrival_order && push && to_owner) {
    auto& names = renamed_[{push->slice, push->step}];
    const auto rank = static_cast<std::uint32_t>(names.size());
    const auto name = names.find(push->node);
    if (name == names.end()) {
      names[push->node] = {1, 0, rank, rank + 1};
      push->node = names[push->node];
    } else {
      push->node = name->second;
    }
  }
  if (auto* ack = std::get_if<schemas::PushAck>(&envelope.message);
      bug_ == Bug::arrival_order && ack && envelope.from.role == Role::parameter_server) {
    for (const auto& [real, forged] : renamed_[{ack->slice, ack->step}]) {
      if (forged != ack->node) continue;
      ack->node = real;
      break;
    }
  }
  if (auto* reply = std::get_if<schemas::WeightReply>(&envelope.message);
      bug_ == Bug::torn_version && reply && reply->slice.slice > 0 && !to_owner) {
    std::swap(older_[reply->slice], envelope.payload);
    if (!envelope.payload) envelope.payload = older_[reply->slice];
  }
  if (bug_ == Bug::stuck_credit && to_owner &&
      std::holds_alternative<schemas::CheckpointReport>(envelope.message)) {
    return false;
  }
  if (auto* ready = std::get_if<schemas::CutReady>(&envelope.message);
      bug_ == Bug::early_cut && ready) {
    ready->next = 0;
  }
  if (bug_ == Bug::ignored_bound && pull && to_owner && pull->version == schemas::kNewestVersion) {
    pull->applied_below = 0;
  }
  if (bug_ == Bug::open_barrier && pull && to_owner && pull->version == schemas::kBarrierVersion) {
    pull->version = schemas::kNewestVersion;
    pull->applied_below = 0;
  }
  return true;
}

}  // namespace troupe::sim
