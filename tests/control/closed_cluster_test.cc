// SPDX-License-Identifier: Apache-2.0
// Jobs that a closed cluster has no room for: the rule, and the coordinator that follows it.
#include "control/closed_cluster.h"

#include <algorithm>
#include <string>
#include <vector>

#include "control/coordinator_state.h"
#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using schemas::JobPhase;
using schemas::WorkerDevice;
using testing::ControlWorld;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kPatienceMs = 50;  // runs that nobody answers fail after 500
constexpr PeerId kPerson = 99;

/// `count` GPUs of a model, numbered from `first` on.
std::vector<schemas::GpuOffer> gpus(std::uint32_t count, const std::string& model = "H100",
                                    std::uint64_t memory_bytes = 80 * kGiB,
                                    std::uint32_t first = 0) {
  std::vector<schemas::GpuOffer> offers;
  for (std::uint32_t i = 0; i < count; ++i) offers.push_back({first + i, model, "", memory_bytes});
  return offers;
}

schemas::JobSpec job(std::uint32_t workers, WorkerDevice device = WorkerDevice::gpu,
                     std::uint64_t memory_bytes = 0) {
  schemas::JobSpec spec = ControlWorld::job_spec(1, workers, 1);
  spec.workers.device = device;
  spec.workers.memory = memory_bytes;
  spec.checkpoint.dir.clear();  // no job waits for another one's folder
  return spec;
}

TEST_CASE("a job waits in vain where nothing can change, or where it has been patient") {
  const auto capacity = [](std::uint64_t in_service, std::uint64_t most) {
    Capacity all;
    all.add(Room{most, in_service, 0});
    return all;
  };
  const auto in_vain = [](const ClosedCluster& closed, const Capacity& all, std::uint32_t ranks,
                          std::uint64_t short_ms) {
    return closed.in_vain(all, job(ranks, WorkerDevice::cpu), "", short_ms, kPatienceMs);
  };
  const Capacity two = capacity(2, 2);
  CHECK_FALSE(in_vain({0, 1}, two, 3, kPatienceMs));  // it is open
  CHECK_FALSE(in_vain({2, 1}, two, 3, kPatienceMs - 1));
  CHECK(in_vain({2, 1}, two, 3, kPatienceMs));
  CHECK_FALSE(in_vain({2, 1}, two, 2, kPatienceMs));
  CHECK(in_vain({2, 2}, two, 3, 0));
  CHECK_FALSE(in_vain({2, 2}, capacity(2, 3), 3, kPatienceMs - 1));
  CHECK(in_vain({2, 2}, capacity(2, 3), 3, kPatienceMs));
  // Who is the one too many? It is not known who is still to come.
  CHECK_FALSE(in_vain({2, 3}, two, 3, kPatienceMs - 1));
  CHECK(in_vain({2, 3}, two, 3, kPatienceMs));
}

TEST_CASE("agents that are not there, or too many, are counted in words") {
  CHECK(ClosedCluster{2, 2}.missing().empty());
  CHECK(ClosedCluster{2, 1}.missing() == "; 1 of 2 agents is not there");
  CHECK(ClosedCluster{4, 2}.missing() == "; 2 of 4 agents are not there");
  CHECK(ClosedCluster{2, 3}.missing() == "; 3 are there, and 2 agents expected");
}

/// A coordinator, and the time.
struct Cluster {
  explicit Cluster(std::uint64_t agents, std::uint64_t patience_ms = kPatienceMs)
      : state({"1", limits(patience_ms), "", agents}) {}
  static base::Limits limits(std::uint64_t patience_ms) {
    base::Limits limits = ControlWorld::limits();
    limits.join_wait_ms = patience_ms;
    return limits;
  }

  CoordinatorState state;
  std::uint64_t now_ms = 0;

