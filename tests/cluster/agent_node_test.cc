// SPDX-License-Identifier: Apache-2.0
// An agent that is asked to end does, also while a folder that it probes hangs.
#include "cluster/agent_node.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/link/link_support.h"
#include "tests/support/job_files.h"

namespace troupe::cluster::test {
using namespace link;
using namespace link::test;
namespace {

/// A folder whose file is a pipe: who reads it hangs for as long as the pipe is held.
class HangingFile {
 public:
  HangingFile() { REQUIRE(::mkfifo((folder() / "file").c_str(), 0600) == 0); }
  ~HangingFile() { let_go(); }
  const std::filesystem::path& folder() const { return folder_.path(); }
  /// True from when somebody reads the file on.
  bool hold() {
    const std::lock_guard lock(mutex_);
    if (writer_ < 0)
      writer_ = ::open((folder() / "file").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return writer_ >= 0;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    if (writer_ >= 0) ::close(std::exchange(writer_, -1));
  }

 private:
  const TestFolder folder_{"agent"};
  std::mutex mutex_;
  int writer_ = -1;
};

/// A coordinator that only welcomes and asks for one folder.
struct Coordinator {
  explicit Coordinator(const std::filesystem::path& folder) : links(quick_limits(), pool) {
    recorder->answer = [this, folder](const Envelope& envelope) {
      if (!std::holds_alternative<schemas::AgentHello>(envelope.message)) return;
      send(schemas::AgentWelcome{});
      send(schemas::FolderProbe{"job-1", 1, folder.string(), "file", "nonce", false});
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

TEST_CASE("a folder that hangs does not keep an agent from ending", "[agent]") {
  HangingFile file;
  Coordinator coordinator(file.folder());
  AgentOptions options;
  options.coordinator = coordinator.address;
  options.name = std::string("a");
  options.limits = quick_limits();
  options.limits.goodbye_ms = 100;
  const auto late = std::chrono::steady_clock::now() + kWait;
  options.stop = [&] { return file.hold() || std::chrono::steady_clock::now() > late; };
  std::atomic<bool> ended{false};
  // An agent that waits for the folder is let go, for the test to end.
  std::thread rescuer([&] {
    while (!ended && std::chrono::steady_clock::now() < late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!ended) file.let_go();
  });
  const Status status = run_agent(options);
  ended = true;
  const bool in_time = std::chrono::steady_clock::now() < late;
  rescuer.join();
  CHECK(status.ok());
  CHECK(in_time);
}

}  // namespace
}  // namespace troupe::cluster::test
