// SPDX-License-Identifier: Apache-2.0
// AgentState: the processes that the coordinator asked for on one machine. It starts and stops
// them, tells how they ended, and carries messages between them and the coordinator. None outlives
// its job, its agent, or for long the coordinator. Pure: no clock, thread or socket; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "control/control_events.h"

namespace troupe::control {

/// See the top of the file.
class AgentState {
 public:
  using Effects = std::vector<AgentEffect>;

  AgentState(schemas::AgentHello hello, const base::Limits& limits);

  /// The link to the coordinator is up: introduces itself.
  Effects begin();
  /// Returns what is to be done, in order. Nothing after ExitAgent.
  Effects handle(const AgentEvent& event);

  /// Children that run.
  std::size_t children() const { return children_.size(); }
  bool welcomed() const { return welcomed_; }

 private:
  struct Child {
    std::vector<std::uint32_t> ranks;
    std::optional<std::uint64_t> kill_at_ms;
  };
  using Children = std::map<ProcessKey, Child>;

  void on(const CoordinatorSaid& said, Effects& effects);
  void on(const CoordinatorLost& lost, Effects& effects);
  void on(const ChildSaid& said, Effects& effects);
  void on(const ChildEnded& ended, Effects& effects);
  void on(const FolderProbed& probed, Effects& effects);
  void on(const StopRequested& stop, Effects& effects);
  void on(const TimePassed& time, Effects& effects);

  void on_message(const schemas::AgentWelcome& welcome, Effects& effects);
  /// Refused. Where the name is in use, that may be this agent's own, before it was started anew,
  /// whose link is not given up yet: it tries again for a while.
  void on_message(const schemas::JobEnd& end, Effects& effects);
  void on_message(const schemas::LaunchProcess& launch, Effects& effects);
  void on_message(const schemas::StopProcesses& stop, Effects& effects);
  void on_message(const schemas::ProcessMessage& message, Effects& effects);
  void on_message(const schemas::FolderProbe& probe, Effects& effects);
  template <typename Other>
  void on_message(const Other&, Effects&) {}

  /// The child that the message is for; a worker's is its host process.
  Children::iterator find(const schemas::ProcessMessage& message);
  void stop(Children::iterator child, std::uint64_t grace_ms, Effects& effects);
  void stop_all(Effects& effects);
  void exit_if_alone(Effects& effects);
  void tell(schemas::Message message, Effects& effects) const;

  schemas::AgentHello hello_;
  base::Limits limits_;
  Children children_;
  std::uint64_t now_ms_ = 0;
  std::optional<base::Status> leaving_;          // why the agent ends
  std::optional<std::uint64_t> stop_all_at_ms_;  // the grace after a lost coordinator
  std::optional<std::uint64_t> join_until_ms_;   // from the first look at the clock
  std::optional<std::uint64_t> join_again_at_ms_;
  bool welcomed_ = false;
  bool exited_ = false;
};

}  // namespace troupe::control
