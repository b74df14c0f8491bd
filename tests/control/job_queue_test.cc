// SPDX-License-Identifier: Apache-2.0
// Jobs in the coordinator's queue: they say what they wait for, and cost nothing meanwhile.
#include <string>
#include <vector>

#include "control/coordinator_state.h"
#include "schemas/codec.h"
#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using schemas::JobPhase;
using testing::ControlWorld;

std::string text_of(const schemas::JobSpec& spec) {
  return ControlWorld::job_text(spec);
}

TEST_CASE("a job that could run and cannot yet says how much is free, as it changes") {
  CoordinatorState state({"1", ControlWorld::limits()});
  const auto hello = [&](PeerId peer, const std::string& name, std::uint32_t slots) {
    schemas::AgentHello agent;
    agent.name = name;
    agent.version = std::string("1");
    agent.slots = slots;
    state.handle(PeerSaid{peer, agent});
  };
  const auto submit = [&](const std::string& id, std::uint32_t ranks) {
    schemas::JobSpec spec = ControlWorld::job_spec(1, ranks, 1);
    spec.checkpoint.dir = "/out/" + id;
    state.handle(PeerSaid{9, schemas::JobSubmit{id, text_of(spec), ""}});
  };
  const auto text = [&](std::size_t job) { return state.jobs().at(job).text; };
  submit("large", 3);
  CHECK(text(0) == "waits for 3 worker slots; all agents together have 0");
  submit("small", 1);
  CHECK(text(1) == "waits for 1 worker slot; all agents together have 0");
  hello(1, "a", 2);  // the small one begins
  CHECK(text(0) == "waits for 3 worker slots; all agents together have 2");
  hello(2, "b", 1);
  CHECK(text(0) == "waits for 3 worker slots; 2 of 3 are free");
  submit("other", 1);
  CHECK(text(0) == "waits for 3 worker slots; 1 of 3 is free");
  CHECK(state.counts().cpus.used == 2);
  state.handle(PeerLost{1, "closed"});
  CHECK(text(0) == "waits for 3 worker slots; all agents together have 1");
}

TEST_CASE(
    "a machine that can start nothing gets no job until it can, and those that wait say why") {
  CoordinatorState state({"1", ControlWorld::limits()});
  const auto hello = [&](PeerId peer, const std::string& name, const std::string& withheld) {
    schemas::AgentHello agent;
    agent.name = name;
    agent.version = std::string("1");
    agent.slots = 2;
    agent.withheld = withheld;
    state.handle(PeerSaid{peer, agent});
  };
  const auto submit = [&](const std::string& id, std::uint32_t ranks) {
    schemas::JobSpec spec = ControlWorld::job_spec(1, ranks, 1);
    spec.checkpoint.dir = "/out/" + id;
    state.handle(PeerSaid{9, schemas::JobSubmit{id, text_of(spec), ""}});
  };
  const auto job = [&](std::size_t number) { return state.jobs().at(number); };
  hello(1, "a", "");
  submit("runs", 1);
  CHECK(job(0).phase == JobPhase::starting);
  state.handle(PeerSaid{1, schemas::AgentOffer{"a.pem: its certificate\x1b[2J held until a day"}});
  CHECK(job(0).phase == JobPhase::starting);  // what runs goes on
  submit("waits", 1);
  CHECK(job(1).phase == JobPhase::pending);
  CHECK_THAT(job(1).text,
             Catch::StartsWith("waits for 1 worker slot; all agents together have 0; 1 agent "
                               "offers none, 'a': a.pem: its certificate"));
  CHECK(job(1).text.find('\x1b') == std::string::npos);
  CHECK_THAT(state.machines().at(0).withheld, Catch::Contains("held until a day"));
  CHECK(state.machines().at(0).slots_used == 1);
  CHECK(state.counts().cpus.withheld == 1);
  hello(2, "b", "b.pem: its certificate held until a day");  // it joins like that
  CHECK(job(1).phase == JobPhase::pending);
  CHECK_THAT(job(1).text, Catch::Contains("2 agents offer none, 'a': "));
  state.handle(PeerSaid{2, schemas::AgentOffer{""}});
  CHECK(job(1).phase == JobPhase::starting);
  CHECK(state.machines().at(1).withheld.empty());
  submit("next", 1);
  state.handle(PeerSaid{1, schemas::AgentOffer{""}});
  CHECK(job(2).phase == JobPhase::starting);
  CHECK(state.counts().cpus.used == 3);
  CHECK(state.counts().cpus.withheld == 0);
}

