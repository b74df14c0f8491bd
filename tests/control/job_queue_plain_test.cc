// SPDX-License-Identifier: Apache-2.0
// What a long queue of jobs costs, in calls for memory, which sanitizers do not let count.
#include <string>

#include "control/coordinator_state.h"
#include "tests/control/control_world.h"
#include "tests/support/catch.h"
#include "tests/support/count_allocations.h"

namespace troupe::control {
namespace {

using testing::ControlWorld;

TEST_CASE("jobs that wait cost nothing while nothing changes", "[load]") {
  constexpr int kJobs = 1'000;
  base::Limits limits = ControlWorld::limits();
  limits.jobs_max = kJobs;
  CoordinatorState state({"1", limits});
  const std::string text = ControlWorld::job_text(ControlWorld::job_spec(3, 6, 1));
  for (int job = 0; job < kJobs; ++job) {
    state.handle(PeerSaid{9, schemas::JobSubmit{"job-" + std::to_string(job), text, ""}});
  }
  for (PeerId peer = 10; peer < 20; ++peer) {
    schemas::AgentHello agent;
    agent.name = "a" + std::to_string(peer);
    agent.version = std::string("1");
    agent.slots = 1;
    state.handle(PeerSaid{peer, agent});
  }
  REQUIRE(state.jobs()[999].text == "waits for 18 worker slots; all agents together have 10");
  const tests::CountAllocations count;
  for (std::uint64_t now_ms = 1; now_ms <= 1'000; ++now_ms) state.handle(Tick{now_ms});
  state.handle(PeerLost{9, "left"});
  CHECK(count.so_far().calls < 100);
}

}  // namespace
}  // namespace troupe::control
