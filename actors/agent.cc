// SPDX-License-Identifier: Apache-2.0
// The agent's mailbox and clock.
#include "actors/agent.h"

#include <utility>

namespace troupe::actors {
namespace {

/// How often deadlines are looked at; the shortest are some hundred milliseconds long.
constexpr std::uint64_t kTickMs = 500;

bool comes_over_a_link(const control::AgentEvent& event) {
  return std::holds_alternative<control::CoordinatorSaid>(event) ||
         std::holds_alternative<control::ChildSaid>(event);
}

}  // namespace

Agent::Agent(ActorSystem& system, const base::Clock& clock, AgentPorts& ports,
             schemas::AgentHello hello, const base::Limits& limits)
    : RoleShell("agent '" + hello.name + "'", hello, limits), ports_(ports) {
  begin(system, clock, kTickMs, limits);
}

void Agent::start() {
  post(control::Begin{now_ms()});
}

void Agent::hear(Event said) {
  TROUPE_CHECK(comes_over_a_link(said), "all else has no sender who could wait");
  backlog_.enter();
  post(std::move(said));
}

void Agent::handle(Event event) {
  const bool heard = comes_over_a_link(event);
  RoleShell::handle(std::move(event));
  if (heard) backlog_.leave();
}

std::optional<base::Status> Agent::result() const {
  const base::MutexLock lock(mutex_);
  return result_;
}

void Agent::perform(const control::End& end) {
  const base::MutexLock lock(mutex_);
  result_ = end.status;
}

}  // namespace troupe::actors
