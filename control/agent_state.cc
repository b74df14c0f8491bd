// SPDX-License-Identifier: Apache-2.0
// Transitions of an agent.
#include "control/agent_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "schemas/codec.h"

namespace troupe::control {

using schemas::Role;

AgentState::AgentState(schemas::AgentHello hello, const base::Limits& limits)
    : hello_(std::move(hello)), limits_(limits) {}

AgentState::Effects AgentState::begin() {
  Effects effects;
  tell(hello_, effects);
  return effects;
}

AgentState::Effects AgentState::handle(const AgentEvent& event) {
  Effects effects;
  if (exited_) return effects;
  std::visit([&](const auto& content) { on(content, effects); }, event);
  exit_if_alone(effects);
  return effects;
}

void AgentState::on(const CoordinatorSaid& said, Effects& effects) {
  std::visit([&](const auto& message) { on_message(message, effects); }, said.message);
}

void AgentState::on(const CoordinatorLost& lost, Effects& effects) {
  if (leaving_ || join_again_at_ms_) return;
  leaving_ = base::error(base::Errc::unavailable, "{}{}", welcomed_ ? "lost the coordinator: " : "",
                         lost.reason);
  stop_all_at_ms_ = now_ms_ + limits_.agent_grace_ms;
  if (children_.empty()) return;
  effects.push_back(Note{true, fmt::format("{}; its {} processes stop in {} ms", leaving_->text(),
                                           children_.size(), limits_.agent_grace_ms)});
}

void AgentState::on(const StopRequested&, Effects& effects) {
  if (leaving_ && leaving_->ok()) {
    // Asked twice: at once.
    for (const auto& [key, child] : children_) effects.push_back(StopChild{key, true});
    return;
  }
  if (!leaving_) effects.push_back(LeaveCoordinator{"the agent was asked to end"});
  leaving_ = base::Status();
  stop_all_at_ms_.reset();
  stop_all(effects);
}

void AgentState::on(const ChildSaid& said, Effects& effects) {
  if (!children_.contains(said.process)) return;
  auto bytes = schemas::encode_message(said.message);
  if (!bytes.ok()) {
    effects.push_back(Note{true, fmt::format("{} of job {}: {}", said.from.to_string(),
                                             said.process.job, bytes.status().text())});
    return;
  }
  tell(schemas::ProcessMessage{said.process.job, said.process.generation, said.from,
                               std::move(bytes).value()},
       effects);
}

void AgentState::on(const ChildEnded& ended, Effects& effects) {
  if (children_.erase(ended.process) == 0) return;
  const ProcessKey& process = ended.process;
  tell(schemas::ProcessExited{process.job, process.generation, process.actor, ended.how,
                              ended.clean},
       effects);
}

void AgentState::on(const FolderProbed& probed, Effects& effects) {
  tell(probed.result, effects);
}

void AgentState::on(const TimePassed& time, Effects& effects) {
  now_ms_ = time.now_ms;
  if (!join_until_ms_) join_until_ms_ = now_ms_ + limits_.join_wait_ms;
  if (join_again_at_ms_ && now_ms_ >= *join_again_at_ms_) {
    join_again_at_ms_.reset();
    const std::uint64_t left_ms = *join_until_ms_ - std::min(now_ms_, *join_until_ms_);
    if (!leaving_) effects.push_back(JoinAgain{left_ms});
  }
  if (stop_all_at_ms_ && now_ms_ >= *stop_all_at_ms_) {
    stop_all_at_ms_.reset();
    stop_all(effects);
  }
  for (auto& [key, child] : children_) {
    if (!child.kill_at_ms || now_ms_ < *child.kill_at_ms) continue;
    effects.push_back(StopChild{key, true});
    child.kill_at_ms = now_ms_ + limits_.stop_grace_ms;  // and again, should that be lost
  }
}

void AgentState::on_message(const schemas::AgentWelcome& welcome, Effects& effects) {
  welcomed_ = true;
  effects.push_back(Note{false, fmt::format("joined the coordinator (version {}) as '{}'",
                                            welcome.coordinator_version, hello_.name)});
}

void AgentState::on_message(const schemas::JobEnd& end, Effects& effects) {
  if (leaving_ || join_again_at_ms_) return;
  const std::uint64_t again_ms = now_ms_ + limits_.retry_most_ms;
  const bool in_time = join_until_ms_ && again_ms < *join_until_ms_;
  if (!welcomed_ && end.code == base::Errc::already_exists && in_time) {
    join_again_at_ms_ = again_ms;
    effects.push_back(Note{true, end.text + "; trying again"});
    return;
  }
  leaving_ = base::Status(end.code, end.text);
}

void AgentState::on_message(const schemas::LaunchProcess& launch, Effects& effects) {
  const ProcessKey key{launch.job, launch.generation, launch.actor};
  if (leaving_ || children_.contains(key)) return;
  children_[key] = Child{launch.ranks, {}};
  effects.push_back(StartChild{key, launch});
}

void AgentState::on_message(const schemas::StopProcesses& stop_them, Effects& effects) {
  for (auto child = children_.begin(); child != children_.end(); ++child) {
    const ProcessKey& key = child->first;
    if (key.job != stop_them.job || key.generation != stop_them.generation) continue;
    stop(child, stop_them.grace_ms, effects);
  }
}

void AgentState::on_message(const schemas::ProcessMessage& message, Effects& effects) {
  const auto child = find(message);
  if (child == children_.end()) return;
  auto inner = schemas::decode_message(message.message);
  if (!inner.ok()) {
    effects.push_back(
        Note{true, fmt::format("a message for {} of job {}: {}", message.actor.to_string(),
                               message.job, inner.status().text())});
    return;
  }
  effects.push_back(ToChild{child->first, message.actor, std::move(inner).value()});
}

void AgentState::on_message(const schemas::FolderProbe& probe, Effects& effects) {
  effects.push_back(ProbeFolder{probe});
}

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

void AgentState::stop(Children::iterator child, std::uint64_t grace_ms, Effects& effects) {
  const std::uint64_t kill_at_ms = now_ms_ + grace_ms;
  std::optional<std::uint64_t>& planned = child->second.kill_at_ms;
  planned = planned ? std::min(*planned, kill_at_ms) : kill_at_ms;
  effects.push_back(StopChild{child->first, grace_ms == 0});
}

void AgentState::stop_all(Effects& effects) {
  for (auto child = children_.begin(); child != children_.end(); ++child) {
    stop(child, limits_.stop_grace_ms / 4, effects);
  }
}

void AgentState::exit_if_alone(Effects& effects) {
  // A lost coordinator is waited for during the grace only where children would be lost with it.
  if (!leaving_ || !children_.empty()) return;
  exited_ = true;
  effects.push_back(ExitAgent{*leaving_});
}

void AgentState::tell(schemas::Message message, Effects& effects) const {
  if (!leaving_) effects.push_back(ToCoordinator{std::move(message)});
}

}  // namespace troupe::control
