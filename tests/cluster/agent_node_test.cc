// SPDX-License-Identifier: Apache-2.0
// An agent that is asked to end does, also while a folder that it probes hangs.
#include "cluster/agent_node.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/file.h"
#include "cluster/background_calls.h"
#include "tests/link/link_support.h"
#include "tests/support/test_folder.h"

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

/// A coordinator that only welcomes and asks for something: for one folder, unless it is told what.
struct Coordinator {
  explicit Coordinator(std::vector<schemas::Message> questions = {schemas::FolderProbe{
                           "job-1", 1, "/", ".probe-job-1", "nonce", false}})
      : links(quick_limits(), pool) {
    recorder->answer = [this, questions = std::move(questions)](const Envelope& envelope) {
      if (!std::holds_alternative<schemas::AgentHello>(envelope.message)) return;
      send(schemas::AgentWelcome{});
      for (const schemas::Message& question : questions) send(question);
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

Status run(const AgentOptions& options) {
  monitoring::Metrics metrics;
  return run_agent(options, metrics);
}

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
  REQUIRE(run(options).ok());
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
  const Status status = run(options);
  ended = true;
  const bool in_time = std::chrono::steady_clock::now() < late;
  rescuer.join();
  probe->let_go();  // its thread is left alone, and ends
  CHECK(status.ok());
  CHECK(in_time);
}

/// Lets all go that hang in it.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

AgentOptions options_for(const Coordinator& coordinator, const std::function<bool()>& done) {
  AgentOptions options;
  options.coordinator = coordinator.address;
  options.name = std::string("a");
  options.limits = quick_limits();
  options.limits.goodbye_ms = 100;
  const auto late = std::chrono::steady_clock::now() + kWait;
  options.stop = [done, late] { return done() || std::chrono::steady_clock::now() > late; };
  return options;
}

TEST_CASE("a job's dead folders hold up no other job on its machine", "[agent]") {
  std::vector<schemas::Message> questions;
  for (std::uint64_t i = 0; i < BackgroundCalls::kThreadsMax; ++i) {
    const std::string file = ".probe-" + std::to_string(i);
    questions.push_back(schemas::FolderProbe{"dead", 1, "/", file, "nonce", false});
    questions.push_back(schemas::PieceQuery{i + 1, "dead", 1, "/", "file", i, 1});
  }
  questions.push_back(schemas::FolderProbe{"lives", 1, "/", ".probe-lives", "nonce", false});
  questions.push_back(schemas::PieceQuery{99, "lives", 1, "/", "file", 0, 1});
  Coordinator coordinator(questions);
  const auto gate = std::make_shared<Gate>();
  const auto dead = std::make_shared<std::atomic<std::size_t>>(0);
  const auto lives = std::make_shared<std::atomic<std::size_t>>(0);
  constexpr std::size_t kHang = 2 * BackgroundCalls::kGroupThreadsMax;
  AgentOptions options =
      options_for(coordinator, [dead, lives] { return *lives == 2 && *dead >= kHang; });
  const auto look = [gate, dead, lives](const std::string& job) {
    ++*(job == "dead" ? dead : lives);
    if (job == "dead") gate->wait();
  };
  options.files.probe = [look](const schemas::FolderProbe& probe) {
    look(probe.job);
    return schemas::FolderProbeResult();
  };
  options.files.read = [look](const schemas::PieceQuery& query) {
    look(query.job);
    return Result<schemas::FilePiece>(schemas::FilePiece());
  };
  const Status status = run(options);
  gate->open();
  CHECK(status.ok());
  CHECK(*lives == 2);
  CHECK(*dead == kHang);
}

/// What the process writes to standard error while `action` runs.
std::string log_of(const std::function<void()>& action) {
  const TestFolder folder("agent-node-log");
  const auto path = folder.path() / "log";
  std::fflush(stderr);
  const int kept = ::dup(STDERR_FILENO);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::dup2(file, STDERR_FILENO) == STDERR_FILENO);
  action();
  std::fflush(stderr);
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  ::close(file);
  return base::read_text_file(path, 1 << 20).value();
}

TEST_CASE("an agent without jobs says that it ends as it was asked to", "[agent]") {
  Coordinator coordinator(std::vector<schemas::Message>{});
  Status status;
  const std::string log =
      log_of([&] { status = run(options_for(coordinator, [] { return true; })); });
  CHECK(status.ok());
  CHECK_THAT(log, Catch::Contains("msg=\"ending, as it was asked to\""));
}

TEST_CASE("files that a job wants anew end the work on those that it wanted before", "[agent]") {
  Coordinator coordinator({schemas::PlaceCheckpoint{"x", 1, "/", "step-1-g1", {0}}});
  const auto told = std::make_shared<std::atomic<std::size_t>>(0);
  auto welcome = coordinator.recorder->answer;
  coordinator.recorder->answer = [&, welcome](const Envelope& envelope) {
    welcome(envelope);
    // The question is not answered; the job has another run by now.
    if (std::holds_alternative<schemas::PieceQuery>(envelope.message)) {
      coordinator.send(schemas::PlaceCheckpoint{"x", 2, "/", "step-2-g1", {0}});
    }
    if (std::holds_alternative<schemas::CheckpointPlaced>(envelope.message)) ++*told;
  };
  AgentOptions options = options_for(coordinator, [told] { return *told > 0; });
  options.limits.cut_ms = 600'000;
  std::mutex mutex;
  std::vector<Errc> ends;
  options.files.place = [&](const schemas::PlaceCheckpoint& place, const AskPiece& ask) -> Status {
    if (place.generation == 2) return {};
    const Status status = ask("file", 0, 1).status();
    const std::lock_guard lock(mutex);
    ends.push_back(status.code());
    return status;
  };
  CHECK(run(options).ok());
  CHECK(ends == std::vector<Errc>{Errc::cancelled});
  std::vector<std::uint64_t> placed;  // generations
  for (const Envelope& envelope : coordinator.recorder->envelopes) {
    const auto* one = std::get_if<schemas::CheckpointPlaced>(&envelope.message);
    if (one != nullptr) placed.push_back(one->generation);
  }
  CHECK(placed == std::vector<std::uint64_t>{2});
}

}  // namespace
}  // namespace troupe::cluster::test
