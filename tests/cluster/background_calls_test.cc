// SPDX-License-Identifier: Apache-2.0
// Calls on folders run side by side, few wait, and a folder that hangs holds up neither another
// call nor the end.
#include "cluster/background_calls.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

constexpr std::chrono::seconds kWait{20};
constexpr std::uint64_t kPatienceMs = 20'000;

/// Folders, of which some hang until they are let go.
class Folders {
 public:
  explicit Folders(std::set<std::string> dead = {}) : dead_(std::move(dead)) {}
  void look_up(const std::string& folder) {
    std::unique_lock lock(mutex_);
    entered_ += 1;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !dead_.contains(folder) || released_.erase(folder) > 0; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    dead_.clear();
    changed_.notify_all();
  }
  /// The call that is in `folder` now; later ones hang in `dead`.
  void let_go(const std::string& folder, std::set<std::string> dead) {
    const std::lock_guard lock(mutex_);
    dead_.merge(dead);
    released_.insert(folder);
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
  std::set<std::string> released_;
  std::size_t entered_ = 0;
};

/// What was told.
class Told {
 public:
  void add(const std::string& folder, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    numbers_[folder].push_back(number);
    changed_.notify_all();
  }
  bool wait_folders(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kWait, [&] { return numbers_.size() == count; });
  }
  /// Of the calls of each folder.
  std::map<std::string, std::vector<std::uint64_t>> numbers() {
    const std::lock_guard lock(mutex_);
    return numbers_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<std::uint64_t>> numbers_;
};

/// Calls on folders that may outlive them.
struct Fixture {
  explicit Fixture(std::size_t waiting_max, std::uint64_t patience_ms = kPatienceMs,
                   std::set<std::string> dead = {})
      : folders(std::make_shared<Folders>(std::move(dead))),
        calls(std::in_place, "the look at", waiting_max, patience_ms) {}
  bool add(const std::string& folder, std::uint64_t number = 0, const std::string& group = "") {
    return calls->add({folder, group}, [this, held = folders, folder, number] {
      held->look_up(folder);
      return [this, folder, number] { told.add(folder, number); };
    });
  }
  /// Until no call is left: each holds the folders to its end.
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
  std::optional<BackgroundCalls> calls;
};

TEST_CASE("every folder is looked at, once") {
  constexpr std::size_t kFolders = 20;
  Fixture fixture(kFolders);
  for (std::uint64_t folder = 0; folder < kFolders; ++folder) {
    CHECK(fixture.add(std::to_string(folder), folder));
  }
  REQUIRE(fixture.told.wait_folders(kFolders));
  fixture.calls.reset();
  for (const auto& [folder, numbers] : fixture.told.numbers()) {
    CHECK(numbers == std::vector<std::uint64_t>{std::stoull(folder)});
  }
}

TEST_CASE("a folder that hangs holds up no other folder") {
  Fixture fixture(10, kPatienceMs, {"hangs"});
  CHECK(fixture.add("hangs"));
  REQUIRE(fixture.folders->wait_entered(1));
  for (const char* folder : {"a", "b", "c", "d", "e"}) CHECK(fixture.add(folder));
  CHECK(fixture.told.wait_folders(5));
  fixture.folders->let_go();
  CHECK(fixture.told.wait_folders(6));
}

TEST_CASE("of a folder that is asked for again only the newest call is told") {
  Fixture fixture(1, kPatienceMs, {"folder"});
  CHECK(fixture.add("folder", 1));
  REQUIRE(fixture.folders->wait_entered(1));
  CHECK(fixture.add("folder", 2));
  CHECK(fixture.add("folder", 3));  // in the place of the one that waits
  fixture.folders->let_go();
  REQUIRE(fixture.told.wait_folders(1));
  fixture.calls.reset();
  CHECK(fixture.told.numbers().at("folder") == std::vector<std::uint64_t>{3});
  CHECK(fixture.folders->wait_entered(2));
}

TEST_CASE("whose folders hang holds up nobody else") {
  std::set<std::string> dead;
  while (dead.size() < 2 * BackgroundCalls::kThreadsMax) dead.insert(std::to_string(dead.size()));
  Fixture fixture(2 * dead.size(), kPatienceMs, dead);
  for (const std::string& folder : dead) CHECK(fixture.add(folder, 0, "ann"));
  REQUIRE(fixture.folders->wait_entered(BackgroundCalls::kGroupThreadsMax));
  for (const char* folder : {"a", "b", "c"}) CHECK(fixture.add(folder, 0, "ben"));
  CHECK(fixture.add("of nobody that is known"));
  CHECK(fixture.told.wait_folders(4));
  fixture.folders->let_go();
  CHECK(fixture.told.wait_folders(4 + dead.size()));
}

TEST_CASE("the end of a call lets both run that waited for it: of its key, and of its group") {
  Fixture fixture(10, kPatienceMs, {"key", "other"});
  CHECK(fixture.add("key", 1, "ann"));
  CHECK(fixture.add("other", 1, "ann"));
  REQUIRE(fixture.folders->wait_entered(2));
  CHECK(fixture.add("key", 2, "ben"));    // waits for the key
  CHECK(fixture.add("hangs", 1, "ann"));  // waits for the group
  fixture.folders->let_go("key", {"hangs", "key"});
  // Both are under way, though each of them hangs.
  CHECK(fixture.folders->wait_entered(4));
  fixture.folders->let_go();
  CHECK(fixture.told.wait_folders(3));
}

TEST_CASE("a call of another group that takes the place of one that waits need not wait") {
  Fixture fixture(10, kPatienceMs, {"a", "b"});
  CHECK(fixture.add("a", 1, "ann"));
  CHECK(fixture.add("b", 1, "ann"));
  REQUIRE(fixture.folders->wait_entered(2));
  CHECK(fixture.add("c", 1, "ann"));
  CHECK(fixture.add("c", 2, "ben"));
  CHECK(fixture.told.wait_folders(1));
  CHECK(fixture.told.numbers().at("c") == std::vector<std::uint64_t>{2});
  fixture.folders->let_go();
  CHECK(fixture.told.wait_folders(3));
}

TEST_CASE("what a call holds goes when another one takes its place, and when it has run") {
  Fixture fixture(10, kPatienceMs, {"folder"});
  CHECK(fixture.add("folder", 1));
  REQUIRE(fixture.folders->wait_entered(1));
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> replaced = held;
  CHECK(fixture.calls->add({"folder"}, [held] { return [] {}; }));
  held = std::make_shared<int>(0);
  const std::weak_ptr<int> ran = held;
  CHECK_FALSE(replaced.expired());
  bool gone = false;  // before its report
  CHECK(fixture.calls->add({"folder"}, [&fixture, &gone, held, ran] {
    return [&fixture, &gone, ran] {
      gone = ran.expired();
      fixture.told.add("folder", 3);
    };
  }));
  held.reset();
  CHECK(replaced.expired());
  CHECK_FALSE(ran.expired());
  fixture.folders->let_go();
  REQUIRE(fixture.told.wait_folders(1));
  fixture.calls.reset();
  CHECK(gone);
}

TEST_CASE("who waits behind a call is told of its end, others are not") {
  Fixture fixture(10, kPatienceMs, {"a", "b", "x", "y"});
  const auto moves = [&](const std::string& folder) {
    return [&fixture, folder] { fixture.told.add(folder + " moves", 0); };
  };
  for (const char* folder : {"a", "b"}) CHECK(fixture.add(folder, 0, "ann"));
  for (const char* folder : {"x", "y"}) CHECK(fixture.add(folder, 0, "ben"));
  REQUIRE(fixture.folders->wait_entered(4));
  const auto nothing = [] { return [] {}; };
  CHECK(fixture.calls->add({"c", "ann", moves("c")}, nothing));
  CHECK(fixture.calls->add({"d", "ann", moves("d")}, nothing));
  CHECK(fixture.calls->add({"z", "ben", moves("z")}, nothing));
  fixture.folders->let_go("b", {});
  REQUIRE(fixture.told.wait_folders(3));  // b's end, and what c and d are told
  CHECK_FALSE(fixture.told.numbers().contains("z moves"));
  fixture.folders->let_go();
  CHECK(fixture.told.wait_folders(7));
  fixture.calls.reset();
  CHECK(fixture.told.numbers().at("c moves").size() == 1);
  CHECK(fixture.told.numbers().at("d moves").size() >= 2);  // with c's end it begins
  CHECK(fixture.told.numbers().contains("z moves"));
}

TEST_CASE("who waits for its own group hears nothing of the ends of others") {
  std::set<std::string> dead;
  while (dead.size() < BackgroundCalls::kThreadsMax) dead.insert(std::to_string(dead.size()));
  Fixture fixture(10, kPatienceMs, dead);
  for (const std::string& folder : dead) {
    CHECK(fixture.add(folder, 0, folder == "0" || folder == "1" ? "ann" : ""));
  }
  REQUIRE(fixture.folders->wait_entered(dead.size()));
  const auto moves = [&](const std::string& folder) {
    return [&fixture, folder] { fixture.told.add(folder + " moves", 0); };
  };
  const auto nothing = [] { return [] {}; };
  CHECK(fixture.calls->add({"hers", "ann", moves("hers")}, nothing));
  CHECK(fixture.calls->add({"his", "ben", moves("his")}, nothing));
  fixture.folders->let_go("7", {});
  REQUIRE(fixture.told.wait_folders(2));  // the end of 7, and "his moves"
  CHECK(fixture.told.numbers().contains("his moves"));
  CHECK_FALSE(fixture.told.numbers().contains("hers moves"));
  fixture.folders->let_go();
  CHECK(fixture.told.wait_folders(2 + 7 + 1));
  fixture.calls.reset();
}

TEST_CASE("what waiting calls hold does not hold up the end") {
  std::set<std::string> dead;
  while (dead.size() < BackgroundCalls::kThreadsMax) dead.insert(std::to_string(dead.size()));
  Fixture fixture(2, 20, dead);
  for (const std::string& folder : dead) CHECK(fixture.add(folder));
  REQUIRE(fixture.folders->wait_entered(dead.size()));
  auto left = std::make_shared<std::promise<void>>();
  std::future<void> gone = left->get_future();
  // Its end hangs until the folders are let go.
  std::shared_ptr<int> slow(new int(0), [folders = fixture.folders, left](const int* held) {
    folders->look_up("0");
    delete held;
    left->set_value();
  });
  CHECK(fixture.calls->add({"waits"}, [slow] { return [] {}; }));
  slow.reset();
  left.reset();
  fixture.calls.reset();
  CHECK(gone.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  fixture.folders->let_go();
  CHECK(gone.wait_for(kWait) == std::future_status::ready);
  CHECK(fixture.wait_gone());
}

TEST_CASE("whose calls wait leaves half of the places to others") {
  Fixture fixture(4, kPatienceMs, {"a", "b", "c", "d", "e", "f"});
  for (const char* folder : {"a", "b", "c", "d"}) CHECK(fixture.add(folder, 0, "ann"));
  REQUIRE(fixture.folders->wait_entered(2));
  CHECK_FALSE(fixture.add("e", 0, "ann"));
  CHECK(fixture.add("c", 0, "ann"));  // in the place of her own
  for (const char* folder : {"1", "2"}) CHECK(fixture.add(folder, 0, "ben"));
  CHECK(fixture.told.wait_folders(2));
  fixture.folders->let_go();
  CHECK(fixture.told.wait_folders(6));
}

TEST_CASE("calls that hang bound the queue, and the end does not wait for them") {
  std::set<std::string> dead;
  while (dead.size() < BackgroundCalls::kThreadsMax) dead.insert(std::to_string(dead.size()));
  Fixture fixture(2, 20, dead);
  for (const std::string& folder : dead) CHECK(fixture.add(folder));
  REQUIRE(fixture.folders->wait_entered(dead.size()));
  CHECK(fixture.add("waits"));
  CHECK(fixture.add("waits too"));
  CHECK_FALSE(fixture.add("one too many"));
  CHECK(fixture.add("waits"));
  fixture.calls.reset();
  fixture.folders->let_go();
  CHECK(fixture.wait_gone());
  CHECK(fixture.told.numbers().empty());
}

}  // namespace
}  // namespace troupe::cluster
