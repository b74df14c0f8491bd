// SPDX-License-Identifier: Apache-2.0
// What the coordinator's metrics show of jobs: runs, goodput and checkpoints over several runs of
// one id, and that a finished job's figures go away.
#include <string>
#include <vector>

#include "schemas/codec.h"
#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using schemas::JobPhase;
using testing::ControlWorld;
using testing::Fate;

constexpr std::uint64_t kLongMs = 20'000;

/// Submits the one job anew and runs it to its end.
ScrapedJob run_job(ControlWorld& world) {
  world.say(schemas::JobSubmit{"x", ControlWorld::job_text(ControlWorld::job_spec(1, 2, 1)), ""});
  world.run_until(world.now_ms() + kLongMs);
  const std::vector<ScrapedJob> jobs = world.coordinator().scraped_jobs();
  REQUIRE(jobs.size() == 1);
  return jobs.front();
}

TEST_CASE("a job that is done has goodput, and every run after its first one is a resume") {
  ControlWorld world(5);
  world.add_agent("a", 2);
  world.set_fate("a/server", Fate::killed);
  ScrapedJob job = run_job(world);
  CHECK(job.info.phase == JobPhase::failed);
  CHECK(job.resumes == 0);
  CHECK(job.goodput == 0.0);  // no checkpoint: nothing counts
  job = run_job(world);
  CHECK(job.info.phase == JobPhase::failed);
  CHECK(job.resumes == 1);
  world.set_fate("a/server", Fate::well);
  job = run_job(world);
  CHECK(job.info.phase == JobPhase::succeeded);
  CHECK(job.resumes == 2);
  REQUIRE(job.goodput.has_value());
  CHECK(*job.goodput > 0.0);
  CHECK(*job.goodput < 1.0);
  // Submitted again it is the same job, and its time stands still.
  const ScrapedJob again = run_job(world);
  CHECK(again.resumes == 2);
  CHECK(again.goodput == job.goodput);
}

TEST_CASE("a job that waits has no goodput and has not resumed") {
  ControlWorld world(6);
  const ScrapedJob job = run_job(world);
  CHECK(job.info.phase == JobPhase::pending);
  CHECK_FALSE(job.goodput.has_value());
  CHECK(job.resumes == 0);
}

TEST_CASE("a checkpoint's time outlives the run that wrote it") {
  CoordinatorState state({"1", ControlWorld::limits()});
  const auto tick = [&](std::uint64_t now_ms) { state.handle(Tick{now_ms}); };
  schemas::AgentHello agent;
  agent.name = std::string("a");
  agent.version = std::string("1");
  agent.slots = 1;
  schemas::JobSpec spec = ControlWorld::job_spec(1, 1, 1);
  spec.checkpoint.dir.clear();  // nothing to probe
  const schemas::JobSubmit submit{"x", ControlWorld::job_text(spec), ""};
  const auto says = [&](std::uint64_t generation, schemas::ActorId from,
                        const schemas::Message& message) {
    const std::string bytes = schemas::encode_message(message).value();
    state.handle(PeerSaid{1, schemas::ProcessMessage{"x", generation, from, bytes}});
  };
  const auto start = [&](std::uint64_t generation, std::uint64_t step) {
    const std::string checkpoint = step > 0 ? "step-2-g1" : "";
    state.handle(StartFound{"x", generation, {}, step, generation, 5, checkpoint, {}});
    for (const schemas::Role role :
         {schemas::Role::device_server, schemas::Role::parameter_server}) {
      schemas::ProcessReady ready;
      ready.actor = {role, 0};
      says(generation, ready.actor, ready);
    }
  };
  tick(1'000);
  state.handle(PeerLinked{1, "127.0.0.1"});
  state.handle(PeerSaid{1, agent});
  state.handle(PeerSaid{9, submit});
  start(1, 0);
  tick(3'000);
  schemas::CheckpointReport report;
  report.step = 2;
  report.path = std::string("step-2-g1");
  says(1, {schemas::Role::parameter_server, 0}, report);
  CHECK(state.scraped_jobs().front().checkpointed_ms == 3'000);
  state.handle(PeerLost{1, "killed"});
  CHECK(state.scraped_jobs().front().info.phase == JobPhase::failed);
  state.handle(PeerLinked{1, "127.0.0.1"});
  state.handle(PeerSaid{1, agent});
  tick(4'000);
  state.handle(PeerSaid{9, submit});
  start(2, 2);
  const ScrapedJob job = state.scraped_jobs().front();
  CHECK(job.info.phase == JobPhase::running);
  CHECK(job.checkpointed_ms == 3'000);
  CHECK(job.resumes == 1);
}

TEST_CASE("a finished job's figures go away after finished_job_ms") {
  ControlWorld world(7);
  world.add_agent("a", 2);
  const std::uint64_t shown_ms = ControlWorld::limits().finished_job_ms;
  run_job(world);
  world.run_until(world.now_ms() + shown_ms - 2 * kLongMs);
  CHECK(world.coordinator().scraped_jobs().size() == 1);
  world.run_until(world.now_ms() + 2 * kLongMs);
  CHECK(world.coordinator().scraped_jobs().empty());
  CHECK(world.coordinator().jobs().size() == 1);  // people may still ask
}

}  // namespace
}  // namespace troupe::control
