// SPDX-License-Identifier: Apache-2.0
// An agent that loses the coordinator or finds its name in use tries again for a while; refused for
// anything else it leaves. Its children: each is told as ended once it is reaped and was heard to
// its end; none is left alone, and none is taken along to another link.
#include "control/agent_state.h"

#include <string>
#include <utility>

#include "schemas/codec.h"
#include "tests/control/agent_support.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using schemas::ActorId;
using schemas::Role;
using testing::all_of;
using testing::Effects;
using testing::Joining;
using testing::notes_of;
using testing::Parent;
using testing::told;

TEST_CASE("an agent joins, and introduces itself when the link is up") {
  Joining agent;
  REQUIRE(agent.joins.size() == 1);
  CHECK(agent.joins[0].join == 1);
  CHECK(agent.joins[0].wait_ms == 0);  // if that fails its reason is told at once
  CHECK(told<schemas::AgentHello>(agent.state->handle(CoordinatorUp{1})).size() == 1);
}

TEST_CASE("an agent that reaches no coordinator tries on, says so, and at last ends") {
  Joining agent;
  const auto notes = all_of<Note>(agent.state->handle(CoordinatorLost{1, "refused"}));
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].warning);
  CHECK(notes[0].text == "refused; tries again for 100 s");
  std::uint64_t now_ms = 1'000;
  std::uint64_t join = 1;
  int told_of = 0;
  std::vector<End> end;
  while (end.empty() && now_ms < 200'000) {
    now_ms += 50;
    const auto joins = all_of<JoinCoordinator>(agent.state->handle(Tick{now_ms}));
    if (joins.empty()) continue;
    CHECK(joins[0].join == ++join);
    now_ms += joins[0].wait_ms;
    agent.state->handle(Tick{now_ms});
    const Effects effects = agent.state->handle(CoordinatorLost{join, "refused"});
    told_of += static_cast<int>(all_of<Note>(effects).size());
    end = all_of<End>(effects);
  }
  REQUIRE(end.size() == 1);
  CHECK(end[0].status.code() == Errc::unavailable);
  CHECK(end[0].status.text() == "refused");
  CHECK(now_ms >= 100'900);  // it began at 1,000
  CHECK(now_ms <= 101'000);
  CHECK(told_of == 3);
}

TEST_CASE("an agent tells a new reason at once, and the same one now and then") {
  Joining agent;
  std::uint64_t now_ms = 1'000;
  std::uint64_t join = 1;
  const auto told_of = [&](const std::string& reason) {
    const auto notes = all_of<Note>(agent.state->handle(CoordinatorLost{join, reason}));
    while (all_of<JoinCoordinator>(agent.state->handle(Tick{now_ms})).empty()) now_ms += 50;
    ++join;
    return notes.size();
  };
  CHECK(told_of("nobody listens") == 1);
  CHECK(told_of("nobody listens") == 0);
  CHECK(told_of("its certificate has expired") == 1);
  CHECK(told_of("its certificate has expired") == 0);
  CHECK(told_of("nobody listens") == 1);
  CHECK(now_ms < 30'000);
}

TEST_CASE("an agent whose name is in use tries again until its time is over") {
  Joining agent;
  const Effects refused = agent.refuse(Errc::already_exists);
  CHECK(all_of<End>(refused).empty());
  REQUIRE(all_of<Note>(refused).size() == 1);
  CHECK(all_of<Note>(refused)[0].text == "no; tries again for 100 s");
  CHECK(agent.state->handle(Tick{1'399}).empty());
  const auto again = all_of<JoinCoordinator>(agent.state->handle(Tick{1'400}));
  REQUIRE(again.size() == 1);
  CHECK(again[0].join == 2);
  CHECK(again[0].wait_ms == 30'000);
  CHECK(agent.state->handle(Tick{1'500}).empty());
  SECTION("welcomed") {
    agent.state->handle(CoordinatorUp{2});
    const auto joined = agent.state->handle(CoordinatorSaid{2, schemas::AgentWelcome{}});
    CHECK(all_of<Note>(joined).size() == 1);
  }
  SECTION("of the earlier link nothing counts") {
    CHECK(agent.state->handle(CoordinatorUp{1}).empty());
    CHECK(agent.state->handle(CoordinatorSaid{1, schemas::JobEnd{Errc::internal, "no"}}).empty());
    CHECK(agent.state->handle(CoordinatorLost{1, "late"}).empty());
    CHECK(told<schemas::AgentHello>(agent.state->handle(CoordinatorUp{2})).size() == 1);
  }
  SECTION("refused for as long as a frozen forerunner's link lives, and for too long") {
    std::uint64_t now_ms = 1'500;
    std::uint64_t join = 2;
    while (true) {
      agent.state->handle(CoordinatorUp{join});
      const Effects effects = agent.refuse(Errc::already_exists, join);
      if (!all_of<End>(effects).empty()) {
        CHECK(all_of<End>(effects)[0].status.code() == Errc::already_exists);
        break;
      }
      while (all_of<JoinCoordinator>(agent.state->handle(Tick{now_ms})).empty()) now_ms += 50;
      ++join;
    }
    CHECK(now_ms > 100'000);
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

TEST_CASE("an agent that is asked to end has its jobs saved first") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  const Effects asked = agent.state->handle(StopRequested{});
  CHECK(told<schemas::AgentLeaving>(asked).size() == 1);
  CHECK(all_of<StopChild>(asked).empty());
  CHECK(all_of<LeaveCoordinator>(asked).empty());
  // The coordinator is still spoken with.
  const auto words = told<schemas::ProcessMessage>(
      agent.state->handle(ChildSaid{agent.host, agent.host.actor, schemas::CutReady{1, 1, 2}}));
  CHECK(words.size() == 1);
  SECTION("until it has taken them away") {
    CHECK(all_of<StopChild>(agent.stop(500)).size() == 1);
    agent.state->handle(ChildSilent{agent.host, {}});
    const Effects ended = agent.state->handle(ChildExited{agent.host, "exit 1", false});
    CHECK(told<schemas::ProcessExited>(ended).size() == 1);
    CHECK(all_of<LeaveCoordinator>(ended).size() == 1);
  }
  SECTION("until its time is over") {
    const std::uint64_t until_ms = 1'000 + agent.limits.cut_ms + agent.limits.stop_grace_ms;
    CHECK(all_of<LeaveCoordinator>(agent.state->handle(Tick{until_ms - 1})).empty());
    const Effects late = agent.state->handle(Tick{until_ms});
    CHECK(all_of<LeaveCoordinator>(late).size() == 1);
    CHECK(all_of<StopChild>(late).size() == 1);
  }
  SECTION("until it is asked once more") {
    const Effects again = agent.state->handle(StopRequested{});
    CHECK(all_of<LeaveCoordinator>(again).size() == 1);
    CHECK(all_of<StopChild>(again).size() == 1);
  }
  SECTION("unless there is no coordinator any more") {
    CHECK(all_of<StopChild>(agent.state->handle(CoordinatorLost{1, "gone"})).size() == 1);
    agent.state->handle(ChildSilent{agent.host, {}});
    const auto end = all_of<End>(agent.state->handle(ChildExited{agent.host, "exit 1", false}));
    REQUIRE(end.size() == 1);
    CHECK(end[0].status.ok());
  }
}

TEST_CASE("files of a job that are wanted anew keep an agent from ending once") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  agent.stop(500);
  agent.state->handle(ChildSilent{agent.host, {}});
  agent.state->handle(ChildExited{agent.host, "exit 0", true});
  const auto place = [&](const std::string& job, std::uint64_t generation) {
    const auto wanted = all_of<PlaceFiles>(agent.state->handle(
        CoordinatorSaid{1, schemas::PlaceCheckpoint{job, generation, "/out", "step-5-g1", {0}}}));
    REQUIRE(wanted.size() == 1);
    return wanted[0].number;
  };
  const auto placed = [&](const std::string& job, std::uint64_t generation, std::uint64_t number) {
    return agent.state->handle(FilesPlaced{{job, generation, Errc::ok, ""}, number});
  };
  const auto older = place("y", 1);
  const auto newer = place("y", GENERATE(1, 2));
  const auto other = place("z", 1);
  CHECK(older != newer);
  SECTION("an answer to the older one is nobody's business") {
    CHECK(told<schemas::CheckpointPlaced>(placed("y", 1, older)).empty());
    CHECK(told<schemas::CheckpointPlaced>(placed("y", 2, newer)).size() == 1);
    CHECK(placed("y", 2, newer).empty());
    CHECK(told<schemas::CheckpointPlaced>(placed("z", 1, other)).size() == 1);
    CHECK(all_of<LeaveCoordinator>(agent.state->handle(StopRequested{})).size() == 1);
  }
  SECTION("and where none comes it is not waited for") {
    placed("y", 2, newer);
    CHECK(told<schemas::AgentLeaving>(agent.state->handle(StopRequested{})).size() == 1);
    CHECK(all_of<LeaveCoordinator>(placed("z", 1, other)).size() == 1);
  }
}

TEST_CASE("an agent that can start nothing says so, and that it can again") {
  Parent agent;
  const std::vector<schemas::LostGpu> lost = {{1, "off the bus"}};
  const auto said = [&](const OfferChanged& offer) {
    return told<schemas::AgentOffer>(agent.state->handle(offer));
  };
  CHECK(said({""}).empty());
  auto words = said({"its certificate held until a day"});
  REQUIRE(words.size() == 1);
  CHECK(words[0].withheld == "its certificate held until a day");
  CHECK(said({"its certificate held until a day"}).empty());
  words = said({"", lost});
  REQUIRE(words.size() == 1);
  CHECK(words[0].withheld.empty());
  CHECK(words[0].lost_gpus == lost);
  CHECK(said({"", lost}).empty());
  CHECK(said({""}).at(0).lost_gpus.empty());
  // A coordinator that it meets later learns it with the greeting.
  Joining late;
  CHECK(told<schemas::AgentOffer>(late.state->handle(OfferChanged{"old", lost})).empty());
  const auto hello = told<schemas::AgentHello>(late.state->handle(CoordinatorUp{1}));
  REQUIRE(hello.size() == 1);
  CHECK(hello[0].withheld == "old");
  CHECK(hello[0].lost_gpus == lost);
}

TEST_CASE("a child is started once and learns what to do when it is there") {
  Parent agent;
  REQUIRE(all_of<StartChild>(agent.begun).size() == 1);
  CHECK(all_of<StartChild>(agent.begun)[0].process == agent.host);
  CHECK(agent.state->handle(CoordinatorSaid{1, agent.launch}).empty());
  const auto sent = all_of<Send<ToChild>>(agent.state->handle(ChildStarted{agent.host, {}, 77}));
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].to.process == agent.host);
  CHECK(sent[0].to.actor == agent.host.actor);
  CHECK(std::get<schemas::LaunchProcess>(sent[0].message).job_text == "spec");
}

TEST_CASE("what is revoked is used here, and told to the children that run") {
  Parent agent;
  const auto hear = [&] {
    Effects effects = agent.state->handle(CoordinatorSaid{1, schemas::DenyList{"list"}});
    REQUIRE(all_of<UseDenyList>(effects).size() == 1);
    CHECK(all_of<UseDenyList>(effects)[0].pem == "list");
    return all_of<Send<ToChild>>(effects);
  };
  CHECK(hear().empty());  // who has not started gets it with its credentials
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  const auto children = hear();
  REQUIRE(children.size() == 1);
  CHECK(children[0].to.process == agent.host);
  CHECK(std::get<schemas::DenyList>(children[0].message).pem == "list");
}

TEST_CASE("a child has ended when it is reaped and everything that it said was read") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  const bool exit_first = GENERATE(true, false);
  const AgentEvent exited = ChildExited{agent.host, "exit 1", false};
  const AgentEvent silent = ChildSilent{agent.host, {}};
  CHECK(told<schemas::ProcessExited>(agent.state->handle(exit_first ? exited : silent)).empty());
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

TEST_CASE("a child speaks for its own actors, one that does not has failed") {
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
      ChildStarted{agent.host, base::error(Errc::invalid_argument, "no socket"), 77});
  CHECK(all_of<Send<ToChild>>(effects).empty());
  REQUIRE(all_of<StopChild>(effects).size() == 1);
  CHECK(all_of<StopChild>(effects)[0].kill);
  CHECK(
      told<schemas::ProcessExited>(agent.state->handle(ChildExited{agent.host, "signal 9", false}))
          .size() == 1);
}

TEST_CASE("a child that says nothing any more is killed, and that is its end") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  const Effects effects = agent.state->handle(
      ChildSilent{agent.host, base::error(Errc::deadline_exceeded, "silent for 15000 ms")});
  const auto killed = all_of<StopChild>(effects);
  REQUIRE(killed.size() == 1);
  CHECK(killed[0].kill);
  REQUIRE(notes_of(effects).size() == 1);
  CHECK(
      notes_of(effects)[0].text ==
      "job x generation 2: host process (ranks 4, 5), process 77, hangs and is killed: silent for "
      "15000 ms");
  CHECK(agent.state->children() == 1);  // until it is reaped
  // Woken just then, it may end by itself; the cause is its silence all the same.
  const std::string how = GENERATE("signal 9", "exit 1");
  const auto ended =
      told<schemas::ProcessExited>(agent.state->handle(ChildExited{agent.host, how, false}));
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].how == "hung: silent for 15000 ms");
  CHECK_FALSE(ended[0].clean);
}

TEST_CASE("a child that has closed its link gets a grace to end, and no longer") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  const auto closed = base::error(Errc::unavailable, "connection closed");
  CHECK(all_of<StopChild>(agent.state->handle(ChildSilent{agent.host, closed})).empty());
  CHECK(agent.state->handle(Tick{1'799}).empty());
  SECTION("it ends") {
    const auto ended =
        told<schemas::ProcessExited>(agent.state->handle(ChildExited{agent.host, "exit 0", true}));
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].how == "exit 0");
  }
  SECTION("it does not") {
    const auto killed = all_of<StopChild>(agent.state->handle(Tick{1'800}));
    REQUIRE(killed.size() == 1);
    CHECK(killed[0].kill);
    const auto ended = told<schemas::ProcessExited>(
        agent.state->handle(ChildExited{agent.host, "signal 9", false}));
    REQUIRE(ended.size() == 1);
    CHECK(ended[0].how == "hung: it has closed its link and does not end");
  }
}

TEST_CASE("a child's start, number and end are told") {
  Parent agent;
  const auto started = all_of<Note>(agent.state->handle(ChildStarted{agent.host, {}, 77}));
  REQUIRE(started.size() == 1);
  CHECK(started[0].text == "job x generation 2: host process (ranks 4, 5) is process 77");
  CHECK_FALSE(started[0].warning);
  const bool asked = GENERATE(true, false);
  if (asked) agent.stop(500);
  const auto ended = all_of<Note>(agent.state->handle(ChildExited{agent.host, "signal 15", false}));
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].text ==
        "job x generation 2: host process (ranks 4, 5), process 77, has ended: signal 15");
  CHECK(ended[0].warning == !asked);
}

TEST_CASE("a child is asked to end, then killed, and again until it is gone") {
  Parent agent;
  SECTION("one that runs") {
    agent.state->handle(ChildStarted{agent.host, {}, 77});
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
    agent.state->handle(ChildStarted{agent.host, {}, 77});
    agent.stop(500);
    agent.stop(100);
    agent.stop(5'000);
    CHECK(all_of<StopChild>(agent.state->handle(Tick{1'100})).size() == 1);
  }
  SECTION("one that is only starting") {
    CHECK(all_of<StopChild>(agent.stop(500)).empty());
    const auto killed = all_of<StopChild>(agent.state->handle(ChildStarted{agent.host, {}, 77}));
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
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  SECTION("lost") {
    const auto notes = all_of<Note>(agent.state->handle(CoordinatorLost{1, "cut"}));
    REQUIRE(notes.size() == 1);
    CHECK(notes[0].text ==
          "lost the coordinator: cut; its processes (1) stop in 300 ms; tries again for 100 s");
  }
  SECTION("turned away") {
    agent.state->handle(CoordinatorSaid{1, schemas::JobEnd{Errc::permission_denied, "no"}});
    agent.state->handle(CoordinatorLost{1, "it said goodbye"});
  }
  CHECK(all_of<StopChild>(agent.state->handle(Tick{1'299})).empty());
  CHECK(all_of<StopChild>(agent.state->handle(Tick{1'300})).size() == 1);
  agent.state->handle(ChildSilent{agent.host, {}});
  const Effects effects = agent.state->handle(ChildExited{agent.host, "signal 15", false});
  CHECK(told<schemas::ProcessExited>(effects).empty());  // there is nobody to tell
  CHECK(agent.state->children() == 0);
}

TEST_CASE("an agent that was turned away ends when its children have") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  agent.state->handle(CoordinatorSaid{1, schemas::JobEnd{Errc::permission_denied, "no"}});
  agent.state->handle(CoordinatorLost{1, "it said goodbye"});
  agent.state->handle(ChildSilent{agent.host, {}});
  const Effects effects = agent.state->handle(ChildExited{agent.host, "signal 15", false});
  REQUIRE(all_of<End>(effects).size() == 1);
  CHECK(all_of<End>(effects)[0].status.code() == Errc::permission_denied);
  CHECK(agent.state->handle(Tick{9'000}).empty());
}

TEST_CASE("an agent joins again, and offers its slots when the old link's children have ended") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  if (GENERATE(true, false)) {  // the coordinator itself may say that it has given the agent up
    CHECK(
        agent.state->handle(CoordinatorSaid{1, schemas::JobEnd{Errc::unavailable, "up"}}).empty());
  }
  agent.state->handle(CoordinatorLost{1, "cut"});
  const auto again = all_of<JoinCoordinator>(agent.state->handle(Tick{1'050}));
  REQUIRE(again.size() == 1);
  CHECK(again[0].join == 2);
  const Effects up = agent.state->handle(CoordinatorUp{2});
  CHECK(told<schemas::AgentHello>(up).empty());
  CHECK(all_of<StopChild>(up).size() == 1);
  REQUIRE(notes_of(up).size() == 1);
  CHECK(notes_of(up)[0].text ==
        "the coordinator does not know this agent's job x any more: its processes here (1) end");
  agent.state->handle(ChildSilent{agent.host, {}});
  const Effects alone = agent.state->handle(ChildExited{agent.host, "signal 15", false});
  CHECK(told<schemas::ProcessExited>(alone).empty());  // of a run that is not known there
  CHECK(told<schemas::AgentHello>(alone).size() == 1);
  agent.state->handle(CoordinatorSaid{2, schemas::AgentWelcome{}});
  // The same run of the same job may come again, and the old grace is over.
  CHECK(all_of<StartChild>(agent.state->handle(CoordinatorSaid{2, agent.launch})).size() == 1);
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  CHECK(agent.state->handle(Tick{1'400}).empty());
}

TEST_CASE("an agent whose children end so slowly that it is not waited for joins once more") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}, 77});
  agent.state->handle(CoordinatorLost{1, "cut"});
  agent.state->handle(Tick{1'050});
  agent.state->handle(CoordinatorUp{2});
  const schemas::JobEnd dropped{Errc::deadline_exceeded, "it asked nothing"};
  CHECK(agent.state->handle(CoordinatorSaid{2, dropped}).empty());
  CHECK(all_of<End>(agent.state->handle(CoordinatorLost{2, "it said goodbye"})).empty());
  agent.state->handle(ChildSilent{agent.host, {}});
  agent.state->handle(ChildExited{agent.host, "signal 9", false});
  const auto again = all_of<JoinCoordinator>(agent.state->handle(Tick{10'000}));
  REQUIRE(again.size() == 1);
  CHECK(told<schemas::AgentHello>(agent.state->handle(CoordinatorUp{again[0].join})).size() == 1);
}

TEST_CASE("a message for a worker goes to the process that holds its rank") {
  Parent agent;
  agent.state->handle(ChildStarted{agent.host, {}, 77});
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
