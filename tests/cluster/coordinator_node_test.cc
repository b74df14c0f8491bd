// SPDX-License-Identifier: Apache-2.0
// A coordinator's program from its start on. What it does with agents and jobs is tried with whole
// processes: tests/integration.
#include "cluster/coordinator_node.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "cluster/access_files.h"
#include "cluster/background_calls.h"
#include "cluster/job_client.h"
#include "tests/link/link_support.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"
#include "trust/authority.h"
#include "trust/token.h"

namespace troupe::cluster {
namespace {

namespace fs = std::filesystem;

constexpr trust::Validity kLong{0, 4'000'000'000};

/// A coordinator on the loopback that ends when `ready` has run.
CoordinatorNodeOptions options_of(const fs::path& state,
                                  std::function<void(const std::string& address)> ready) {
  CoordinatorNodeOptions options;
  options.listen = "127.0.0.1:0";
  options.pages = {"127.0.0.1", 0};
  options.state_folder = state.string();
  options.stop = [] { return true; };
  options.find_start = [](const control::FindStart&) { return control::StartFound(); };
  options.ready = [ready = std::move(ready)](const std::string& address, const std::string&) {
    ready(address);
  };
  return options;
}

TEST_CASE("a coordinator knows what is revoked before it takes its first connection") {
  const TestFolder folder("coordinator-node-denied");
  auto authority = trust::Authority::create(folder.path() / "ca", "lab", kLong).value();
  const fs::path file = folder.path() / "main.pem";
  const auto main = authority.issue(trust::Role::coordinator, "main", kLong, kLong.from).value();
  REQUIRE(trust::write_credentials(file, main).ok());
  const auto person = authority.issue(trust::Role::person, "ann", kLong, kLong.from).value();
  REQUIRE(authority.revoke(trust::Role::person, "ann", 1'000).ok());
  const fs::path state = folder.path() / "state";
  fs::create_directory(state);
  fs::copy_file(folder.path() / "ca" / "denied.pem", state / AccessFiles::kDenied);

  base::Status told;
  auto options = options_of(state, [&](const std::string& address) {
    JobClientOptions ask;
    ask.address = address;
    ask.tls = link::Tls::create(person).value();
    told = JobClient::connect(std::move(ask)).value()->list().status();
  });
  options.identity = IdentityFile::open(file, trust::Role::coordinator).value();
  monitoring::Metrics metrics;
  REQUIRE(run_coordinator(options, metrics).ok());
  CHECK_THAT(told.text(), Catch::Contains("revoked"));
}

/// A coordinator on a thread, until this is destroyed.
class Running {
 public:
  Running(const fs::path& state, std::shared_ptr<IdentityFile> identity) {
    std::promise<std::string> ready;
    auto options = options_of(state, [&](const std::string& at) { ready.set_value(at); });
    options.identity = std::move(identity);
    options.stop = [this] { return stop_.load(); };
    thread_ = std::thread([this, options] { ended_ = run_coordinator(options, metrics_); });
    address = ready.get_future().get();
  }
  ~Running() {
    stop_ = true;
    thread_.join();
    CHECK(ended_.ok());
  }
  std::string address;

 private:
  std::atomic<bool> stop_{false};
  base::Status ended_;
  monitoring::Metrics metrics_;
  std::thread thread_;
};

TEST_CASE("an agent that hides its certificate's end gets nothing until it shows a new one") {
  const TestFolder folder("coordinator-node-ended");
  const fs::path state = folder.path() / "state";
  const std::int64_t now = base::unix_seconds();
  auto authority = trust::Authority::create(folder.path() / "ca", "lab", kLong).value();
  const fs::path file = folder.path() / "main.pem";
  const auto main = authority.issue(trust::Role::coordinator, "main", kLong, now).value();
  REQUIRE(trust::write_credentials(file, main).ok());
  const auto person = authority.issue(trust::Role::person, "ann", kLong, now).value();
  const auto brief = authority.issue(trust::Role::agent, "a", {now - 300, now + 8}, now).value();
  JobClientOptions ask;
  ask.token = trust::TokenBook::open(state / AccessFiles::kTokens)
                  ->make("ann", {trust::Right::read}, kLong)
                  .value();
  ask.tls = link::Tls::create(person).value();
  const Running coordinator(state, IdentityFile::open(file, trust::Role::coordinator).value());
  ask.address = coordinator.address;
  const auto client = JobClient::connect(std::move(ask)).value();

  link::test::Client agent(link::test::quick_limits(), link::Tls::create(brief).value());
  agent.self = {{schemas::Role::agent, 0}, "a", "", 0};
  agent.peer = {{schemas::Role::coordinator, 0}, "", "", 0};
  REQUIRE(agent.dial(coordinator.address, 0).ok());
  REQUIRE(agent.recorder->wait_up());
  schemas::Envelope envelope;
  envelope.to = agent.peer.actor;
  schemas::AgentHello hello;
  hello.name = "a";
  hello.slots = 1;
  envelope.message = hello;
  REQUIRE(agent.link->send(envelope).ok());
  REQUIRE(agent.recorder->wait_envelopes(1));
  // Why the machine gets nothing: asked until there is a reason, or none, as is wanted.
  const auto withheld = [&](bool reason) {
    const auto late = std::chrono::steady_clock::now() + link::test::kWait;
    std::string said;
    do {
      const auto list = client->cluster();
      REQUIRE(list.ok());
      REQUIRE(list->machines.size() == 1);
      said = list->machines[0].withheld;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (said.empty() == reason && std::chrono::steady_clock::now() < late);
    return said;
  };
  CHECK_THAT(withheld(true), Catch::StartsWith("its certificate was valid until "));
  const auto renewed = authority.renew(brief, kLong, now).value();
  agent.links.renew(link::Tls::create(renewed).value());
  agent.links.dial_anew();
  CHECK(withheld(false).empty());
  CHECK(agent.recorder->downs.empty());
}

TEST_CASE("what is done while a coordinator ends stands in audit.log, too") {
  const TestFolder folder("coordinator-node-audit");
  schemas::JobSpec spec;
  spec.name = "job";
  spec.model.network = "lenet";
  spec.data.train = "/data/train.rec";
  spec.workers = {1, 1, 1};
  for (int round = 0; round < 3; ++round) {
    const fs::path state = folder.path() / std::to_string(round);
    std::unique_ptr<JobClient> client;
    std::thread person;
    std::atomic<std::size_t> submitted{0};
    const auto options = options_of(state, [&](const std::string& address) {
      JobClientOptions ask;
      ask.address = address;
      ask.limits.coordinator_grace_ms = 1;
      client = JobClient::connect(std::move(ask)).value();
      CHECK(client->submit("", spec).ok());
      person = std::thread([&] {
        do {
          ++submitted;
        } while (client->submit("", spec).ok());
      });
    });
    monitoring::Metrics metrics;
    REQUIRE(run_coordinator(options, metrics).ok());
    person.join();
    const std::string text =
        base::read_text_file(state / AccessFiles::kAudit, std::uint64_t{1} << 24).value();
    CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) >= submitted);
  }
}

/// Folders below /dead hang until they are let go; it is counted who was looked at. Nobody sees
/// what another one wrote.
class Looks {
 public:
  schemas::FolderProbeResult look(const schemas::FolderProbe& probe) {
    std::unique_lock lock(mutex_);
    looked_.push_back(probe.path);
    changed_.notify_all();
    if (probe.path.starts_with("/dead")) changed_.wait(lock, [this] { return let_go_; });
    schemas::FolderProbeResult result;
    result.code = probe.write ? base::Errc::ok : base::Errc::not_found;
    return result;
  }
  base::Result<base::FolderLock> hold(const std::string& path) {
    auto lock = base::FolderLock::take(path);
    const std::lock_guard guard(mutex_);
    if (lock.ok()) looked_.push_back("held: " + path);
    changed_.notify_all();
    return lock;
  }
  base::Status collect() {
    std::unique_lock lock(mutex_);
    looked_.push_back("collected");
    changed_.notify_all();
    changed_.wait(lock, [this] { return let_go_; });
    return base::error(base::Errc::cancelled, "nobody waits any more");
  }
  /// `times`: so often, or more.
  bool wait_for(const std::string& path, int times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, link::test::kWait, [&] {
      return std::count(looked_.begin(), looked_.end(), path) >= times;
    });
  }
  std::size_t dead() {
    const std::lock_guard lock(mutex_);
    return count_dead();
  }
  bool wait_dead(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, link::test::kWait, [&] { return count_dead() >= count; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
  }

 private:
  std::size_t count_dead() const {
    return static_cast<std::size_t>(
        std::count_if(looked_.begin(), looked_.end(),
                      [](const std::string& path) { return path.starts_with("/dead"); }));
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> looked_;
  bool let_go_ = false;
};

/// A coordinator on a thread, with people who have tokens and an agent that has folders of its own
/// and starts nothing.
class Guarded {
 public:
  /// `kept`: checkpoints in the agent's folders.
  Guarded(const fs::path& state, const std::shared_ptr<Looks>& looks,
          std::vector<schemas::NamedCheckpoint> kept = {})
      : kept_(std::move(kept)) {
    auto book = trust::TokenBook::open(state / AccessFiles::kTokens).value();
    using trust::Right;
    for (const char* name : {"ann", "ben"}) {
      tokens_[name] = book.make(name, {Right::read, Right::submit}, kLong).value();
    }
    const std::string admin = book.make("cid", {Right::admin}, kLong).value();
    std::promise<std::string> ready;
    auto options = options_of(state, [&](const std::string& address) { ready.set_value(address); });
    options.limits.goodbye_ms = 100;
    options.stop = [this] { return stop_.load(); };
    options.files.probe = [looks](const schemas::FolderProbe& probe) { return looks->look(probe); };
    options.files.hold = [looks](const control::HoldFolder& hold) {
      return looks->hold(hold.folder);
    };
    options.files.collect = [looks](const auto&...) { return looks->collect(); };
    options.files.newest = [](const std::string&) { return schemas::NamedCheckpoint(); };
    thread_ = std::thread([this, options] { ended_ = run_coordinator(options, metrics_); });
    address_ = ready.get_future().get();
    join(admin);
  }
  ~Guarded() {
    links_.stop();
    stop_ = true;
    thread_.join();
    CHECK(ended_.ok());
  }
  std::unique_ptr<JobClient> client(const std::string& person) {
    JobClientOptions options;
    options.address = address_;
    options.token = tokens_.at(person);
    return JobClient::connect(std::move(options)).value();
  }
  base::Status submit(const std::string& person, const std::string& folder,
                      const std::string& id = "",
                      std::uint64_t stop_grace_ms = base::Limits().stop_grace_ms) {
    schemas::JobSpec spec;
    spec.limits.stop_grace_ms = stop_grace_ms;
    spec.name = "job";
    spec.model.network = "lenet";
    spec.data.train = "/data/train.rec";
    spec.workers = {1, 1, 1};
    spec.checkpoint.dir = folder;
    return client(person)->submit(id, spec).status();
  }

 private:
  void join(const std::string& token) {
    recorder_->answer = [this](const schemas::Envelope& envelope) {
      const auto* probe = std::get_if<schemas::FolderProbe>(&envelope.message);
      if (probe == nullptr) return;
      schemas::FolderProbeResult result;
      result.job = probe->job;
      result.generation = probe->generation;
      result.code = probe->write ? base::Errc::ok : base::Errc::not_found;
      result.newest = kept_;
      result.highest_generation = kept_.empty() ? 0 : kept_.front().generation;
      static_cast<void>(say(result));
    };
    link::DialOptions dial;
    dial.address = address_;
    dial.self = {{schemas::Role::agent, 0}, "a", "", 0};
    dial.peer = {{schemas::Role::coordinator, 0}, "", "", 0};
    agent_ = links_.dial(std::move(dial), recorder_).value();
    schemas::AgentHello hello;
    hello.name = "a";
    hello.slots = 64;
    for (schemas::Message message :
         {schemas::Message(schemas::PersonHello{token}), schemas::Message(hello)}) {
      REQUIRE(say(std::move(message)).ok());
    }
    REQUIRE(recorder_->wait_envelopes(1));
    REQUIRE(std::holds_alternative<schemas::AgentWelcome>(recorder_->envelopes[0].message));
  }

  base::Status say(schemas::Message message) {
    schemas::Envelope envelope;
    envelope.to = {schemas::Role::coordinator, 0};
    envelope.message = std::move(message);
    return agent_->send(std::move(envelope));
  }

  const std::vector<schemas::NamedCheckpoint> kept_;
  std::map<std::string, std::string> tokens_;  // by person
  std::atomic<bool> stop_{false};
  base::Status ended_;
  monitoring::Metrics metrics_;
  std::thread thread_;
  std::string address_;
  link::test::CountingPool pool_;
  std::shared_ptr<link::test::Recorder> recorder_ = std::make_shared<link::test::Recorder>();
  std::shared_ptr<link::Link> agent_;
  link::LinkSet links_{link::test::quick_limits(), pool_};
};

TEST_CASE("a person's dead folders hold up nobody else's jobs") {
  const TestFolder folder("coordinator-node-dead");
  const auto looks = std::make_shared<Looks>();
  {
    Guarded coordinator(folder.path() / "state", looks);
    for (std::size_t job = 0; job < BackgroundCalls::kThreadsMax; ++job) {
      REQUIRE(coordinator.submit("ann", "/dead/" + std::to_string(job)).ok());
    }
    REQUIRE(coordinator.submit("ben", "/lives").ok());
    CHECK(looks->wait_for("/lives"));
    CHECK(looks->wait_dead(BackgroundCalls::kGroupThreadsMax));
    CHECK(looks->dead() == BackgroundCalls::kGroupThreadsMax);
    looks->let_go();
  }
}

TEST_CASE("a copy of the run before that does not end yet is no other job in its folder") {
  const TestFolder folder("coordinator-node-again");
  const auto looks = std::make_shared<Looks>();
  Guarded coordinator(folder.path() / "state", looks, {{40, 1}});
  const std::string copies = (folder.path() / "copies").string();
  REQUIRE(coordinator.submit("ann", copies, "again").ok());
  REQUIRE(looks->wait_for("collected"));
  const auto client = coordinator.client("ann");
  REQUIRE(client->stop("again").ok());
  REQUIRE(coordinator.submit("ann", copies, "again").ok());
  REQUIRE(looks->wait_for(copies, 6));  // both runs have looked who sees the folder
  looks->let_go();
  CHECK(looks->wait_for("held: " + copies, 2));
}

TEST_CASE("who waits in vain for the copy of the run before fails with that reason") {
  const TestFolder folder("coordinator-node-vain");
  const auto looks = std::make_shared<Looks>();
  Guarded coordinator(folder.path() / "state", looks, {{40, 1}});
  const std::string copies = (folder.path() / "copies").string();
  REQUIRE(coordinator.submit("ann", copies, "again", 500).ok());
  REQUIRE(looks->wait_for("collected"));
  const auto client = coordinator.client("ann");
  REQUIRE(client->stop("again").ok());
  REQUIRE(coordinator.submit("ann", copies, "again", 500).ok());
  const auto late = std::chrono::steady_clock::now() + link::test::kWait;
  auto job = client->query("again");
  while (job.ok() && !schemas::is_final(job->phase) && std::chrono::steady_clock::now() < late) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    job = client->query("again");
  }
  REQUIRE(job.ok());
  CHECK(job->phase == schemas::JobPhase::failed);
  CHECK_THAT(job->text, Catch::Contains("the job's run before has not let go of it yet"));
  looks->let_go();
}

TEST_CASE("a coordinator that ends lets go of the folders in which it keeps copies") {
  const TestFolder folder("coordinator-node-copies");
  const std::vector<fs::path> copies = {folder.path() / "a", folder.path() / "b"};
  {
    const auto looks = std::make_shared<Looks>();
    Guarded coordinator(folder.path() / "state", looks);
    for (const fs::path& dir : copies) {
      REQUIRE(coordinator.submit("ann", dir.string()).ok());
      REQUIRE(looks->wait_for("held: " + dir.string()));
      CHECK(fs::exists(dir / base::FolderLock::kFile));
    }
  }
  for (const fs::path& dir : copies) CHECK(!fs::exists(dir / base::FolderLock::kFile));
}

}  // namespace
}  // namespace troupe::cluster
