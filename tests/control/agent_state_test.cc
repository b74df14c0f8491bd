// SPDX-License-Identifier: Apache-2.0
// An agent that is refused: for its name it tries again for a while, for all else it leaves.
#include "control/agent_state.h"

#include <catch2/catch.hpp>

namespace troupe::control {
namespace {

using base::Errc;

/// An agent that begins to join at 1 s of its clock.
struct Joining {
  Joining() {
    limits.join_wait_ms = 1'000;
    limits.retry_most_ms = 400;
    state.emplace(schemas::AgentHello{}, limits);
    state->handle(TimePassed{1'000});
    state->begin();
  }
  std::vector<AgentEffect> refuse(Errc code) {
    auto effects = state->handle(CoordinatorSaid{schemas::JobEnd{code, "no"}});
    for (AgentEffect& effect : state->handle(CoordinatorLost{"it said goodbye"})) {
      effects.push_back(std::move(effect));
    }
    return effects;
  }
  template <typename Kind>
  static const Kind* of_kind(const std::vector<AgentEffect>& effects) {
    for (const AgentEffect& effect : effects) {
      if (const auto* found = std::get_if<Kind>(&effect)) return found;
    }
    return nullptr;
  }
  base::Limits limits;
  std::optional<AgentState> state;
};

TEST_CASE("an agent whose name is in use tries again until its time is over") {
  Joining agent;
  CHECK(Joining::of_kind<ExitAgent>(agent.refuse(Errc::already_exists)) == nullptr);
  CHECK(agent.state->handle(TimePassed{1'399}).empty());
  const auto again = agent.state->handle(TimePassed{1'400});
  REQUIRE(Joining::of_kind<JoinAgain>(again) != nullptr);
  CHECK(Joining::of_kind<JoinAgain>(again)->wait_ms == 600);
  CHECK(agent.state->handle(TimePassed{1'500}).empty());
  SECTION("welcomed") {
    agent.state->begin();
    agent.state->handle(CoordinatorSaid{schemas::AgentWelcome{}});
    CHECK(agent.state->welcomed());
    agent.state->handle(TimePassed{9'000});
    const auto lost = agent.state->handle(CoordinatorLost{"gone"});
    CHECK(Joining::of_kind<ExitAgent>(lost) != nullptr);
  }
  SECTION("refused for too long") {
    agent.state->handle(TimePassed{1'700});
    const auto effects = agent.refuse(Errc::already_exists);
    REQUIRE(Joining::of_kind<ExitAgent>(effects) != nullptr);
    CHECK(Joining::of_kind<ExitAgent>(effects)->status.code() == Errc::already_exists);
  }
  SECTION("asked to end") {
    agent.refuse(Errc::already_exists);
    const auto effects = agent.state->handle(StopRequested{});
    REQUIRE(Joining::of_kind<ExitAgent>(effects) != nullptr);
    CHECK(Joining::of_kind<ExitAgent>(effects)->status.ok());
  }
}

TEST_CASE("an agent that is refused for anything else leaves at once") {
  Joining agent;
  const auto effects = agent.refuse(Errc::version_mismatch);
  REQUIRE(Joining::of_kind<ExitAgent>(effects) != nullptr);
  CHECK(Joining::of_kind<ExitAgent>(effects)->status.code() == Errc::version_mismatch);
}

}  // namespace
}  // namespace troupe::control
