// SPDX-License-Identifier: Apache-2.0
// Processes that not even SIGKILL ends, for a while or for ever: nobody waits for them, and nobody
// else gets what they may still use. Agents first, then a played cluster; gpu_jobs_test.cc has the
// coordinator with GPUs.
#include <algorithm>
#include <string>
#include <vector>

#include "schemas/codec.h"
#include "tests/control/agent_support.h"
#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using schemas::ActorId;
using schemas::JobPhase;
using schemas::Role;
using testing::all_of;
using testing::ControlWorld;
using testing::Effects;
using testing::Fate;
using testing::notes_of;
using testing::Parent;
using testing::told;

std::string text_of(const schemas::JobSpec& spec) {
  return ControlWorld::job_text(spec);
}

/// A parent whose link was cut and is there again, and whose child is killed (at 1,250 ms) and does
/// not end.
struct Stuck : Parent {
  explicit Stuck(const std::vector<std::uint32_t>& gpus = {}) {
    schemas::AgentHello hello;
    hello.name = std::string("a");
    hello.slots = 4;
    for (const std::uint32_t index : {0U, 1U, 2U}) hello.gpus.push_back({index, "H100", "", 1});
    hello.lost_gpus = {{1, "off the bus"}};
    state.emplace(hello, limits);
    state->handle(Begin{1'000});
    state->handle(CoordinatorUp{1});
    state->handle(CoordinatorSaid{1, schemas::AgentWelcome{}});
    launch.gpus = gpus;
    state->handle(CoordinatorSaid{1, launch});
    state->handle(ChildStarted{host, {}, 77});
    state->handle(CoordinatorLost{1, "cut"});
    state->handle(Tick{1'050});
    CHECK(told<schemas::AgentHello>(state->handle(CoordinatorUp{2})).empty());
    CHECK(all_of<StopChild>(state->handle(Tick{1'250})).at(0).kill);
  }
  Effects ends() {
    state->handle(ChildSilent{host, {}});
    return state->handle(ChildExited{host, "signal 9", false});
  }
};

TEST_CASE("an agent does not wait for a child that SIGKILL does not end: it keeps its slots back") {
  Stuck agent;
  CHECK(agent.state->handle(Tick{1'649}).empty());
  const Effects effects = agent.state->handle(Tick{1'650});  // half of stop_grace_ms later
  const auto hello = told<schemas::AgentHello>(effects);
  REQUIRE(hello.size() == 1);
  CHECK(hello[0].slots == 4);
  CHECK(hello[0].slots_kept == 2);
  CHECK(hello[0].lost_gpus == std::vector<schemas::LostGpu>{{1, "off the bus"}});
  REQUIRE(notes_of(effects).size() == 1);
  CHECK(notes_of(effects)[0].warning);
  CHECK(notes_of(effects)[0].text ==
        "joins though these do not end, and keeps back what they use: job x generation 2: host "
        "process (ranks 4, 5), process 77");
  agent.state->handle(CoordinatorSaid{2, schemas::AgentWelcome{}});
  SECTION("until it has ended") {
    const auto offer = told<schemas::AgentOffer>(agent.state->handle(OfferChanged{"why"}));
    REQUIRE(offer.size() == 1);
    CHECK(offer[0].slots_kept == 2);
    const Effects ended = agent.ends();
    CHECK(told<schemas::ProcessExited>(ended).empty());
    REQUIRE(told<schemas::AgentOffer>(ended).size() == 1);
    CHECK(told<schemas::AgentOffer>(ended)[0].slots_kept == 0);
    CHECK(told<schemas::AgentOffer>(ended)[0].withheld == "why");
    CHECK(agent.state->children() == 0);
  }
  SECTION("and what it may say or hear is nobody's business") {
    const ActorId rank{Role::worker, 4};
    CHECK(agent.state->handle(ChildSaid{agent.host, rank, schemas::ActorDone{rank, 3}}).empty());
    for (const ActorId& actor : {agent.host.actor, rank}) {
      const auto bytes = schemas::encode_message(schemas::ActorDone{rank, 3}).value();
      CHECK(agent.state->handle(CoordinatorSaid{2, schemas::ProcessMessage{"x", 2, actor, bytes}})
                .empty());
    }
  }
  SECTION("a run that is numbered as its own is refused, the next one begins") {
    const auto refused =
        told<schemas::ProcessExited>(agent.state->handle(CoordinatorSaid{2, agent.launch}));
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].actor == agent.host.actor);
    CHECK(refused[0].how ==
          "not started: process 77 of an earlier run with this number has not ended");
    ++agent.launch.generation;
    CHECK(all_of<StartChild>(agent.state->handle(CoordinatorSaid{2, agent.launch})).size() == 1);
  }
  SECTION("nor is it waited for when the link is lost once more") {
    agent.state->handle(CoordinatorLost{2, "cut"});
    const auto again = all_of<JoinCoordinator>(agent.state->handle(Tick{2'000}));
    REQUIRE(again.size() == 1);
    const auto back = told<schemas::AgentHello>(agent.state->handle(CoordinatorUp{3}));
    REQUIRE(back.size() == 1);
    CHECK(back[0].slots_kept == 2);
  }
}

TEST_CASE("the GPUs of a child that does not end are out of service, a server has none") {
  const bool server = GENERATE(false, true);
  Stuck agent({0, 0});
  if (server) {
    agent.ends();
    agent.launch.actor = {Role::parameter_server, 0};
    agent.state->handle(CoordinatorSaid{2, schemas::AgentWelcome{}});
    agent.state->handle(CoordinatorSaid{2, agent.launch});
    agent.state->handle(ChildStarted{{"x", 2, agent.launch.actor}, {}, 78});
    agent.state->handle(CoordinatorLost{2, "cut"});
    agent.state->handle(Tick{1'300});
    agent.state->handle(CoordinatorUp{3});
    agent.state->handle(Tick{1'500});
  }
  const auto hello = told<schemas::AgentHello>(agent.state->handle(Tick{1'900}));
  REQUIRE(hello.size() == 1);
  CHECK(hello[0].slots_kept == 0);
  std::vector<schemas::LostGpu> lost = {{1, "off the bus"}};
  if (!server) lost.push_back({0, "still used by process 77"});
  CHECK(hello[0].lost_gpus == lost);
  if (server) return;
  CHECK(told<schemas::AgentOffer>(agent.ends()).at(0).lost_gpus.size() == 1);
}

TEST_CASE("an agent that is to end does not wait for a child that SIGKILL does not end") {
  Stuck agent;
  agent.state->handle(StopRequested{});
  CHECK(all_of<End>(agent.state->handle(CoordinatorLost{2, "it said goodbye"})).empty());
  CHECK(all_of<End>(agent.state->handle(Tick{1'649})).empty());
  const Effects effects = agent.state->handle(Tick{1'650});
  REQUIRE(all_of<End>(effects).size() == 1);
  CHECK(all_of<End>(effects)[0].status.ok());
  REQUIRE(notes_of(effects).size() == 1);
  CHECK(notes_of(effects)[0].text ==
        "ends though these do not: job x generation 2: host process (ranks 4, 5), process 77");
}

TEST_CASE("a slot is nobody's while a process that its run has given up may still use it") {
  ControlWorld world(8);
  world.add_agent("a", 1);
  world.set_fate("a/host", Fate::lingers);
  const std::string text = text_of(ControlWorld::job_spec(1, 1, 1));
  world.say(schemas::JobSubmit{"x", text, ""});
  PeerId person = 0;
  world.at(400, [&] { person = world.say(schemas::JobStop{"x"}); });
  world.at(500, [&] { world.say(schemas::JobSubmit{"y", text, ""}); });
  world.run_until(1'100);
  REQUIRE(world.processes() == 1);
  CHECK(world.answers(person).size() == 1);  // who has stopped it does not wait for that
  CHECK(world.coordinator().jobs()[0].phase == JobPhase::stopped);
  CHECK(world.coordinator().jobs()[1].text ==
        "waits for 1 worker slot; all agents together have 0; 1 slot is out of service, 'a': "
        "process 1 of job x may still run");
  CHECK(world.coordinator().counts().cpus.all == 1);
  CHECK(world.coordinator().counts().cpus.used == 0);
  CHECK(world.coordinator().counts().cpus.withheld == 1);
  CHECK(world.coordinator().machines().at(0).slots_used == 1);
  const auto noted = [&](const std::string& line) {
    return std::count_if(world.notes().begin(), world.notes().end(),
                         [&](const std::string& note) { return note.ends_with(" " + line); });
  };
  CHECK(noted("agent 'a' keeps 1 slot until process 1 of job x has ended") == 1);
  world.set_fate("a/host", Fate::well);
  SECTION("until it has ended") {
    world.run_until(5'000);
    CHECK(noted("agent 'a' offers 1 slot again: process 1 of job x has ended") == 1);
    CHECK(world.coordinator().jobs()[1].phase == JobPhase::succeeded);
    CHECK(world.faults().empty());
  }
  SECTION("or its agent is lost, and is there anew") {
    world.kill_agent("a");
    world.run_until(1'200);
    CHECK(world.coordinator().counts().cpus.withheld == 0);
    world.add_agent("a", 1);
    world.run_until(5'000);
    CHECK(world.coordinator().jobs()[1].phase == JobPhase::succeeded);
  }
}

TEST_CASE("a run gives up a process by the same look at the clock by which its agent is lost") {
  CoordinatorState state({"1", ControlWorld::limits()});
  schemas::AgentHello hello;
  hello.name = std::string("a");
  hello.version = std::string("1");
  hello.slots = 2;
  state.handle(Tick{1'000});
  state.handle(PeerSaid{1, hello});
  schemas::JobSpec spec = ControlWorld::job_spec(1, 1, 1);
  spec.checkpoint.dir.clear();
  for (const std::string id : {"x", "y"}) {
    state.handle(PeerSaid{9, schemas::JobSubmit{id, text_of(spec), ""}});
    state.handle(StartFound{id, 1, {}, 0, 1, 5, ""});
  }
  state.handle(PeerSaid{9, schemas::JobStop{"x"}});
  state.handle(Tick{1'100});
  const ActorId host{Role::device_server, 0};
  const auto failed = schemas::encode_message(schemas::ActorFailed{
      host, base::Errc::unavailable, "a peer is gone", ActorId{Role::parameter_server, 0}});
  state.handle(PeerSaid{1, schemas::ProcessMessage{"y", 1, host, failed.value()}});
  state.handle(PeerCut{1, "closed"});
  state.handle(Tick{1'499});
  CHECK(state.counts().agents == 1);
  CHECK(state.counts().cpus.used == 2);
  state.handle(Tick{1'500});
  CHECK(state.counts().agents == 0);
  CHECK(state.jobs()[0].phase == JobPhase::stopped);
  CHECK(state.jobs()[1].phase == JobPhase::failed);
}

TEST_CASE("a process that does not end takes its slot from a coordinator started anew, no more") {
  ControlWorld world(7);
  world.add_agent("a", 2);
  const std::string text = text_of(ControlWorld::job_spec(1, 1, 1));
  world.set_fate("a/host", Fate::lingers);
  world.say(schemas::JobSubmit{"x", text, ""});
  world.run_until(400);
  REQUIRE(world.processes() == 2);
  world.kill_coordinator();
  world.run_until(410);
  world.start_coordinator();
  world.set_fate("a/host", Fate::endless);
  schemas::JobSpec other = ControlWorld::job_spec(1, 1, 1);
  other.checkpoint.dir = "/other";
  world.say(schemas::JobSubmit{"y", text, ""});
  world.say(schemas::JobSubmit{"z", text_of(other), ""});
  world.run_until(1'100);
  CHECK(world.processes() == 3);  // the old one, and those of one job
  CHECK(world.coordinator().counts().cpus.used == 1);
  CHECK(world.coordinator().counts().cpus.withheld == 1);
  const auto waits = [&] {
    const auto jobs = world.coordinator().jobs();
    const auto job = std::find_if(jobs.begin(), jobs.end(), [](const schemas::JobInfo& info) {
      return info.phase == JobPhase::pending;
    });
    return job == jobs.end() ? "" : job->text;
  };
  CHECK(waits() ==
        "waits for 1 worker slot; 0 of 1 are free; 1 slot is out of service, 'a': processes from "
        "before it joined may still run");
  world.run_until(3'000);
  CHECK(waits().empty());
  CHECK(world.coordinator().counts().cpus.used == 2);
  CHECK(world.coordinator().counts().cpus.withheld == 0);
  CHECK(world.faults().empty());
}

TEST_CASE("an agent that leaves does not wait for a process that does not end") {
  ControlWorld world(7);
  world.add_agent("a", 1);
  world.set_fate("a/host", Fate::lingers);
  world.say(schemas::JobSubmit{"x", text_of(ControlWorld::job_spec(1, 1, 1)), ""});
  world.run_until(400);
  world.kill_coordinator();
  world.run_until(500);
  world.stop_agent("a");
  world.run_until(900);
  REQUIRE(world.exited_agents().contains("a"));
  CHECK(world.exited_agents().at("a").ok());
  CHECK(world.processes() == 1);
}

}  // namespace
}  // namespace troupe::control