  void join(PeerId peer, std::uint32_t slots, const std::vector<schemas::GpuOffer>& offers = {}) {
    schemas::AgentHello hello;
    hello.name = "a" + std::to_string(peer);
    hello.version = "1";
    hello.slots = slots;
    hello.gpus = offers;
    state.handle(PeerLinked{peer, "127.0.0.1"});
    state.handle(PeerSaid{peer, hello});
  }
  void offer(PeerId peer, const schemas::AgentOffer& offered) {
    state.handle(PeerSaid{peer, offered});
  }
  void wait(std::uint64_t ms) {
    now_ms += ms;
    state.handle(Tick{now_ms});
  }
  void submit(const std::string& id, const schemas::JobSpec& spec) {
    state.handle(PeerSaid{kPerson, schemas::JobSubmit{id, ControlWorld::job_text(spec), ""}});
  }
  schemas::JobInfo job(const std::string& id) const {
    const std::vector<schemas::JobInfo> jobs = state.jobs();
    return *std::find_if(jobs.begin(), jobs.end(), [&](const auto& info) { return info.id == id; });
  }
};

TEST_CASE("a job that is too large fails when all agents are there, and says why", "[closed]") {
  Cluster cluster(2);
  cluster.join(1, 2);
  cluster.submit("large", job(4, WorkerDevice::cpu));
  CHECK(cluster.job("large").phase == JobPhase::pending);
  CHECK(cluster.job("large").text ==
        "waits for 4 worker slots; all agents together have 2; 1 of 2 agents is not there");
  CHECK_FALSE(cluster.job("large").no_room);
  cluster.join(2, 1);
  CHECK(cluster.job("large").phase == JobPhase::failed);
  CHECK(cluster.job("large").no_room);
  CHECK(cluster.job("large").text ==
        "no room: it needs 4 worker slots; all agents together have 3");
  // Later ones at once; the rest of the cluster is as it was.
  cluster.submit("gpus", job(1, WorkerDevice::gpu));
  CHECK(cluster.job("gpus").text == "no room: it needs 1 GPU; all agents together have 0");
  cluster.submit("fits", job(3, WorkerDevice::cpu));
  CHECK(cluster.job("fits").phase == JobPhase::starting);
  // One that would fit waits as long as it has to.
  cluster.submit("waits", job(3, WorkerDevice::cpu));
  cluster.wait(1);
  cluster.wait(5 * kPatienceMs);
  CHECK(cluster.job("waits").text == "waits for 3 worker slots; 0 of 3 are free");
  CHECK(cluster.state.counts().jobs.at(JobPhase::failed) == 2);
}

TEST_CASE("demands on GPUs end in an error that names them and what there is", "[closed]") {
  Cluster cluster(1);
  cluster.join(1, 8, [] {
    std::vector<schemas::GpuOffer> both = gpus(2, "A100", 40 * kGiB);
    for (const schemas::GpuOffer& gpu : gpus(2, "H100", 80 * kGiB, 2)) both.push_back(gpu);
    return both;
  }());
  cluster.submit("memory", job(4, WorkerDevice::gpu, 76 * kGiB));
  CHECK(cluster.job("memory").text ==
        "no room: it needs 4 GPUs with at least 76.0 GiB each; all agents together have 2; 2 GPUs "
        "have less memory, at most 40.0 GiB");
  schemas::JobSpec spec = job(3);
  spec.reproducible = true;
  cluster.submit("model", spec);
  CHECK(cluster.job("model").text ==
        "no room: it needs 3 GPUs of one model; free: 2 of 2 A100, 2 of 2 H100 (reproducible = "
        "false takes several models)");
  spec.reproducible = false;
  cluster.submit("several", spec);
  CHECK(cluster.job("several").phase == JobPhase::starting);
}