TEST_CASE("who is no agent offers nothing") {
  CoordinatorState state({"1", ControlWorld::limits()});
  state.handle(PeerLinked{5, "127.0.0.1"});
  const auto effects = state.handle(PeerSaid{5, schemas::AgentOffer{"no"}});
  REQUIRE(effects.size() == 1);
  CHECK(std::get<DropPeer>(effects[0]).reason.code() == base::Errc::permission_denied);
}

TEST_CASE("one job at a time has a folder of checkpoints, the next one says whom it waits for") {
  CoordinatorState state({"1", ControlWorld::limits()});
  schemas::AgentHello agent;
  agent.name = "a";
  agent.version = std::string("1");
  agent.slots = 5;
  state.handle(PeerSaid{1, agent});
  const auto submit = [&](const std::string& id, const std::string& folder) {
    schemas::JobSpec spec = ControlWorld::job_spec(1, 1, 1);
    spec.checkpoint.dir = folder;
    state.handle(PeerSaid{9, schemas::JobSubmit{id, text_of(spec), ""}});
  };
  const std::string same = GENERATE("/out", "/out/", "//out//", "/./x/../out/.");
  submit("first", "/out");
  submit("second", same);
  submit("elsewhere", "/other");
  for (const std::string id : {"none", "none-too"}) submit(id, "");
  const std::vector<schemas::JobInfo> jobs = state.jobs();
  CHECK(jobs[0].phase == JobPhase::starting);
  CHECK(jobs[1].phase == JobPhase::pending);
  CHECK(jobs[1].text ==
        "waits for the end of job first, which has the same checkpoint.dir " + same);
  for (const std::size_t other : {2, 3, 4}) CHECK(jobs[other].phase == JobPhase::starting);
  state.handle(PeerSaid{9, schemas::JobStop{"first"}});
  REQUIRE(state.jobs()[0].phase == JobPhase::stopped);
  CHECK(state.jobs()[1].phase == JobPhase::starting);
}

TEST_CASE("a list of very many jobs is one message: old ones are left off, and it says so") {
  CoordinatorState state({"1", ControlWorld::limits()});
  schemas::AgentHello agent;
  agent.name = "a";
  agent.version = std::string("1");
  agent.slots = 700;
  state.handle(PeerSaid{1, agent});
  schemas::JobSpec spec = ControlWorld::job_spec(1, 1, 1);
  spec.checkpoint.dir.clear();
  const std::string text = text_of(spec);
  const std::string checkpoint = "/" + std::string(4'000, 'c');
  for (int job = 0; job < 700; ++job) {
    const std::string id = "job-" + std::to_string(job);
    state.handle(PeerSaid{9, schemas::JobSubmit{id, text, ""}});
    state.handle(StartFound{id, 1, {}, 3, 1, 5, checkpoint});
  }
  const auto listed = [&](bool cluster) {
    schemas::Envelope answer;
    for (CoordinatorEffect& effect : state.handle(PeerSaid{9, schemas::JobQuery{"", cluster}})) {
      if (auto* send = std::get_if<Send<PeerId>>(&effect)) answer.message = send->message;
    }
    const auto bytes = schemas::encode_envelope(answer);
    REQUIRE(bytes.ok());
    return std::get<schemas::JobList>(
        schemas::decode_envelope(std::as_bytes(std::span(*bytes)))->message);
  };
  const schemas::JobList list = listed(false);
  REQUIRE(list.jobs.size() > 300);
  REQUIRE(list.jobs.size() < 700);
  CHECK(list.text == std::to_string(700 - list.jobs.size()) + " older jobs left off");
  CHECK(list.jobs.back().id == "job-699");
  CHECK(list.jobs.front().id == "job-" + std::to_string(700 - list.jobs.size()));
  for (const schemas::JobInfo& job : list.jobs) CHECK(job.text.size() <= 256);
  CHECK(listed(true).ranks.size() == 700);
}

TEST_CASE("a job that fails with very many words keeps some of them") {
  CoordinatorState state({"1", ControlWorld::limits()});
  schemas::AgentHello agent;
  agent.name = "a";
  agent.version = std::string("1");
  agent.slots = 1;
  state.handle(PeerSaid{1, agent});
  schemas::JobSpec spec = ControlWorld::job_spec(1, 1, 1);
  spec.checkpoint.dir.clear();
  state.handle(PeerSaid{9, schemas::JobSubmit{"x", text_of(spec), ""}});
  const std::string words(20'000, 'w');
  state.handle(StartFound{"x", 1, base::error(base::Errc::invalid_argument, "{}", words)});
  const schemas::JobInfo info = state.jobs().at(0);
  CHECK(info.phase == JobPhase::failed);
  CHECK(info.text.starts_with("www"));
  CHECK(info.text.find("...") != std::string::npos);
  CHECK(info.text.size() < 1'200);
}

}  // namespace
}  // namespace troupe::control
