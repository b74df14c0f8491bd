// SPDX-License-Identifier: Apache-2.0
// Jobs on GPUs in the coordinator: they wait for GPUs that are large enough, each rank learns its
// own, and a GPU is given back by whatever ends its run.
#include <algorithm>
#include <string>
#include <vector>

#include "control/agent_state.h"
#include "control/coordinator_state.h"
#include "schemas/codec.h"
#include "tests/control/control_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using schemas::JobPhase;
using testing::ControlWorld;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr PeerId kPerson = 99;

/// GPU slots by their index, all with this memory.
std::vector<schemas::GpuOffer> gpus(const std::vector<std::uint32_t>& indices,
                                    std::uint64_t memory_bytes = 80 * kGiB) {
  std::vector<schemas::GpuOffer> offers;
  for (const std::uint32_t index : indices) offers.push_back({index, "H100", "", memory_bytes});
  return offers;
}

/// A coordinator, and what it was asked to do last.
struct Cluster {
  CoordinatorState state{{"1", ControlWorld::limits()}};
  std::vector<CoordinatorEffect> effects;

  void handle(const CoordinatorEvent& event) { effects = state.handle(event); }
  void join(PeerId peer, const std::string& name, std::uint32_t slots,
            const std::vector<schemas::GpuOffer>& offers,
            const std::vector<schemas::LostGpu>& lost = {}) {
    schemas::AgentHello hello;
    hello.name = name;
    hello.version = std::string("1");
    hello.slots = slots;
    hello.gpus = offers;
    hello.lost_gpus = lost;
    hello.process_token = peer % 10;
    handle(PeerLinked{peer, "127.0.0.1"});
    handle(PeerSaid{peer, hello});
  }
  void submit(const std::string& id, std::uint32_t devices, std::uint64_t memory,
              schemas::WorkerDevice device = schemas::WorkerDevice::gpu,
              const std::string& checkpoints = "") {
    schemas::JobSpec spec = ControlWorld::job_spec(1, devices, 1);
    spec.checkpoint.dir = checkpoints;
    spec.workers.device = device;
    spec.workers.memory = memory;
    handle(PeerSaid{kPerson, schemas::JobSubmit{id, ControlWorld::job_text(spec), ""}});
  }
  schemas::JobInfo job(const std::string& id) const {
    const std::vector<schemas::JobInfo> jobs = state.jobs();
    return *std::find_if(jobs.begin(), jobs.end(), [&](const auto& job) { return job.id == id; });
  }
  std::vector<schemas::LaunchProcess> launches() const {
    std::vector<schemas::LaunchProcess> found;
    for (const CoordinatorEffect& effect : effects) {
      const auto* send = std::get_if<Send<PeerId>>(&effect);
      if (send == nullptr) continue;
      if (const auto* launch = std::get_if<schemas::LaunchProcess>(&send->message)) {
        found.push_back(*launch);
      }
    }
    return found;
  }
  std::string refusal() const {
    for (const CoordinatorEffect& effect : effects) {
      if (const auto* drop = std::get_if<DropPeer>(&effect)) return drop->reason.text();
    }
    return "";
  }
  bool noted(const std::string& text, bool warning) const {
    return std::any_of(effects.begin(), effects.end(), [&](const CoordinatorEffect& effect) {
      const auto* note = std::get_if<Note>(&effect);
      return note != nullptr && note->text == text && note->warning == warning;
    });
  }
};

TEST_CASE("a job on GPUs says which it waits for, and slots of CPUs do not help it", "[gpu_jobs]") {
  Cluster cluster;
  cluster.join(1, "a", 8, gpus({0, 1}, 16 * kGiB));
  cluster.submit("large", 4, 40 * kGiB);
  CHECK(
      cluster.job("large").text ==
      "waits for 4 GPUs with at least 40.0 GiB each; all agents together have 0; 2 GPUs have less "
      "memory, at most 16.0 GiB");
  cluster.join(2, "b", 0, gpus({0, 1}));
  CHECK(
      cluster.job("large").text ==
      "waits for 4 GPUs with at least 40.0 GiB each; all agents together have 2; 2 GPUs have less "
      "memory, at most 16.0 GiB");
  cluster.submit("one", 1, 40 * kGiB);
  CHECK(cluster.job("one").phase == JobPhase::starting);
  cluster.join(3, "c", 0, gpus({0, 1}));
  CHECK(
      cluster.job("large").text ==
      "waits for 4 GPUs with at least 40.0 GiB each; 3 of 4 are free; 2 GPUs have less memory, at "
      "most 16.0 GiB");
  cluster.submit("any", 6, 0);
  CHECK(cluster.job("any").text == "waits for 6 GPUs; 5 of 6 are free");
  cluster.submit("huge", 1, 100 * kGiB);
  CHECK(cluster.job("huge").text ==
        "waits for 1 GPU with at least 100.0 GiB; all agents together have 0; 6 GPUs have less "
        "memory, at most 80.0 GiB");
  cluster.submit("cpus", 9, 0, schemas::WorkerDevice::cpu);
  CHECK(cluster.job("cpus").text == "waits for 9 worker slots; all agents together have 8");
  CHECK(cluster.state.counts().gpus.all == 6);
  CHECK(cluster.state.counts().gpus.used == 1);
  CHECK(cluster.state.counts().cpus.all == 8);
  CHECK(cluster.state.counts().cpus.used == 0);
}