TEST_CASE("an agent that never joins is waited for, and no longer", "[closed]") {
  Cluster cluster(2);
  cluster.wait(1'000);
  cluster.join(1, 2);
  cluster.submit("large", job(4, WorkerDevice::cpu));
  cluster.wait(kPatienceMs - 1);
  CHECK(cluster.job("large").phase == JobPhase::pending);
  cluster.wait(1);
  CHECK(cluster.job("large").phase == JobPhase::failed);
  CHECK(cluster.job("large").text ==
        "no room: it needs 4 worker slots; all agents together have 2; 1 of 2 agents is not "
        "there");
}

TEST_CASE("lost GPUs may come back for as long as a job is patient", "[closed]") {
  constexpr std::uint64_t kLongMs = 10'000;  // an agent's offer changes once a second
  Cluster cluster(1, kLongMs);
  cluster.join(1, 0, gpus(2));
  cluster.wait(1'000);
  const auto lose = [&cluster] { cluster.offer(1, {"", {{1, "it has fallen off the bus"}}}); };
  lose();
  cluster.submit("both", job(2));
  cluster.wait(kLongMs - 1);
  CHECK(cluster.job("both").phase == JobPhase::pending);
  cluster.offer(1, {"", {}});
  CHECK(cluster.job("both").phase == JobPhase::starting);
  cluster.state.handle(PeerSaid{kPerson, schemas::JobStop{"both"}});
  cluster.wait(1'000);
  lose();
  cluster.submit("again", job(2));
  cluster.wait(kLongMs - 1);
  CHECK(cluster.job("again").phase == JobPhase::pending);
  cluster.wait(1);
  CHECK(cluster.job("again").no_room);
  CHECK(cluster.job("again").text ==
        "no room: it needs 2 GPUs; all agents together have 1; 1 GPU is out of service, 'a1': GPU "
        "1: it has fallen off the bus");
}

TEST_CASE("an agent whose link is cut, or that withholds its slots, is waited for", "[closed]") {
  Cluster cluster(1);
  cluster.join(1, 2);
  cluster.wait(1'000);
  const auto check = [&](const std::string& id, const std::string& why) {
    cluster.submit(id, job(2, WorkerDevice::cpu));
    cluster.wait(kPatienceMs - 1);
    CHECK(cluster.job(id).phase == JobPhase::pending);
    cluster.wait(1);
    CHECK(cluster.job(id).text ==
          "no room: it needs 2 worker slots; all agents together have 0" + why);
  };
  cluster.state.handle(PeerCut{1, "reset"});
  check("cut", "; a link is cut, 'a1's");
  cluster.state.handle(PeerBack{1});
  cluster.offer(1, {"its certificate has ended", {}});
  check("withheld", "; 1 agent offers none, 'a1': its certificate has ended");
}

TEST_CASE("a job waits for an agent that is lost, not for one that leaves", "[closed]") {
  Cluster cluster(2);
  cluster.join(1, 2);
  cluster.join(2, 2);
  cluster.state.handle(PeerLost{1, "closed"});
  cluster.submit("lost", job(4, WorkerDevice::cpu));
  CHECK(cluster.job("lost").phase == JobPhase::pending);
  cluster.join(1, 2);
  CHECK(cluster.job("lost").phase == JobPhase::starting);
  cluster.state.handle(PeerSaid{kPerson, schemas::JobStop{"lost"}});
  cluster.state.handle(PeerSaid{2, schemas::AgentLeaving{"SIGTERM"}});
  cluster.submit("leaves", job(4, WorkerDevice::cpu));
  CHECK(cluster.job("leaves").no_room);
}

TEST_CASE("nobody waits for lost GPUs of an agent that leaves", "[closed]") {
  Cluster cluster(1);
  cluster.join(1, 0, gpus(2));
  cluster.wait(1'000);
  cluster.offer(1, {"", {{1, "it has fallen off the bus"}}});
  cluster.submit("both", job(2));
  CHECK(cluster.job("both").phase == JobPhase::pending);
  cluster.state.handle(PeerSaid{1, schemas::AgentLeaving{"SIGTERM"}});
  CHECK(cluster.job("both").text == "no room: it needs 2 GPUs; all agents together have 0");
}

TEST_CASE("in an open cluster a job waits for agents that may join", "[closed]") {
  Cluster cluster(0);
  cluster.join(1, 2);
  cluster.submit("large", job(4, WorkerDevice::cpu));
  cluster.wait(1);
  cluster.wait(100 * kPatienceMs);
  CHECK(cluster.job("large").text == "waits for 4 worker slots; all agents together have 2");
}

TEST_CASE("a job that failed for want of room is begun anew by the same command", "[closed]") {
  Cluster cluster(1);
  cluster.join(1, 2);
  cluster.submit("large", job(4, WorkerDevice::cpu));
  CHECK(cluster.job("large").no_room);
  cluster.join(2, 2);  // one more than was expected
  cluster.submit("large", job(4, WorkerDevice::cpu));
  CHECK(cluster.job("large").phase == JobPhase::starting);
  CHECK_FALSE(cluster.job("large").no_room);
}

}  // namespace
}  // namespace troupe::control
