// SPDX-License-Identifier: Apache-2.0
// An agent that is asked to end does, also while a folder that it probes hangs.
#include "cluster/agent_node.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tests/link/link_support.h"

namespace troupe::cluster::test {
using namespace link;
using namespace link::test;
namespace {

/// A look at a folder that hangs until it is let go.
class HangingProbe {
 public:
  Status ask() {
    std::unique_lock lock(mutex_);
    asked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return let_go_; });
    return {};
  }
  bool asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false;
  bool let_go_ = false;
};

/// A coordinator that only welcomes and asks for one folder.
struct Coordinator {
  Coordinator() : links(quick_limits(), pool) {
    recorder->answer = [this](const Envelope& envelope) {
      if (!std::holds_alternative<schemas::AgentHello>(envelope.message)) return;
      send(schemas::AgentWelcome{});
      send(schemas::FolderProbe{"job-1", 1, "/", ".probe-job-1", "nonce", false});
    };
    const auto bound =
        links.listen("127.0.0.1:0", {{Role::coordinator, 0}, "", "", 0},
                     [this](const schemas::Hello&, const std::shared_ptr<link::Link>& l) {
                       link = l;
                       return Result<std::shared_ptr<link::LinkHandler>>(recorder);
                     });
    REQUIRE(bound.ok());
    address = *bound;
  }
  void send(schemas::Message message) const {
    Envelope envelope;
    envelope.message = std::move(message);
    CHECK(link->send(std::move(envelope)).ok());
  }
  CountingPool pool;
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  std::shared_ptr<link::Link> link;
  std::string address;
  link::LinkSet links;
};

TEST_CASE("an agent shows its token before it joins", "[agent]") {
  Coordinator coordinator;
  AgentOptions options;
  options.coordinator = coordinator.address;
  options.name = std::string("a");
  options.limits = quick_limits();
  options.token = "troupe_x";
  std::atomic<bool> asked{false};
  options.files.probe = [&](const schemas::FolderProbe&) {
    asked = true;
    return schemas::FolderProbeResult();
  };
  const auto late = std::chrono::steady_clock::now() + kWait;
  options.stop = [&] { return asked || std::chrono::steady_clock::now() > late; };
  REQUIRE(run_agent(options).ok());
  const auto& said = coordinator.recorder->envelopes;
  REQUIRE(said.size() >= 2);
  REQUIRE(std::holds_alternative<schemas::PersonHello>(said[0].message));
  CHECK(std::get<schemas::PersonHello>(said[0].message).token == "troupe_x");
  CHECK(std::holds_alternative<schemas::AgentHello>(said[1].message));
}

TEST_CASE("a folder that hangs does not keep an agent from ending", "[agent]") {
  const auto probe = std::make_shared<HangingProbe>();
  Coordinator coordinator;
  AgentOptions options;
  options.coordinator = coordinator.address;
  options.name = std::string("a");
  options.limits = quick_limits();
  options.limits.goodbye_ms = 100;
  const auto late = std::chrono::steady_clock::now() + kWait;
  options.files.probe = [probe](const schemas::FolderProbe&) {
    static_cast<void>(probe->ask());
    return schemas::FolderProbeResult();
  };
  options.stop = [&] { return probe->asked() || std::chrono::steady_clock::now() > late; };
  std::atomic<bool> ended{false};
  // An agent that waits for the folder is let go, for the test to end.
  std::thread rescuer([&] {
    while (!ended && std::chrono::steady_clock::now() < late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!ended) probe->let_go();
  });
  const Status status = run_agent(options);
  ended = true;
  const bool in_time = std::chrono::steady_clock::now() < late;
  rescuer.join();
  probe->let_go();  // its thread is left alone, and ends
  CHECK(status.ok());
  CHECK(in_time);
}

}  // namespace
}  // namespace troupe::cluster::test
