// SPDX-License-Identifier: Apache-2.0
// Whole companies in one thread: 500 seeds, each twice, and planted bugs that must be caught.
#include <algorithm>

#include "tests/sim/simulation.h"
#include "tests/support/catch.h"

namespace troupe::sim {
namespace {

using schemas::ConsistencyMode;

/// Runs a block of seeds twice each.
void run_seeds(std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const SimJob job = make_sim_job(seed);
    const Outcome once = Simulation(job).run();
    const Outcome again = Simulation(job).run();
    INFO(once.fault);
    CHECK(once.fault.empty());
    CHECK(once.trace == again.trace);
    CHECK(once.events == again.events);
  }
}

TEST_CASE("seeds 0-99 hold every invariant, twice alike") {
  run_seeds(0, 100);
}
TEST_CASE("seeds 100-199 hold every invariant, twice alike") {
  run_seeds(100, 100);
}
TEST_CASE("seeds 200-299 hold every invariant, twice alike") {
  run_seeds(200, 100);
}
TEST_CASE("seeds 300-399 hold every invariant, twice alike") {
  run_seeds(300, 100);
}
TEST_CASE("seeds 400-499 hold every invariant, twice alike") {
  run_seeds(400, 100);
}

/// A job of a seed with chosen modes, two slices per key at least, and a healthy cluster.
SimJob plain_job(std::uint64_t seed, std::uint32_t machines, std::uint32_t devices) {
  SimJob job = make_sim_job(seed);
  job.spec.workers.machines = machines;
  job.spec.workers.devices = devices;
  job.spec.servers.shards = 2;
  job.spec.consistency = {};
  if (job.judged()) job.keys.pop_back();
  job.spec.numerics = {};
  job.spec.data.batch = 2;
  job.spec.train.epochs = 2;
  job.spec.train.max_steps.reset();
  job.spec.checkpoint.dir = "disk";
  job.spec.checkpoint.every = {1, schemas::Period::Unit::steps};
  job.records = std::uint64_t{machines} * devices * 2 * 4 - 1;
  job.keys[0].shape = {9};
  job.slice_bytes = 16;
  job.machine_of_rank.clear();
  for (std::uint32_t rank = 0; rank < machines * devices; ++rank) {
    job.machine_of_rank.push_back(rank / devices);
  }
  job.links = {};
  job.faults = {};
  return job;
}

SimJob job_for(Bug bug, std::uint64_t seed) {
  const schemas::TierSpec eventual{ConsistencyMode::eventual, {}};
  SimJob job = plain_job(seed, 2, 2);
  if (bug == Bug::arrival_order) job = plain_job(seed, 4, 1);
  if (bug == Bug::unscaled_rate || bug == Bug::late_at_full_rate) {
    job.spec.consistency.cluster = eventual;
  }
  if (bug == Bug::open_barrier) job.spec.consistency = {eventual, eventual};
  if (bug == Bug::timed_repetition) job.links.bytes_per_ms = 8;
  if (bug == Bug::dropping_queue) job.links = {16, 128};
  if (bug == Bug::silent_resumption) {
    job.links.bytes_per_ms = 8;
    job.faults.cuts = 40;
  }
  if (bug == Bug::ignored_bound) {
    job = plain_job(seed, 3, 1);
    job.spec.checkpoint.every.count = 0;
    job.spec.consistency.cluster = {ConsistencyMode::eventual, 0};
  }
  if (bug == Bug::torn_verdict) judge(job);
  if (bug == Bug::early_cut || bug == Bug::torn_cut || bug == Bug::running_on) {
    job.spec.checkpoint.every.count = 0;
    job.records *= 4;
    job.faults.wishes_ms = {60, 120};
    job.faults.last_wish = bug == Bug::running_on;
  }
  return job;
}

TEST_CASE("every planted bug is caught, and only where it is planted") {
  for (const Bug bug : kBugs) {
    int caught = 0;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const SimJob job = job_for(bug, seed);
      const Outcome sound = Simulation(job).run();
      INFO(sound.fault);
      CHECK(sound.fault.empty());
      caught += Simulation(job, bug).run().fault.empty() ? 0 : 1;
    }
    CAPTURE(bug_name(bug), caught);
    CHECK(caught > 5);
  }
}

TEST_CASE("sequential runs do not depend on placement or shards") {
  const std::vector<std::vector<std::uint32_t>> placements{
      {0, 0, 1, 1}, {0, 0, 0, 1}, {1, 0, 1, 0}, {0, 0, 0, 0}, {2, 1, 0, 3}};
  for (const auto& placement : placements) {
    for (std::uint32_t shards = 1; shards <= 3; ++shards) {
      SimJob job = plain_job(7, 2, 2);  // the checker compares every bit with the same plain run
      job.machine_of_rank = placement;
      job.spec.servers.shards = shards;
      const Outcome outcome = Simulation(job).run();
      INFO(outcome.fault);
      CHECK(outcome.fault.empty());
      CHECK(outcome.checkpoints == job.total_steps());
    }
  }
}