TEST_CASE("processes are told the GPUs of the ranks on their machine", "[gpu_jobs]") {
  Cluster cluster;
  cluster.join(1, "a", 2, gpus({3, 5, 5}));
  cluster.submit("first", 1, 0);
  cluster.submit("next", 2, 0);
  for (const std::string id : {"first", "next"}) {
    cluster.handle(StartFound{id, 1, {}, 0, 1, 5, ""});
    const std::vector<schemas::LaunchProcess> launches = cluster.launches();
    REQUIRE(launches.size() == 2);
    for (const schemas::LaunchProcess& launch : launches) {
      using Indices = std::vector<std::uint32_t>;
      CHECK(launch.gpus == (id == "first" ? Indices{3} : Indices{5, 5}));
      CHECK(schemas::decode_message(schemas::encode_message(launch).value()).ok());
    }
    for (const schemas::RankInfo& rank : cluster.state.ranks()) {
      CHECK(rank.gpu == (rank.job == "first" ? 3U : 5U));
    }
    CHECK(cluster.state.ranks().size() == 3);
  }
  cluster.submit("cpus", 2, 0, schemas::WorkerDevice::cpu);
  cluster.handle(StartFound{"cpus", 1, {}, 0, 1, 5, ""});
  for (const schemas::LaunchProcess& launch : cluster.launches()) CHECK(launch.gpus.empty());
  CHECK_FALSE(cluster.state.ranks().back().gpu);
}

TEST_CASE("jobs that begin together get different GPUs", "[gpu_jobs]") {
  Cluster cluster;
  for (const std::string id : {"first", "second", "third"}) cluster.submit(id, 1, 0);
  cluster.submit("cpus", 1, 0, schemas::WorkerDevice::cpu);
  cluster.join(1, "a", 1, gpus({4, 6}));
  CHECK(cluster.state.counts().gpus.used == 2);
  CHECK(cluster.state.counts().cpus.used == 1);
  CHECK(cluster.job("third").text == "waits for 1 GPU; 0 of 2 are free");
  std::vector<std::uint32_t> given;
  for (const std::string id : {"first", "second"}) {
    cluster.handle(StartFound{id, 1, {}, 0, 1, 5, ""});
    for (const schemas::LaunchProcess& launch : cluster.launches()) {
      if (launch.actor.role == schemas::Role::parameter_server) continue;
      given.insert(given.end(), launch.gpus.begin(), launch.gpus.end());
    }
  }
  CHECK(given == std::vector<std::uint32_t>{4, 6});
}

TEST_CASE("GPUs are given back by the end of a run, and are gone with their agent", "[gpu_jobs]") {
  Cluster cluster;
  cluster.join(1, "a", 1, gpus({0, 1}));
  cluster.join(2, "b", 1, gpus({0}));
  cluster.submit("first", 2, 0);
  cluster.submit("second", 2, 0);
  CHECK(cluster.job("second").text == "waits for 2 GPUs; 1 of 3 is free");
  CHECK(cluster.state.machines().at(0).gpus_used == 2);
  cluster.handle(PeerSaid{kPerson, schemas::JobStop{"first"}});
  CHECK(cluster.job("first").phase == JobPhase::stopped);
  CHECK(cluster.job("second").phase == JobPhase::starting);
  CHECK(cluster.state.counts().gpus.used == 2);
  cluster.handle(PeerLost{1, "closed"});
  CHECK(cluster.job("second").phase == JobPhase::failed);
  CHECK(cluster.state.counts().gpus.used == 0);
  CHECK(cluster.state.counts().gpus.all == 1);
  cluster.submit("third", 2, 0);
  CHECK(cluster.job("third").text == "waits for 2 GPUs; all agents together have 1");
  cluster.join(3, "a", 1, gpus({0, 1}));  // started anew
  CHECK(cluster.job("third").phase == JobPhase::starting);
}

