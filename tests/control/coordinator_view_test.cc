// SPDX-License-Identifier: Apache-2.0
// What a coordinator shows of its cluster to people who watch it.
#include <algorithm>

#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using testing::ControlWorld;

constexpr std::uint64_t kLongMs = 20'000;

TEST_CASE("who asks for the cluster is told of jobs, machines and ranks in one answer") {
  ControlWorld world(1);
  world.add_agent("b", 3);
  world.run_until(1'000);
  world.add_agent("a", 2);
  world.run_until(2'000);
  world.say(schemas::JobSubmit{"x", ControlWorld::job_text(ControlWorld::job_spec(2, 2, 1)), ""});
  std::vector<schemas::RankInfo> ranks;  // of the first picture in which all train
  std::vector<schemas::MachineInfo> machines;
  for (std::uint64_t ms = 2'000; ranks.empty() && ms < 2'000 + kLongMs; ms += 10) {
    world.run_until(ms);
    const std::vector<schemas::RankInfo> found = world.coordinator().ranks();
    const bool train = std::all_of(found.begin(), found.end(), [](const auto& rank) {
      return rank.phase == schemas::RankPhase::training;
    });
    if (found.empty() || !train) continue;
    ranks = found;
    machines = world.coordinator().machines();
  }
  REQUIRE(ranks.size() == 4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(ranks[rank].job == "x");
    CHECK(ranks[rank].rank == rank);
    CHECK((ranks[rank].machine == "a" || ranks[rank].machine == "b"));
  }
  REQUIRE(machines.size() == 2);
  CHECK(machines[0].name == "b");
  CHECK(machines[0].slots == 3);
  CHECK(machines[0].slots_used == 2);
  CHECK(machines[1].slots_used == 2);
  CHECK(!machines[1].cut);
  const PeerId person = world.say(schemas::JobQuery{"", true});
  const PeerId plain = world.say(schemas::JobQuery{});
  world.run_until(world.now_ms() + kLongMs);
  const auto& all = std::get<schemas::JobList>(world.answers(person).at(0));
  CHECK(all.jobs.size() == 1);
  CHECK(all.machines.size() == 2);
  CHECK(all.ranks.size() == 4);
  CHECK(std::get<schemas::JobList>(world.answers(plain).at(0)).machines.empty());
  CHECK(world.coordinator().ranks().empty());  // the job has ended
  CHECK(world.coordinator().machines()[0].slots_used == 0);
}

TEST_CASE("an agent's page may be where the coordinator's is") {
  CoordinatorState state({"1", ControlWorld::limits(), "10.1.2.3"});
  schemas::AgentHello hello;
  hello.version = "1";
  hello.slots = 1;
  for (const std::string page : {"10.1.2.3:9", "127.0.0.1:9"}) {
    hello.name = page.substr(0, 2);
    hello.http_address = page;
    const PeerId peer = state.counts().cpus.all + 1;
    state.handle(PeerLinked{peer, "127.0.0.1"});
    state.handle(PeerSaid{peer, hello});
    CHECK(state.counts().cpus.all == peer);
  }
  CHECK(check_page("10.1.2.4:9", "127.0.0.1", "10.1.2.3").code() == base::Errc::permission_denied);
  CHECK(check_page("10.1.2.3:9", "127.0.0.1", "").code() == base::Errc::permission_denied);
}

}  // namespace
}  // namespace troupe::control