TEST_CASE("with device = sequential the owners see 1 / devices of the ranks' traffic") {
  for (const ConsistencyMode cluster : {ConsistencyMode::sequential, ConsistencyMode::eventual}) {
    for (std::uint32_t devices = 1; devices <= 4; ++devices) {
      SimJob job = plain_job(11, 2, devices);
      job.records = std::uint64_t{job.ranks()} * job.spec.data.batch * 3;
      job.spec.consistency.cluster.mode = cluster;
      const Outcome outcome = Simulation(job).run();
      INFO(outcome.fault);
      CHECK(outcome.fault.empty());
      CHECK(outcome.owner_bytes > 0);
      CHECK(outcome.worker_bytes == devices * outcome.owner_bytes);
    }
  }
}

TEST_CASE("while nothing goes wrong nothing is sent twice, however slow links are") {
  const schemas::TierSpec eventual{ConsistencyMode::eventual, 1};
  const std::vector<schemas::ConsistencySpec> all_modes{
      {}, {{}, eventual}, {eventual, {}}, {eventual, eventual}};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (const schemas::ConsistencySpec& modes : all_modes) {
      SimJob job = plain_job(seed, 3, 2);
      job.spec.consistency = modes;
      const Outcome fast = Simulation(job).run();
      job.links = {4, 256};
      const Outcome slow = Simulation(job).run();
      INFO(fast.fault << slow.fault);
      CHECK(fast.fault.empty());
      CHECK(slow.fault.empty());
      CHECK(slow.virtual_ms > 2 * fast.virtual_ms);
      CHECK(fast.repeated == 0);
      CHECK(slow.repeated == 0);
      CHECK(fast.link_bytes > 0);
      if (job.sequential()) CHECK(slow.link_bytes == fast.link_bytes);
    }
  }
}

TEST_CASE("links that are cut again and again cost nothing but time") {
  std::uint64_t asked = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimJob job = plain_job(seed, 3, 2);
    job.links = {16, 512};
    job.faults.cuts = 20;
    const Outcome outcome = Simulation(job).run();
    INFO(outcome.fault);
    CHECK(outcome.fault.empty());
    asked += outcome.asked;
  }
  CHECK(asked > 0);
}

TEST_CASE("whoever dies is named, and the job resumes from its last checkpoint") {
  for (std::uint32_t role = 0; role < 9; ++role) {  // 4 ranks, 2 + 2 servers, the coordinator
    for (std::uint64_t ms = 40; ms <= 160; ms += 60) {
      SimJob job = plain_job(role, 2, 2);
      job.faults.kill_ms = ms;
      job.faults.kill_role = role;
      const Outcome outcome = Simulation(job).run();
      INFO(outcome.fault);
      CHECK(outcome.fault.empty());
      INFO(outcome.failure);
      const bool machine = outcome.failure.find(" on machine 'm") != std::string::npos;
      CHECK((machine || outcome.failure == "the coordinator died"));
    }
  }
}

TEST_CASE("checkpoints out of turn, in all modes, at any time") {
  const schemas::TierSpec bounded{ConsistencyMode::eventual, 1};
  const schemas::TierSpec unbounded{ConsistencyMode::eventual, {}};
  const std::vector<schemas::ConsistencySpec> all_modes{
      {}, {{}, bounded}, {{}, unbounded}, {bounded, {}}, {unbounded, {}}, {unbounded, unbounded}};
  std::uint64_t cuts = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const schemas::ConsistencySpec& modes : all_modes) {
      SimJob job = plain_job(seed, 3, 2);
      job.spec.consistency = modes;
      job.spec.checkpoint.every.count = 0;
      job.records *= 4;
      job.faults.wishes_ms = {20 + seed, 50, 52, 90 + 3 * seed};
      job.faults.last_wish = seed % 2 == 0;
      const Outcome outcome = Simulation(job).run();
      INFO(outcome.fault);
      CHECK(outcome.fault.empty());
      CHECK(outcome.cuts >= 3);
      CHECK(outcome.failure == (job.faults.last_wish ? "stopped by request" : ""));
      cuts += outcome.cuts;
    }
  }
  CHECK(cuts > 400);
}

TEST_CASE("the bound of staleness is used up and never exceeded") {
  std::uint64_t worst = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimJob job = plain_job(seed, 3, 1);
    job.spec.checkpoint.every.count = 0;
    job.records *= 4;
    job.spec.consistency.cluster = {ConsistencyMode::eventual, 2};
    const Outcome outcome = Simulation(job).run();
    INFO(outcome.fault);
    CHECK(outcome.fault.empty());
    CHECK(outcome.staleness_max[1] == 0);
    worst = std::max(worst, outcome.staleness_max[2]);
  }
  CHECK(worst == 2);
}

}  // namespace
}  // namespace troupe::sim