TEST_CASE("a GPU that its agent has lost gets nothing new until it is back", "[gpu_jobs]") {
  Cluster cluster;
  cluster.join(1, "a", 0, gpus({0, 1, 1}));
  cluster.submit("runs", 2, 0);  // on GPU 0 and a slot of GPU 1
  cluster.handle(PeerSaid{1, schemas::AgentOffer{"", {{1, "uncorrectable\nerrors"}}}});
  CHECK(cluster.noted("agent 'a' offers no more: GPU 1: uncorrectable?errors", true));
  CHECK(cluster.job("runs").phase == JobPhase::starting);
  cluster.submit("waits", 1, 0);
  CHECK(cluster.job("waits").text ==
        "waits for 1 GPU; 0 of 1 are free; 1 GPU is out of service, 'a': GPU 1: "
        "uncorrectable?errors");
  const schemas::MachineInfo machine = cluster.state.machines().at(0);
  CHECK(machine.gpus == 3);
  CHECK(machine.gpus_used == 2);
  CHECK(machine.lost_gpus == std::vector<schemas::LostGpu>{{1, "uncorrectable?errors"}});
  CHECK(cluster.state.counts().gpus.used == 2);
  CHECK(cluster.state.counts().gpus.withheld == 1);
  cluster.handle(PeerSaid{1, schemas::AgentOffer{"", {{1, "uncorrectable\nerrors"}}}});
  CHECK(cluster.effects.empty());  // nothing new
  cluster.handle(PeerSaid{1, schemas::AgentOffer{""}});
  CHECK(cluster.noted("agent 'a' offers all its GPUs again", false));
  CHECK(cluster.job("waits").phase == JobPhase::starting);
  CHECK(cluster.state.counts().gpus.withheld == 0);
  // An agent may join like that; and one that withholds all has no GPU either.
  cluster.join(2, "b", 0, gpus({0}), {{0, "off the bus"}});
  cluster.submit("next", 1, 0);
  CHECK(cluster.job("next").text ==
        "waits for 1 GPU; 0 of 3 are free; 1 GPU is out of service, 'b': GPU 0: off the bus");
  cluster.handle(PeerSaid{2, schemas::AgentOffer{"its certificate has ended"}});
  CHECK(cluster.job("next").text ==
        "waits for 1 GPU; 0 of 3 are free; 1 agent offers none, 'b': its certificate has ended");
  CHECK(cluster.state.counts().gpus.withheld == 1);
}

