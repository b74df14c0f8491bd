// SPDX-License-Identifier: Apache-2.0
// Whole companies in one thread: 500 seeds, each twice, and planted bugs that must be caught.
#include <catch2/catch.hpp>

#include "tests/sim/simulation.h"

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
  job.faults = {};
  return job;
}

SimJob job_for(Bug bug, std::uint64_t seed) {
  const schemas::TierSpec eventual{ConsistencyMode::eventual, {}};
  SimJob job = plain_job(seed, 2, 2);
  if (bug == Bug::arrival_order) job = plain_job(seed, 4, 1);
  if (bug == Bug::unscaled_rate) job.spec.consistency.cluster = eventual;
  if (bug == Bug::open_barrier) job.spec.consistency = {eventual, eventual};
  if (bug == Bug::ignored_bound) {
    job = plain_job(seed, 3, 1);
    job.spec.checkpoint.every.count = 0;
    job.spec.consistency.cluster = {ConsistencyMode::eventual, 0};
  }
  return job;
}

TEST_CASE("every planted bug is caught, and only where it is planted") {
  for (const Bug bug : kBugs) {
    int caught = 0;
    std::string fault;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const SimJob job = job_for(bug, seed);
      const Outcome sound = Simulation(job).run();
      INFO(sound.fault);
      CHECK(sound.fault.empty());
      const Outcome bent = Simulation(job, bug).run();
      if (bent.fault.empty()) continue;
      ++caught;
      fault = bent.fault;
    }
    UNSCOPED_INFO(bug_name(bug) << ": " << caught << " of 10, for instance:\n" << fault);
    CAPTURE(bug_name(bug));
    CHECK(caught > 0);
    WARN(bug_name(bug) << ": " << caught << " of 10, for instance:\n" << fault);
  }
}

}  // namespace
}  // namespace troupe::sim
