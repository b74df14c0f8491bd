// SPDX-License-Identifier: Apache-2.0
// The coordinator and an agent as actors: what they are told reaches their machines in order, what
// these want done is done through the ports, and a flood is read no faster than it is handled.
#include "actors/coordinator.h"

#include <algorithm>
#include <future>
#include <thread>

#include "actors/agent.h"
#include "base/clock.h"
#include "schemas/codec.h"
#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kWait{20};

/// What a coordinator did; the first send may be held up.
class RecordingPorts final : public CoordinatorPorts {
 public:
  void send(control::PeerId peer, schemas::Message message) override {
    if (hold.valid()) hold.wait();
    const base::MutexLock lock(mutex_);
    sent_.emplace_back(peer, std::move(message));
    changed_.notify_all();
  }
  void drop(control::PeerId peer, const base::Status&) override {
    const base::MutexLock lock(mutex_);
    dropped_.push_back(peer);
    changed_.notify_all();
  }
  void find_start(control::FindStart) override {}
  void probe_folder(control::ProbeFolder) override {}
  void hold_folder(control::HoldFolder) override {}
  void let_go_of_folder(const std::string&) override {}
  void collect_checkpoint(control::CollectCheckpoint) override {}
  void end_collecting(const std::string&) override {}
  void serve_piece(control::ServePiece) override {}
  void check_copy(const control::CheckCopy&) override {}
  void drop_files(const schemas::DropCheckpoint&) override {}
  void take_deny_list(control::TakeDenyList) override {}
  void audit(control::Audit) override {}
  void admitted(std::uint64_t) override {}
  void finished(schemas::JobPhase) override {}

  bool wait_sent(std::size_t count) {
    const base::MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, kWait,
                             [&]() TROUPE_REQUIRES(mutex_) { return sent_.size() >= count; });
  }
  bool wait_dropped(control::PeerId peer) {
    const base::MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, kWait, [&]() TROUPE_REQUIRES(mutex_) {
      return std::count(dropped_.begin(), dropped_.end(), peer) > 0;
    });
  }
  std::vector<std::pair<control::PeerId, schemas::Message>> sent() {
    const base::MutexLock lock(mutex_);
    return sent_;
  }

  std::shared_future<void> hold;

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::pair<control::PeerId, schemas::Message>> sent_ TROUPE_GUARDED_BY(mutex_);
  std::vector<control::PeerId> dropped_ TROUPE_GUARDED_BY(mutex_);
};

TEST_CASE("a job that is submitted at once is young", "[coordinator]") {
  base::SteadyClock clock;
  ActorSystem system(1);
  RecordingPorts ports;
  Coordinator coordinator(system, clock, ports, {"1", {}});
  schemas::JobSpec spec;
  spec.name = "young";
  coordinator.hear({7, schemas::JobSubmit{"", schemas::encode_job_spec(spec).value()}});
  const auto jobs =
      coordinator.ask([](const control::CoordinatorState& state) { return state.jobs(); }, kWait);
  REQUIRE(jobs.ok());
  REQUIRE(jobs->size() == 1);
  CHECK(jobs->front().age_ms < 60'000);  // of a clock that counts from the machine's start
}

TEST_CASE("a coordinator answers people and turns others away", "[coordinator]") {
  base::SteadyClock clock;
  ActorSystem system(1);
  RecordingPorts ports;
  Coordinator coordinator(system, clock, ports, {"1", {}});
  coordinator.hear({7, schemas::JobQuery{}});
  coordinator.hear({8, schemas::Ping{}});
  REQUIRE(ports.wait_sent(1));
  CHECK(ports.wait_dropped(8));
  CHECK(ports.sent()[0].first == 7);
  CHECK(std::holds_alternative<schemas::JobList>(ports.sent()[0].second));
  const auto jobs = coordinator.ask(
      [](const control::CoordinatorState& state) { return state.jobs().size(); }, kWait);
  REQUIRE(jobs.ok());
  CHECK(*jobs == 0);
}

TEST_CASE("who floods a coordinator waits until it is heard", "[coordinator]") {
  base::SteadyClock clock;
  ActorSystem system(1);
  RecordingPorts ports;
  std::promise<void> release;
  ports.hold = release.get_future().share();
  Coordinator coordinator(system, clock, ports, {"1", {}});
  constexpr std::size_t kFlood = 3 * kUnhandledMax;
  std::atomic<std::size_t> said{0};
  std::thread flood([&] {
    for (; said < kFlood; ++said) coordinator.hear({1, schemas::JobQuery{}});
  });
  const auto late = std::chrono::steady_clock::now() + kWait;
  while (said < kUnhandledMax && std::chrono::steady_clock::now() < late) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(milliseconds(20));
  CHECK(said == kUnhandledMax);
  release.set_value();
  flood.join();
  CHECK(ports.wait_sent(kFlood));
}

/// What an agent did first.
class AgentRecord final : public AgentPorts {
 public:
  void join_coordinator(const control::JoinCoordinator& join) override { joined.set_value(join); }
  void leave_coordinator(const std::string&) override { left.set_value(); }
  void tell_coordinator(schemas::Message message) override { told.set_value(std::move(message)); }
  void start_child(const control::StartChild&) override {}
  void stop_child(const control::StopChild&) override {}
  void tell_child(const control::ToChild&, schemas::Message) override {}
  void probe_folder(const schemas::FolderProbe&) override {}
  void serve_piece(const schemas::PieceQuery&) override {}
  void place_files(const control::PlaceFiles&) override {}
  void drop_files(const schemas::DropCheckpoint&) override {}
  void use_deny_list(const std::string&) override {}

  std::promise<control::JoinCoordinator> joined;
  std::promise<schemas::Message> told;
  std::promise<void> left;
};

TEST_CASE("an agent joins when it is started, and has a result when it has left", "[agent]") {
  base::SteadyClock clock;
  ActorSystem system(1);
  AgentRecord ports;
  schemas::AgentHello hello;
  hello.name = std::string("a");
  Agent agent(system, clock, ports, hello, {});
  auto joined = ports.joined.get_future();
  CHECK(joined.wait_for(milliseconds(120)) == std::future_status::timeout);  // ticks only
  agent.start();
  REQUIRE(joined.wait_for(kWait) == std::future_status::ready);
  agent.post(control::CoordinatorUp{joined.get().join});
  auto told = ports.told.get_future();
  REQUIRE(told.wait_for(kWait) == std::future_status::ready);
  CHECK(std::get<schemas::AgentHello>(told.get()).name == "a");
  agent.post(control::StopRequested{});
  REQUIRE(ports.left.get_future().wait_for(kWait) == std::future_status::ready);
  CHECK_FALSE(agent.result().has_value());  // the goodbye is on its way
  agent.post(control::CoordinatorLost{1, "it said goodbye"});
  const auto late = std::chrono::steady_clock::now() + kWait;
  while (!agent.result() && std::chrono::steady_clock::now() < late) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  REQUIRE(agent.result().has_value());
  CHECK(agent.result()->ok());
}

}  // namespace
}  // namespace troupe::actors
