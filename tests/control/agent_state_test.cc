// SPDX-License-Identifier: Apache-2.0
// An agent that is refused: for its name it tries again for a while, for all else it leaves. Its
// children: each is told as ended once it is reaped and was heard to its end; none is left alone.
#include "control/agent_state.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "schemas/codec.h"

namespace troupe::control {
namespace {

using base::Errc;
using schemas::ActorId;
using schemas::Role;

using Effects = std::vector<AgentEffect>;

template <typename Kind>
std::vector<Kind> all_of(const Effects& effects) {
  std::vector<Kind> found;
  for (const AgentEffect& effect : effects) {
    if (const auto* one = std::get_if<Kind>(&effect)) found.push_back(*one);
  }
  return found;
}

/// What is told to the coordinator, of one kind.
template <typename Message>
std::vector<Message> told(const Effects& effects) {
  std::vector<Message> found;
  for (const auto& send : all_of<Send<ToCoordinator>>(effects)) {
    if (const auto* message = std::get_if<Message>(&send.message)) found.push_back(*message);
  }
  return found;
}

/// An agent that begins to join at 1 s of its clock.
struct Joining {
  Joining() {
    limits.join_wait_ms = 1'000;
    limits.retry_most_ms = 400;
    limits.stop_grace_ms = 800;
    limits.agent_grace_ms = 300;
    state.emplace(schemas::AgentHello{}, limits);
    joins = all_of<JoinCoordinator>(state->handle(Begin{1'000}));
  }
  Effects refuse(Errc code, std::uint64_t join = 1) {
    Effects effects = state->handle(CoordinatorSaid{join, schemas::JobEnd{code, "no"}});
    for (AgentEffect& effect : state->handle(CoordinatorLost{join, "it said goodbye"})) {
      effects.push_back(std::move(effect));
    }
    return effects;
  }
  base::Limits limits;
  std::optional<AgentState> state;
  std::vector<JoinCoordinator> joins;
};

TEST_CASE("an agent joins, and introduces itself when the link is up") {
  Joining agent;
  REQUIRE(agent.joins.size() == 1);
  CHECK(agent.joins[0].join == 1);
  CHECK(agent.joins[0].wait_ms == 1'000);
  CHECK(told<schemas::AgentHello>(agent.state->handle(CoordinatorUp{1})).size() == 1);
}

TEST_CASE("an agent whose name is in use tries again until its time is over") {
  Joining agent;
  CHECK(all_of<End>(agent.refuse(Errc::already_exists)).empty());
  CHECK(agent.state->handle(Tick{1'399}).empty());
  const auto again = all_of<JoinCoordinator>(agent.state->handle(Tick{1'400}));
  REQUIRE(again.size() == 1);
  CHECK(again[0].join == 2);
  CHECK(again[0].wait_ms == 600);
  CHECK(agent.state->handle(Tick{1'500}).empty());
  SECTION("welcomed") {
    agent.state->handle(CoordinatorUp{2});
    agent.state->handle(CoordinatorSaid{2, schemas::AgentWelcome{}});
    agent.state->handle(Tick{9'000});
    const auto end = all_of<End>(agent.state->handle(CoordinatorLost{2, "gone"}));
    REQUIRE(end.size() == 1);
    CHECK(end[0].status.text() == "lost the coordinator: gone");
  }
  SECTION("of the earlier link nothing counts") {
    CHECK(agent.state->handle(CoordinatorUp{1}).empty());
    CHECK(agent.state->handle(CoordinatorSaid{1, schemas::JobEnd{Errc::internal, "no"}}).empty());
    CHECK(agent.state->handle(CoordinatorLost{1, "late"}).empty());
    CHECK(told<schemas::AgentHello>(agent.state->handle(CoordinatorUp{2})).size() == 1);
  }
  SECTION("refused for too long") {
    agent.state->handle(Tick{1'700});
    const auto end = all_of<End>(agent.refuse(Errc::already_exists, 2));
    REQUIRE(end.size() == 1);
    CHECK(end[0].status.code() == Errc::already_exists);
  }
  SECTION("asked to end") {
    agent.refuse(Errc::already_exists, 2);
    const Effects effects = agent.state->handle(StopRequested{});
    CHECK(all_of<LeaveCoordinator>(effects).empty());  // there is no link to leave
    REQUIRE(all_of<End>(effects).size() == 1);
    CHECK(all_of<End>(effects)[0].status.ok());
  }
}

TEST_CASE("an agent that is refused for anything else leaves at once") {
  Joining agent;
  const auto end = all_of<End>(agent.refuse(Errc::version_mismatch));
  REQUIRE(end.size() == 1);
  CHECK(end[0].status.code() == Errc::version_mismatch);
}

TEST_CASE("an agent that is asked to end says goodbye first, once") {
  Joining agent;
  agent.state->handle(CoordinatorUp{1});
  const Effects effects = agent.state->handle(StopRequested{});
  CHECK(all_of<LeaveCoordinator>(effects).size() == 1);
  CHECK(all_of<End>(effects).empty());
  CHECK(agent.state->handle(StopRequested{}).empty());
  const auto end = all_of<End>(agent.state->handle(CoordinatorLost{1, "it said goodbye"}));
  REQUIRE(end.size() == 1);
  CHECK(end[0].status.ok());
}

/// An agent that has joined, and its child `host`.
struct Parent : Joining {
  Parent() {
    state->handle(CoordinatorUp{1});
    state->handle(CoordinatorSaid{1, schemas::AgentWelcome{}});
    launch.job = std::string("x");
    launch.generation = 2;
    launch.actor = host.actor;
    launch.ranks = {4, 5};
    launch.job_text = std::string("spec");
    begun = state->handle(CoordinatorSaid{1, launch});
  }
  Effects stop(std::uint64_t grace_ms) {
    return state->handle(CoordinatorSaid{1, schemas::StopProcesses{"x", 2, grace_ms}});
  }
  const ProcessKey host{"x", 2, {Role::device_server, 1}};
  schemas::LaunchProcess launch;
  Effects begun;
};

TEST_CASE("a child is started once and learns what to do when it is there") {
  Parent agent;
  REQUIRE(all_of<StartChild>(agent.begun).size() == 1);
  CHECK(all_of<StartChild>(agent.begun)[0].process == agent.host);
  CHECK(agent.state->handle(CoordinatorSaid{1, agent.launch}).empty());
  const auto sent = all_of<Send<ToChild>>(agent.state->handle(ChildStarted{agent.host, {}}));
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].to.process == agent.host);
  CHECK(sent[0].to.actor == agent.host.actor);
  CHECK(std::get<schemas::LaunchProcess>(sent[0].message).job_text == "spec");
}

TEST_CASE("a child has ended when it is reaped and everything that it said was read") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}});
  const bool exit_first = GENERATE(true, false);
  const AgentEvent exited = ChildExited{agent.host, "exit 1", false};
  const AgentEvent silent = ChildSilent{agent.host};
  CHECK(agent.state->handle(exit_first ? exited : silent).empty());
  CHECK(agent.state->children() == 1);
  const ActorId rank{Role::worker, 4};
  if (exit_first) {
    const auto last = agent.state->handle(
        ChildSaid{agent.host, rank, schemas::ActorFailed{rank, Errc::data_loss, "why"}});
    CHECK(told<schemas::ProcessMessage>(last).size() == 1);
  }
  const auto ended =
      told<schemas::ProcessExited>(agent.state->handle(exit_first ? silent : exited));
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].how == "exit 1");
  CHECK(ended[0].actor == agent.host.actor);
  CHECK(agent.state->children() == 0);
}

TEST_CASE("a child speaks for its own actors; one that does not has failed") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}});
  const auto say = [&](const ActorId& from) {
    return agent.state->handle(ChildSaid{agent.host, from, schemas::ActorDone{from, 3}});
  };
  for (const ActorId own : {agent.host.actor, ActorId{Role::worker, 4}, ActorId{Role::worker, 5}}) {
    const auto carried = told<schemas::ProcessMessage>(say(own));
    REQUIRE(carried.size() == 1);
    CHECK(carried[0].actor == own);
  }
  for (const ActorId other : {ActorId{Role::worker, 3}, ActorId{Role::device_server, 0},
                              ActorId{Role::parameter_server, 1}, ActorId{Role::coordinator, 0}}) {
    const Effects effects = say(other);
    const auto carried = told<schemas::ProcessMessage>(effects);
    REQUIRE(carried.size() == 1);
    CHECK(carried[0].actor == agent.host.actor);
    const auto inner = schemas::decode_message(carried[0].message);
    REQUIRE(inner.ok());
    const auto& failed = std::get<schemas::ActorFailed>(*inner);
    CHECK(failed.actor == agent.host.actor);
    CHECK(failed.text == "its process speaks in the name of " + other.to_string());
    REQUIRE(all_of<StopChild>(effects).size() == 1);
    CHECK(all_of<StopChild>(effects)[0].kill);
  }
}

TEST_CASE("a child that could not be started is told at once") {
  Parent agent;
  const auto ended = told<schemas::ProcessExited>(
      agent.state->handle(ChildNotStarted{agent.host, "no such file"}));
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].how == "not started: no such file");
  CHECK_FALSE(ended[0].clean);
  CHECK(agent.state->children() == 0);
}

TEST_CASE("a child that nobody can speak to is killed, and its exit is its end") {
  Parent agent;
  const Effects effects = agent.state->handle(
      ChildStarted{agent.host, base::error(Errc::invalid_argument, "no socket")});
  CHECK(all_of<Send<ToChild>>(effects).empty());
  REQUIRE(all_of<StopChild>(effects).size() == 1);
  CHECK(all_of<StopChild>(effects)[0].kill);
  CHECK(
      told<schemas::ProcessExited>(agent.state->handle(ChildExited{agent.host, "signal 9", false}))
          .size() == 1);
}

TEST_CASE("a child is asked to end, then killed, and again until it is gone") {
  Parent agent;
  SECTION("one that runs") {
    agent.state->handle(ChildStarted{agent.host, {}});
    const auto asked = all_of<StopChild>(agent.stop(500));
    REQUIRE(asked.size() == 1);
    CHECK_FALSE(asked[0].kill);
    CHECK(agent.state->handle(Tick{1'499}).empty());
    for (const std::uint64_t now_ms : {1'500, 2'300}) {
      const auto killed = all_of<StopChild>(agent.state->handle(Tick{now_ms}));
      REQUIRE(killed.size() == 1);
      CHECK(killed[0].kill);
    }
  }
  SECTION("a second wish shortens the grace and never lengthens it") {
    agent.state->handle(ChildStarted{agent.host, {}});
    agent.stop(500);
    agent.stop(100);
    agent.stop(5'000);
    CHECK(all_of<StopChild>(agent.state->handle(Tick{1'100})).size() == 1);
  }
  SECTION("one that is only starting") {
    CHECK(all_of<StopChild>(agent.stop(500)).empty());
    const auto killed = all_of<StopChild>(agent.state->handle(ChildStarted{agent.host, {}}));
    REQUIRE(killed.size() == 1);
    CHECK(killed[0].kill);
  }
  SECTION("of another run nobody is") {
    CHECK(agent.state->handle(CoordinatorSaid{1, schemas::StopProcesses{"x", 1, 0}}).empty());
    CHECK(agent.state->handle(CoordinatorSaid{1, schemas::StopProcesses{"y", 2, 0}}).empty());
  }
}

TEST_CASE("children outlive the coordinator by the grace, and the agent its children") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}});
  SECTION("lost") {
    CHECK(all_of<Note>(agent.state->handle(CoordinatorLost{1, "cut"})).size() == 1);
  }
  SECTION("turned away") {
    agent.state->handle(CoordinatorSaid{1, schemas::JobEnd{Errc::permission_denied, "no"}});
    agent.state->handle(CoordinatorLost{1, "it said goodbye"});
  }
  CHECK(all_of<StopChild>(agent.state->handle(Tick{1'299})).empty());
  CHECK(all_of<StopChild>(agent.state->handle(Tick{1'300})).size() == 1);
  agent.state->handle(ChildSilent{agent.host});
  const Effects effects = agent.state->handle(ChildExited{agent.host, "signal 15", false});
  CHECK(told<schemas::ProcessExited>(effects).empty());  // there is nobody to tell
  REQUIRE(all_of<End>(effects).size() == 1);
  CHECK_FALSE(all_of<End>(effects)[0].status.ok());
  CHECK(agent.state->handle(Tick{9'000}).empty());
}

TEST_CASE("a message for a worker goes to the process that holds its rank") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}});
  const auto to = [&](const ActorId& actor, std::uint64_t generation) {
    const std::string text(1, 'x');
    return agent.state->handle(
        CoordinatorSaid{1, schemas::ProcessMessage{"x", generation, actor, text}});
  };
  // The text is no message, so a Note says that somebody would have got it.
  CHECK(all_of<Note>(to({Role::worker, 5}, 2)).size() == 1);
  CHECK(all_of<Note>(to(agent.host.actor, 2)).size() == 1);
  CHECK(to({Role::worker, 6}, 2).empty());
  CHECK(to({Role::worker, 5}, 1).empty());
}

}  // namespace
}  // namespace troupe::control
