// SPDX-License-Identifier: Apache-2.0
// Checkpoints out of turn in a played cluster: who is answered what, and where jobs go whose
// machine leaves.
#include <algorithm>

#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using schemas::JobPhase;
using testing::ControlWorld;
using testing::Fate;

/// A job of one rank on agent a, which trains on and on; nobody else is there.
struct Cluster {
  explicit Cluster(bool checkpoints = true, bool separate = false, bool resume = true) {
    if (separate) world.separate_folders();
    schemas::JobSpec spec = ControlWorld::job_spec(1, 1, 1);
    spec.checkpoint.resume = resume;
    if (!checkpoints) spec.checkpoint.dir.clear();
    world.set_fate("a/host", Fate::endless);
    world.set_fate("a/server", Fate::endless);
    world.add_agent("a", 1);
    world.run_until(100);
    world.say(schemas::JobSubmit{"x", ControlWorld::job_text(spec), ""});
    world.run_until(1'000);
    REQUIRE(job().phase == JobPhase::running);
  }
  schemas::JobInfo job() { return world.coordinator().jobs().at(0); }
  schemas::JobCheckpointAnswer checkpoint(const std::string& id) {
    const PeerId person = world.say(schemas::JobCheckpoint{id});
    world.run_until(world.now_ms() + 1'000);
    return std::get<schemas::JobCheckpointAnswer>(world.answers(person).at(0));
  }
  schemas::JobList stop(bool with_checkpoint) {
    const PeerId person = world.say(schemas::JobStop{"x", with_checkpoint});
    world.run_until(world.now_ms() + 2'000);
    return std::get<schemas::JobList>(world.answers(person).at(0));
  }

  ControlWorld world{3};
};

TEST_CASE("a person gets a checkpoint of a running job, however long that takes") {
  Cluster cluster(true, GENERATE(false, true));
  const auto answer = cluster.checkpoint("x");
  CHECK(answer.code == Errc::ok);
  CHECK(answer.step == 3);
  CHECK(answer.path == "/out/step-3-g1");
  CHECK(cluster.job().phase == JobPhase::running);
  CHECK(cluster.checkpoint("y").code == Errc::not_found);
  cluster.stop(false);
  const auto late = cluster.checkpoint("x");
  CHECK(late.path.empty());
  CHECK(late.text == "job x has ended: stopped; its newest checkpoint is /out/step-3-g1");
}

/// Lines of either log that say it.
std::size_t count_lines(const ControlWorld& world, const std::string& text) {
  const auto notes = world.notes();
  const auto audits = world.audits();
  const auto says = [&](const std::string& line) { return line.find(text) != std::string::npos; };
  return static_cast<std::size_t>(
      std::count_if(notes.begin(), notes.end(), says) +
      std::count_if(audits.begin(), audits.end(),
                    [&](const Audit& audit) { return says(audit.what); }));
}

TEST_CASE("who asks on while it waits for a checkpoint is heard once") {
  Cluster cluster;
  const PeerId person = cluster.world.say_often(schemas::JobCheckpoint{"x"}, 1'000);
  cluster.world.run_until(cluster.world.now_ms() + 1'000);
  REQUIRE(cluster.world.answers(person).size() == 1);
  CHECK(std::get<schemas::JobCheckpointAnswer>(cluster.world.answers(person)[0]).path ==
        "/out/step-3-g1");
  CHECK(count_lines(cluster.world, "a checkpoint of job x is wanted") == 1);
  CHECK(count_lines(cluster.world, "saves job 'x'") == 1);
}

TEST_CASE("many people may wait for a checkpoint, and no more than that") {
  Cluster cluster;
  std::vector<PeerId> people;
  for (int i = 0; i < 257; ++i) {
    people.push_back(cluster.world.say_often(schemas::JobCheckpoint{"x"}, 1));
  }
  const auto late =
      std::get<schemas::JobCheckpointAnswer>(cluster.world.answers(people.back()).at(0));
  CHECK(late.code == Errc::resource_exhausted);
  CHECK(late.text == "256 wishes for a checkpoint of job x are open");
  CHECK(cluster.world.answers(people.front()).empty());
  cluster.world.run_until(cluster.world.now_ms() + 1'000);
  CHECK(cluster.world.answers(people.front()).size() == 1);
}

TEST_CASE("what is answered at once changes nothing, and is no line") {
  Cluster cluster(false);
  const PeerId person = cluster.world.say_often(schemas::JobCheckpoint{"x"}, 1'000);
  REQUIRE(cluster.world.answers(person).size() == 1'000);
  CHECK(std::get<schemas::JobCheckpointAnswer>(cluster.world.answers(person)[0]).text ==
        "checkpoint.dir is not set");
  CHECK(count_lines(cluster.world, "job x is wanted") == 0);
  CHECK(count_lines(cluster.world, "saves job") == 0);
  cluster.world.say_often(schemas::JobStop{"x"}, 1'000);
  CHECK(count_lines(cluster.world, "stops job 'x'") == 1);
  CHECK(count_lines(cluster.world, "job x is to be stopped") == 1);
}

TEST_CASE("who hurries a stop that saves is noted, once") {
  Cluster cluster;
  CoordinatorState& state = cluster.world.coordinator();
  std::vector<std::string> changes;
  const auto stop = [&](PeerId person, bool checkpoint) {
    for (const CoordinatorEffect& effect :
         state.handle(PeerSaid{person, schemas::JobStop{"x", checkpoint}})) {
      if (const auto* audit = std::get_if<Audit>(&effect)) changes.push_back(audit->what);
    }
  };
  state.handle(PeerLinked{901, "127.0.0.1"});
  state.handle(PeerLinked{902, "127.0.0.1"});
  stop(901, true);
  CHECK(changes == std::vector<std::string>{"stops job 'x' with a checkpoint"});
  changes.clear();
  stop(901, true);
  stop(902, true);
  CHECK(changes == std::vector<std::string>{"stops job 'x' with a checkpoint"});
  changes.clear();
  for (int i = 0; i < 3; ++i) {
    stop(901, false);
    stop(901, true);
  }
  CHECK(changes == std::vector<std::string>{"stops job 'x' at once"});
}

TEST_CASE("a job that waits for machines has nothing to save") {
  ControlWorld world(4);
  world.say(schemas::JobSubmit{"x", ControlWorld::job_text(ControlWorld::job_spec(1, 1, 1)), ""});
  const PeerId person = world.say(schemas::JobCheckpoint{"x"});
  world.run_until(500);
  const auto answer = std::get<schemas::JobCheckpointAnswer>(world.answers(person).at(0));
  CHECK(answer.text == "job x does not run: pending");
}

TEST_CASE("a stop says whether its checkpoint was written") {
  Cluster saved;
  const auto good = saved.stop(true);
  CHECK(good.text.empty());
  CHECK(good.jobs.at(0).phase == JobPhase::stopped);
  CHECK(good.jobs.at(0).checkpoint == "/out/step-3-g1");
  Cluster without(false);
  const auto bad = without.stop(true);
  CHECK(bad.text == "the checkpoint was not written: checkpoint.dir is not set");
  CHECK(bad.jobs.at(0).phase == JobPhase::stopped);
}

TEST_CASE("a job whose agent leaves goes on where slots are, from its last step") {
  // What lies there after a move is the job's own, even where it wants to find nothing.
  Cluster cluster(true, GENERATE(false, true), GENERATE(true, false));
  const bool free = GENERATE(true, false);
  if (free) cluster.world.add_agent("b", 1);
  cluster.world.run_until(1'200);
  cluster.world.stop_agent("a");
  cluster.world.run_until(2'500);
  REQUIRE(cluster.world.exited_agents().contains("a"));
  CHECK(cluster.world.exited_agents().at("a").ok());
  CHECK(count_lines(cluster.world, "agent 'a' leaves: the agent was asked to end") == 2);
  CHECK(count_lines(cluster.world, "agent 'a' is gone: ") == 2);  // in both logs
  if (!free) {
    CHECK(cluster.job().phase == JobPhase::pending);
    CHECK(cluster.job().checkpoint == "/out/step-3-g1");
    CHECK(cluster.job().text == "waits for 1 worker slot; all agents together have 0");
    cluster.world.add_agent("c", 1);
  }
  cluster.world.run_until(6'000);
  CHECK(cluster.job().phase == JobPhase::succeeded);
  CHECK(cluster.world.coordinator().scraped_jobs().at(0).resumes == 0);  // it has not failed
  CHECK(cluster.world.coordinator().counts().cpus.used == 0);
}

TEST_CASE("a job that waits for other machines can be stopped, and keeps its checkpoint") {
  Cluster cluster;
  cluster.world.stop_agent("a");
  cluster.world.run_until(2'500);
  REQUIRE(cluster.job().phase == JobPhase::pending);
  const auto answer = cluster.stop(true);
  CHECK(answer.text.empty());
  CHECK(answer.jobs.at(0).phase == JobPhase::stopped);
  CHECK(answer.jobs.at(0).text == "stopped while it waited to go on");
  CHECK(answer.jobs.at(0).checkpoint == "/out/step-3-g1");
}

TEST_CASE("an agent that leaves gets nothing new") {
  Cluster cluster;
  cluster.world.stop_agent("a");
  const PeerId person = cluster.world.say(
      schemas::JobSubmit{"y", ControlWorld::job_text(ControlWorld::job_spec(1, 1, 1)), ""});
  cluster.world.run_until(cluster.world.now_ms() + 2'000);
  CHECK(cluster.world.answers(person).size() == 1);
  CHECK(cluster.world.coordinator().jobs().at(1).phase == JobPhase::pending);
}

TEST_CASE("a job without checkpoints fails with its agent, and names it") {
  Cluster cluster(false);
  cluster.world.stop_agent("a");
  cluster.world.run_until(2'500);
  CHECK(cluster.job().phase == JobPhase::failed);
  CHECK_THAT(cluster.job().text,
             Catch::StartsWith("agent of machine 'a' is lost (the agent was asked to end)"));
}

TEST_CASE("who is no agent cannot leave") {
  CoordinatorState state(CoordinatorOptions{"1", ControlWorld::limits()});
  state.handle(PeerLinked{5, "127.0.0.1"});
  const auto effects = state.handle(PeerSaid{5, schemas::AgentLeaving{"now"}});
  REQUIRE(effects.size() == 1);
  CHECK(std::get<DropPeer>(effects[0]).reason.code() == Errc::permission_denied);
}

}  // namespace
}  // namespace troupe::control
