// SPDX-License-Identifier: Apache-2.0
// Transitions of an agent.
#include "control/agent_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "schemas/codec.h"

namespace troupe::control {

using schemas::Role;

AgentState::AgentState(schemas::AgentHello hello, const base::Limits& limits)
    : hello_(std::move(hello)), limits_(limits) {}

std::vector<AgentState::Effect> AgentState::handle(const Event& event) {
  if (ended_) return {};
  std::visit([this](const auto& what) { on(what); }, event);
  TROUPE_CHECK(begun_ || effects_.empty(), "what has not begun does nothing");
  end_if_alone();
  return std::exchange(effects_, {});
}

void AgentState::on(const Begin& begin) {
  TROUPE_CHECK(!begun_, "an agent begins once");
  begun_ = true;
  now_ms_ = begin.now_ms;
  join_until_ms_ = now_ms_ + limits_.join_wait_ms;
  join(limits_.join_wait_ms);
}

void AgentState::on(const Tick& tick) {
  if (!begun_) return;  // the shell's clock may be first
  TROUPE_CHECK(tick.now_ms >= now_ms_, "a monotonic clock does not go back");
  now_ms_ = tick.now_ms;
  if (join_again_at_ms_ && now_ms_ >= *join_again_at_ms_) {
    join_again_at_ms_.reset();
    if (!leaving_) join(join_until_ms_ - std::min(now_ms_, join_until_ms_));
  }
  if (stop_all_at_ms_ && now_ms_ >= *stop_all_at_ms_) {
    stop_all_at_ms_.reset();
    stop_all();
  }
  for (auto& [process, child] : children_) {
    if (!child.kill_at_ms || now_ms_ < *child.kill_at_ms) continue;
    stop(process, child, 0);
    child.kill_at_ms = now_ms_ + limits_.stop_grace_ms;  // and again, should that be lost
  }
}

// ---- the coordinator ----

/// Every link has a number. What is still said on an earlier one is not this agent's business any
/// more: a refusal and the end of a link come one after the other, and may come late.
void AgentState::join(std::uint64_t wait_ms) {
  TROUPE_CHECK(!leaving_, "an agent that leaves joins nobody");
  linked_ = true;
  emit(JoinCoordinator{++joins_, wait_ms});
}

void AgentState::on(const CoordinatorUp& up) {
  if (up.join == joins_) tell(hello_);
}

void AgentState::on(const CoordinatorSaid& said) {
  if (said.join != joins_) return;
  std::visit([&](const auto& message) { on_message(message); }, said.message);
}

/// Children outlive a lost coordinator by a grace, in which they may still end well by themselves:
/// their last messages are lost, their checkpoints are not.
void AgentState::on(const CoordinatorLost& lost) {
  if (lost.join != joins_) return;
  linked_ = false;
  saying_goodbye_ = false;
  if (leaving_ || join_again_at_ms_) return;
  leaving_ = base::error(base::Errc::unavailable, "{}{}", welcomed_ ? "lost the coordinator: " : "",
                         lost.reason);
  stop_all_at_ms_ = now_ms_ + limits_.agent_grace_ms;
  if (children_.empty()) return;
  emit(Note{true, fmt::format("{}; its {} processes stop in {} ms", leaving_->text(),
                              children_.size(), limits_.agent_grace_ms)});
}

void AgentState::on(const StopRequested&) {
  if (leaving_ && leaving_->ok()) return;
  if (!leaving_ && linked_) {
    saying_goodbye_ = true;
    emit(LeaveCoordinator{"the agent was asked to end"});
  }
  leaving_ = base::Status();
  stop_all_at_ms_.reset();
  stop_all();
}

void AgentState::on_message(const schemas::AgentWelcome& welcome) {
  welcomed_ = true;
  emit(Note{false, fmt::format("joined the coordinator (version {}) as '{}'",
                               welcome.coordinator_version, hello_.name)});
}

/// Refused. Where the name is in use, that may be this agent's own, before it was started anew,
/// whose link is not given up yet: it tries again for a while (decision 0005). One that is turned
/// away later, with children, leaves like one that has lost the coordinator.
void AgentState::on_message(const schemas::JobEnd& end) {
  if (leaving_ || join_again_at_ms_) return;
  const std::uint64_t again_ms = now_ms_ + limits_.retry_most_ms;
  if (!welcomed_ && end.code == base::Errc::already_exists && again_ms < join_until_ms_) {
    join_again_at_ms_ = again_ms;
    emit(Note{true, end.text + "; trying again"});
    return;
  }
  leaving_ = end.code == base::Errc::ok ? base::Status() : base::Status(end.code, end.text);
  stop_all_at_ms_ = now_ms_ + limits_.agent_grace_ms;
}

/// While the agent leaves nobody is told anything: the link is ending or gone, and the coordinator
/// knows by its end that all processes here are lost.
void AgentState::tell(schemas::Message message) {
  if (!leaving_) emit(Send<ToCoordinator>{{}, std::move(message)});
}

// ---- children ----

/// A command that comes again starts nothing twice.
void AgentState::on_message(const schemas::LaunchProcess& launch) {
  const ProcessKey process{launch.job, launch.generation, launch.actor};
  if (leaving_ || children_.contains(process)) return;
  Child& child = children_[process];
  child.launch = launch;
  child.ranks = launch.ranks;
  emit(StartChild{process});
}

void AgentState::on_message(const schemas::StopProcesses& wanted) {
  for (auto& [process, child] : children_) {
    if (process.job != wanted.job || process.generation != wanted.generation) continue;
    stop(process, child, wanted.grace_ms);
  }
}

void AgentState::on_message(const schemas::ProcessMessage& message) {
  const auto child = find(message);
  if (child == children_.end()) return;
  auto inner = schemas::decode_message(message.message);
  if (!inner.ok()) {
    return emit(Note{true, fmt::format("a message for {} of job {}: {}", message.actor.to_string(),
                                       message.job, inner.status().text())});
  }
  emit(Send<ToChild>{{child->first, message.actor}, std::move(inner).value()});
}

void AgentState::on_message(const schemas::FolderProbe& probe) {
  emit(ProbeFolder{probe});
}

void AgentState::on(const FolderProbed& probed) {
  tell(probed.result);
}

/// What a child needs to know it learns as soon as it can listen. One that nobody can speak to is
/// of no use, and one that was to be stopped before it was there has nothing to end in good order:
/// both are killed.
void AgentState::on(const ChildStarted& started) {
  Child& child = child_of(started.process);
  TROUPE_CHECK(!child.started, "a child starts once");
  child.started = true;
  if (!started.link.ok()) {
    child.silent = true;
    return emit(StopChild{started.process, true});
  }
  if (child.stop_wanted) emit(StopChild{started.process, true});
  emit(Send<ToChild>{{started.process, started.process.actor}, std::move(child.launch)});
}

void AgentState::on(const ChildNotStarted& failed) {
  Child& child = child_of(failed.process);
  TROUPE_CHECK(!child.started, "a child that has started ends by an exit");
  child.exit = Exit{"not started: " + failed.reason, false};
  child.silent = true;
  tell_if_ended(failed.process);
}

/// A child speaks for its own actors. One that does not has failed, and is believed nothing more.
void AgentState::on(const ChildSaid& said) {
  const auto child = children_.find(said.process);
  if (child == children_.end()) return;
  const std::vector<std::uint32_t>& ranks = child->second.ranks;
  const bool own = said.from == said.process.actor ||
                   (said.from.role == Role::worker &&
                    std::find(ranks.begin(), ranks.end(), said.from.index) != ranks.end());
  if (!own) {
    const std::string fault =
        fmt::format("its process speaks in the name of {}", said.from.to_string());
    emit(StopChild{said.process, true});
    return carry(said.process, said.process.actor,
                 schemas::ActorFailed{said.process.actor, base::Errc::data_loss, fault});
  }
  carry(said.process, said.from, said.message);
}

/// To the coordinator, from an actor of a child.
void AgentState::carry(const ProcessKey& process, const schemas::ActorId& from,
                       const schemas::Message& message) {
  auto bytes = schemas::encode_message(message);
  if (!bytes.ok()) {
    return emit(Note{true, fmt::format("{} of job {}: {}", from.to_string(), process.job,
                                       bytes.status().text())});
  }
  tell(schemas::ProcessMessage{process.job, process.generation, from, std::move(bytes).value()});
}

void AgentState::on(const ChildExited& exited) {
  Child& child = child_of(exited.process);
  TROUPE_CHECK(child.started, "a process that exits has started");
  TROUPE_CHECK(!child.exit, "a process exits once");
  child.exit = Exit{exited.how, exited.clean};
  tell_if_ended(exited.process);
}

/// The link of a child that could not be adopted tells nothing; the one of a child that is known to
/// be silent already says nothing new.
void AgentState::on(const ChildSilent& silent) {
  child_of(silent.process).silent = true;
  tell_if_ended(silent.process);
}

/// A child has ended when it is reaped and everything that it said was read: the cause of its end
/// is often its last message, and must reach the coordinator before the bare exit.
void AgentState::tell_if_ended(const ProcessKey& process) {
  const auto child = children_.find(process);
  if (!child->second.exit || !child->second.silent) return;
  const Exit exit = *child->second.exit;
  const ProcessKey ended = child->first;  // `process` may be a part of the child
  children_.erase(child);
  tell(schemas::ProcessExited{ended.job, ended.generation, ended.actor, exit.how, exit.clean});
}

/// The child that the message is for; a worker's is its host process.
AgentState::Children::iterator AgentState::find(const schemas::ProcessMessage& message) {
  if (message.actor.role != Role::worker) {
    return children_.find({message.job, message.generation, message.actor});
  }
  return std::find_if(children_.begin(), children_.end(), [&](const auto& entry) {
    const std::vector<std::uint32_t>& ranks = entry.second.ranks;
    return entry.first.job == message.job && entry.first.generation == message.generation &&
           std::find(ranks.begin(), ranks.end(), message.actor.index) != ranks.end();
  });
}

/// The shell tells of children that it was asked to start, and of none after its end.
AgentState::Child& AgentState::child_of(const ProcessKey& process) {
  const auto child = children_.find(process);
  TROUPE_CHECK(child != children_.end(), "a child is known until it has ended");
  return child->second;
}

void AgentState::stop(const ProcessKey& process, Child& child, std::uint64_t grace_ms) {
  const std::uint64_t kill_at_ms = now_ms_ + grace_ms;
  // A second wish may shorten the first one's grace, not lengthen it.
  child.kill_at_ms = child.kill_at_ms ? std::min(*child.kill_at_ms, kill_at_ms) : kill_at_ms;
  if (child.started) {
    emit(StopChild{process, grace_ms == 0});
  } else {
    child.stop_wanted = true;
  }
}

void AgentState::stop_all() {
  for (auto& [process, child] : children_) stop(process, child, limits_.stop_grace_ms / 4);
}

/// The Goodbye goes out before the end: without it the coordinator would take the agent for lost
/// and wait for its link to heal. The link bounds it by limits.goodbye_ms.
void AgentState::end_if_alone() {
  if (!leaving_ || !children_.empty() || saying_goodbye_) return;
  ended_ = true;
  emit(End{*leaving_});
}

}  // namespace troupe::control