// Each news costs the coordinator a line of its log and a look at all jobs that wait.
TEST_CASE("of an agent that says on and on what it has lost one word a second counts",
          "[gpu_jobs]") {
  Cluster cluster;
  cluster.handle(Tick{10'000});
  cluster.join(1, "a", 0, gpus({0}));
  const auto say = [&](const std::vector<schemas::LostGpu>& lost) {
    cluster.handle(PeerSaid{1, schemas::AgentOffer{"", lost}});
  };
  say({{0, "off the bus"}});
  CHECK(cluster.state.counts().gpus.withheld == 1);
  for (int i = 0; i < 3; ++i) {
    say({});
    CHECK(cluster.effects.empty());
    say({{0, "needs a reset"}});
    CHECK(cluster.effects.empty());
  }
  cluster.handle(Tick{10'999});
  CHECK_FALSE(cluster.noted("agent 'a' offers no more: GPU 0: needs a reset", true));
  cluster.handle(Tick{11'000});
  CHECK(cluster.noted("agent 'a' offers no more: GPU 0: needs a reset", true));
  say({});  // the last word is never forgotten
  cluster.handle(Tick{12'000});
  CHECK(cluster.noted("agent 'a' offers all its GPUs again", false));
  CHECK(cluster.state.counts().gpus.withheld == 0);
}

TEST_CASE("a GPU is nobody's while a process that its run has given up may still use it",
          "[gpu_jobs]") {
  Cluster cluster;
  cluster.handle(Tick{1'000});
  cluster.join(1, "a", 0, gpus({0, 1, 1}));
  cluster.submit("x", 2, 0);  // on GPU 0 and a slot of GPU 1
  cluster.handle(StartFound{"x", 1, {}, 0, 1, 5, ""});
  const schemas::ActorId host{schemas::Role::device_server, 0};
  const schemas::ActorId server{schemas::Role::parameter_server, 0};
  const bool moves = GENERATE(false, true);
  if (moves) cluster.join(2, "b", 0, gpus({5, 6}));
  if (moves) {
    cluster.handle(PeerSaid{1, schemas::AgentLeaving{"asked"}});
  } else {
    cluster.handle(PeerSaid{kPerson, schemas::JobStop{"x"}});
  }
  cluster.handle(PeerSaid{1, schemas::ProcessExited{"x", 1, server, "exit 0", true}});
  cluster.handle(Tick{1'499});
  CHECK(cluster.state.counts().gpus.used == 2);
  cluster.handle(Tick{1'500});  // a quarter of stop_grace_ms, and all of it
  CHECK(cluster.noted("agent 'a' keeps 2 GPUs until the host process of job x has ended", true));
  CHECK(cluster.job("x").phase == (moves ? JobPhase::starting : JobPhase::stopped));
  CHECK(cluster.state.counts().gpus.used == (moves ? 2 : 0));
  CHECK(cluster.state.counts().gpus.withheld == 3);
  const std::vector<schemas::LostGpu> lost = {{0, "the host process of job x may still run"},
                                              {1, "the host process of job x may still run"}};
  CHECK(cluster.state.machines().at(0).lost_gpus == lost);
  if (moves) return;
  cluster.submit("next", 3, 0);
  CHECK_THAT(cluster.job("next").text,
             Catch::StartsWith("waits for 3 GPUs; all agents together have 0; 2 GPUs are out of "
                               "service, 'a': GPU 0: the host process of job x may still run; "));
  // What is said of others, and of what the agent itself withholds, is something else.
  cluster.handle(PeerSaid{1, schemas::AgentOffer{""}});
  cluster.handle(PeerSaid{1, schemas::ProcessExited{"x", 2, host, "signal 9", false}});
  cluster.handle(PeerSaid{1, schemas::ProcessExited{"x", 1, server, "signal 9", false}});
  CHECK(cluster.job("next").phase == JobPhase::pending);
  SECTION("until it has ended") {
    cluster.handle(PeerSaid{1, schemas::ProcessExited{"x", 1, host, "signal 9", false}});
    CHECK(
        cluster.noted("agent 'a' offers 2 GPUs again: the host process of job x has ended", false));
    CHECK(cluster.noted("agent 'a' offers all its GPUs again", false));
    CHECK(cluster.state.machines().at(0).lost_gpus.empty());
  }
  SECTION("or its agent is lost, and is there anew") {
    cluster.handle(PeerLost{1, "closed"});
    cluster.join(3, "a", 0, gpus({0, 1, 1}));
  }
  SECTION("or its agent joins anew while its link is cut") {
    cluster.handle(PeerCut{1, "closed"});
    cluster.join(11, "a", 0, gpus({0, 1, 1}));
  }
  CHECK(cluster.job("next").phase == JobPhase::starting);
  CHECK(cluster.state.counts().gpus.withheld == 0);
}

TEST_CASE("an agent with processes of before offers the rest, and all when they have ended",
          "[gpu_jobs]") {
  Cluster cluster;
  schemas::AgentHello hello;
  hello.name = std::string("a");
  hello.version = std::string("1");
  hello.slots = 2;
  hello.slots_kept = GENERATE(1U, 2U, ~std::uint32_t{0});
  const std::uint32_t kept = std::min(hello.slots_kept, 2U);
  cluster.handle(PeerSaid{1, hello});
  CHECK(cluster.state.counts().cpus.withheld == kept);
  cluster.submit("x", 2, 0, schemas::WorkerDevice::cpu);
  CHECK_THAT(cluster.job("x").text,
             Catch::StartsWith("waits for 2 worker slots; all agents together have " +
                               std::to_string(2 - kept)));
  CHECK_THAT(cluster.job("x").text,
             Catch::EndsWith("out of service, 'a': processes from before it joined may still run"));
  cluster.submit("y", 1, 0, schemas::WorkerDevice::cpu);
  const bool fits = kept == 1;
  CHECK(cluster.job("y").phase == (fits ? JobPhase::starting : JobPhase::pending));
  CHECK(cluster.state.machines().at(0).slots_used == 2);
  // It cannot take back what is used.
  cluster.handle(PeerSaid{1, schemas::AgentOffer{"", {}, 2}});
  CHECK(cluster.state.counts().cpus.used + cluster.state.counts().cpus.withheld == 2);
  cluster.handle(PeerSaid{1, schemas::AgentOffer{""}});
  CHECK(cluster.noted("agent 'a' keeps none of its slots any more", false));
  CHECK(cluster.state.counts().cpus.withheld == 0);
  CHECK(cluster.job(fits ? "y" : "x").phase == JobPhase::starting);
}

/// GPU slots of one GPU, by this name of it.
std::vector<schemas::GpuOffer> slots_of(const std::string& uuid, std::size_t slots = 1) {
  return std::vector<schemas::GpuOffer>(slots, {3, "H100", uuid, 80 * kGiB});
}

TEST_CASE("a GPU is one agent's", "[gpu_jobs]") {
  Cluster cluster;
  cluster.join(1, "a", 0, slots_of("GPU-7", 2));  // in several slots, if it likes
  CHECK(cluster.refusal().empty());
  schemas::GpuOffer other{0, "H100", "GPU-8", 80 * kGiB};
  std::vector<schemas::GpuOffer> both = {other, slots_of("GPU-7")[0]};
  both[1].index = 1;
  cluster.join(2, "b", 4, both);
  CHECK(cluster.refusal() == "agent 'b' offers GPU 1 (GPU-7), which agent 'a' offers as its GPU 3");
  for (const CoordinatorEffect& effect : cluster.effects) {
    const auto* drop = std::get_if<DropPeer>(&effect);
    if (drop != nullptr) CHECK(drop->reason.code() == base::Errc::already_exists);
  }
  CHECK(cluster.state.counts().agents == 1);
  cluster.join(3, "b", 4, {other});
  CHECK(cluster.refusal().empty());
  for (const PeerId peer : {4, 5}) {  // not known of whom that is
    cluster.join(peer, "c" + std::to_string(peer), 0, slots_of(""));
    CHECK(cluster.refusal().empty());
  }
  cluster.handle(PeerCut{1, "closed"});
  cluster.join(6, "d", 0, slots_of("GPU-7"));
  CHECK(cluster.refusal() ==
        "agent 'd' offers GPU 3 (GPU-7), which agent 'a' offers as its GPU 3; that one's link, "
        "which is cut, may heal");
  cluster.join(11, "a", 0, slots_of("GPU-7"));  // the same process: it takes its own place
  CHECK(cluster.state.counts().agents == 4);
  cluster.handle(PeerLost{11, "closed"});
  cluster.join(7, "d", 0, slots_of("GPU-7"));
  CHECK(cluster.refusal().empty());
}

/// One slot for each of these models.
std::vector<schemas::GpuOffer> models(const std::vector<std::string>& names) {
  std::vector<schemas::GpuOffer> offers;
  for (const std::string& name : names) {
    offers.push_back({static_cast<std::uint32_t>(offers.size()), name, "", 80 * kGiB});
  }
  return offers;
}

TEST_CASE("a reproducible job waits for GPUs of one model, and says so", "[gpu_jobs]") {
  Cluster cluster;
  cluster.join(1, "a", 0, models({"A100", "H100", "H100"}));
  cluster.submit("three", 3, 0);
  CHECK(cluster.job("three").text ==
        "waits for 3 GPUs of one model; free: 1 of 1 A100, 2 of 2 H100 "
        "(reproducible = false takes several models)");
  cluster.submit("two", 2, 0);
  CHECK(cluster.job("two").phase == JobPhase::starting);
  CHECK(cluster.noted("job two begins on a (GPUs 1, 2)", false));
  cluster.handle(StartFound{"two", 1, {}, 0, 1, 5, ""});
  for (const schemas::LaunchProcess& launch : cluster.launches()) {
    CHECK(launch.gpus == std::vector<std::uint32_t>{1, 2});
  }
  cluster.submit("large", 2, 60 * kGiB);
  CHECK(cluster.job("large").text ==
        "waits for 2 GPUs of one model with at least 60.0 GiB each; free: 1 of 1 A100, 0 of 2 "
        "H100 (reproducible = false takes several models)");
  cluster.submit("one", 1, 100 * kGiB);  // of one GPU it is always so
  CHECK_THAT(cluster.job("one").text, Catch::StartsWith("waits for 1 GPU with at least"));
  cluster.join(2, "b", 0, models({"A100"}));
  CHECK(cluster.job("large").phase == JobPhase::starting);
  CHECK(cluster.job("three").text ==
        "waits for 3 GPUs of one model; free: 0 of 2 A100, 0 of 2 H100 "
        "(reproducible = false takes several models)");
}

// Its checkpoints are of the numeric class of the GPUs that it had.
TEST_CASE("a job that goes on gets GPUs of the model that it had, if there are enough",
          "[gpu_jobs]") {
  Cluster cluster;
  cluster.join(1, "a", 0, models({"H100"}));
  cluster.submit("x", 1, 0);
  CHECK(cluster.job("x").phase == JobPhase::starting);
  const bool there = GENERATE(true, false);
  cluster.join(2, "b", 0, models({"A100", there ? "H100" : "V100"}));
  SECTION("it leaves its machine") {
    cluster.handle(PeerSaid{1, schemas::AgentLeaving{"asked"}});
  }
  SECTION("it is submitted once more") {
    cluster.handle(PeerSaid{kPerson, schemas::JobStop{"x"}});
    cluster.handle(PeerLost{1, "closed"});
    cluster.submit("x", 1, 0);
  }
  REQUIRE(cluster.job("x").phase == JobPhase::starting);
  cluster.handle(StartFound{"x", 2, {}, 0, 1, 5, ""});
  REQUIRE(cluster.launches().size() == 2);
  CHECK(cluster.launches()[0].gpus == std::vector<std::uint32_t>{there ? 1U : 0U});
}

TEST_CASE("an agent starts nothing on GPUs that it does not offer", "[gpu_jobs]") {
  schemas::AgentHello hello;
  hello.name = std::string("a");
  hello.gpus = gpus({1, 3});
  AgentState agent(hello, ControlWorld::limits());
  agent.handle(Begin{1'000});
  agent.handle(CoordinatorUp{1});
  agent.handle(CoordinatorSaid{1, schemas::AgentWelcome{}});
  schemas::LaunchProcess launch;
  launch.actor = {schemas::Role::device_server, 0};
  launch.ranks = {0, 1};
  for (const std::uint32_t other : {0U, 3U}) {
    launch.gpus = {1, other};
    const auto effects = agent.handle(CoordinatorSaid{1, launch});
    REQUIRE(effects.size() == 1);
    if (other == 3) {
      CHECK(std::holds_alternative<StartChild>(effects[0]));
      continue;
    }
    const auto& told = std::get<Send<ToCoordinator>>(effects[0]).message;
    const auto& ended = std::get<schemas::ProcessExited>(told);
    CHECK(ended.actor == launch.actor);
    CHECK(ended.how == "not started: agent 'a' does not offer GPU 0");
  }
}

TEST_CASE("an agent that offers what it cannot have is refused by name and value", "[gpu_jobs]") {
  Cluster cluster;
  cluster.join(1, "e", 0, {});
  CHECK(cluster.refusal() == "agent 'e' offers no device");
  cluster.join(2, "e", 1, gpus({~std::uint32_t{0}}));
  CHECK(cluster.refusal() == "agent 'e' offers GPU 4294967295: indices are from 0 to 63");
  cluster.join(3, "e", 1, gpus(std::vector<std::uint32_t>(65)));
  CHECK(cluster.refusal() == "agent 'e' offers 65 GPU slots; the limit is 64");
  CHECK(cluster.state.counts().agents == 0);
  cluster.join(4, "e", 0, gpus({2}));
  CHECK(cluster.noted("agent 'e' has joined with 1 GPU", false));
  CHECK(cluster.state.counts().agents == 1);
}

TEST_CASE("a list of very many lost GPUs is one message", "[gpu_jobs]") {
  Cluster cluster;
  std::vector<std::uint32_t> indices(schemas::kGpusMax);
  std::vector<schemas::LostGpu> lost;
  for (std::uint32_t index = 0; index < indices.size(); ++index) {
    indices[index] = index;
    lost.push_back({index, std::string(1'000, 'w')});
  }
  for (PeerId peer = 1; peer <= 50; ++peer) {
    cluster.join(peer, "a" + std::to_string(peer), 0, gpus(indices), lost);
  }
  const schemas::JobList list = cluster.state.list(true);
  REQUIRE(list.machines.size() == 50);
  std::size_t listed = 0;
  for (const schemas::MachineInfo& machine : list.machines) listed += machine.lost_gpus.size();
  CHECK(listed == 1'024);
  const auto bytes = schemas::encode_message(list);
  REQUIRE(bytes.ok());
  CHECK(bytes->size() < 200'000);
}

}  // namespace
}  // namespace troupe::control
