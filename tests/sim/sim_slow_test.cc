// SPDX-License-Identifier: Apache-2.0
// Many more seeds than the quick test has time for.
#include "tests/sim/simulation.h"
#include "tests/support/catch.h"

namespace troupe::sim {
namespace {

TEST_CASE("seeds 1000-20999 hold every invariant") {
  for (std::uint64_t seed = 1'000; seed < 21'000; ++seed) {
    const Outcome outcome = Simulation(make_sim_job(seed)).run();
    INFO(outcome.fault);
    CHECK(outcome.fault.empty());
  }
}

}  // namespace
}  // namespace troupe::sim
