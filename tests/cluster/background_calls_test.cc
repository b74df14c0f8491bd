// SPDX-License-Identifier: Apache-2.0
// Jobs' starts are looked up side by side, few wait, and a folder that hangs holds up neither
// another job nor the end.
#include "cluster/start_finder.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::cluster {
namespace {

constexpr std::chrono::seconds kWait{20};
constexpr std::uint64_t kPatienceMs = 20'000;

control::StartFound found_of(const control::FindStart& find) {
  return {find.job, {}, find.spec.seed, 1, 5, ""};
}

control::FindStart find_of(const std::string& job, std::uint64_t seed = 0) {
  control::FindStart find{job, {}};
  find.spec.seed = seed;
  return find;
}

/// Folders of jobs, of which some hang until they are let go.
class Folders {
 public:
  explicit Folders(std::set<std::string> dead = {}) : dead_(std::move(dead)) {}
  control::StartFound look_up(const control::FindStart& find) {
    std::unique_lock lock(mutex_);
    entered_ += 1;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !dead_.contains(find.job); });
    return found_of(find);
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    dead_.clear();
    changed_.notify_all();
  }
  bool wait_entered(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kWait, [&] { return entered_ == count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> dead_;
  std::size_t entered_ = 0;
};

/// What was told.
class Told {
 public:
  void add(const control::StartFound& found) {
    const std::lock_guard lock(mutex_);
    steps_[found.job].push_back(found.step);
    changed_.notify_all();
  }
  bool wait_jobs(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kWait, [&] { return steps_.size() == count; });
  }
  /// By job.
  std::map<std::string, std::vector<std::uint64_t>> steps() {
    const std::lock_guard lock(mutex_);
    return steps_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<std::uint64_t>> steps_;
};

/// A finder over folders that may outlive it.
struct Fixture {
  explicit Fixture(std::set<std::string> dead = {})
      : folders(std::make_shared<Folders>(std::move(dead))) {}
  std::unique_ptr<StartFinder> finder(std::size_t waiting_max, std::uint64_t patience_ms) {
    return std::make_unique<StartFinder>(
        [folders = folders](const control::FindStart& find) { return folders->look_up(find); },
        [this](const control::StartFound& found) { told.add(found); }, waiting_max, patience_ms);
  }
  /// Until no look-up is left, of whatever finder: each holds the folders to its end.
  bool wait_gone() {
    const std::weak_ptr<Folders> held = std::exchange(folders, nullptr);
    const auto late = std::chrono::steady_clock::now() + kWait;
    while (!held.expired() && std::chrono::steady_clock::now() < late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return held.expired();
  }
  std::shared_ptr<Folders> folders;
  Told told;
};

TEST_CASE("every job is looked up, once") {
  constexpr std::size_t kJobs = 20;
  Fixture fixture;
  auto finder = fixture.finder(kJobs, kPatienceMs);
  for (std::uint64_t job = 0; job < kJobs; ++job) {
    CHECK(finder->add(find_of(std::to_string(job), job)));
  }
  REQUIRE(fixture.told.wait_jobs(kJobs));
  finder.reset();
  for (const auto& [job, steps] : fixture.told.steps()) {
    CHECK(steps == std::vector<std::uint64_t>{std::stoull(job)});
  }
}

TEST_CASE("a job whose folder hangs holds up no other job") {
  Fixture fixture({"hangs"});
  const auto finder = fixture.finder(10, kPatienceMs);
  CHECK(finder->add(find_of("hangs")));
  REQUIRE(fixture.folders->wait_entered(1));
  for (const char* job : {"a", "b", "c", "d", "e"}) CHECK(finder->add(find_of(job)));
  CHECK(fixture.told.wait_jobs(5));
  fixture.folders->let_go();
  CHECK(fixture.told.wait_jobs(6));
}

TEST_CASE("of a job that is asked for again only the newest request is told") {
  Fixture fixture({"job"});
  auto finder = fixture.finder(1, kPatienceMs);
  CHECK(finder->add(find_of("job", 1)));
  REQUIRE(fixture.folders->wait_entered(1));
  CHECK(finder->add(find_of("job", 2)));
  CHECK(finder->add(find_of("job", 3)));  // in the place of the one that waits
  fixture.folders->let_go();
  REQUIRE(fixture.told.wait_jobs(1));
  finder.reset();
  CHECK(fixture.told.steps().at("job") == std::vector<std::uint64_t>{3});
  CHECK(fixture.folders->wait_entered(2));
}

TEST_CASE("look-ups that hang bound the queue, and the end does not wait for them") {
  std::set<std::string> dead;
  while (dead.size() < BackgroundCalls::kThreadsMax) dead.insert(std::to_string(dead.size()));
  Fixture fixture(dead);
  auto finder = fixture.finder(2, 20);
  for (const std::string& job : dead) CHECK(finder->add(find_of(job)));
  REQUIRE(fixture.folders->wait_entered(dead.size()));
  CHECK(finder->add(find_of("waits")));
  CHECK(finder->add(find_of("waits too")));
  CHECK_FALSE(finder->add(find_of("one too many")));
  CHECK(finder->add(find_of("waits")));
  finder.reset();
  fixture.folders->let_go();
  CHECK(fixture.wait_gone());
  CHECK(fixture.told.steps().empty());
}

}  // namespace
}  // namespace troupe::cluster
