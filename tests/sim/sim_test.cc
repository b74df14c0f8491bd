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

}  // namespace
}  // namespace troupe::sim
