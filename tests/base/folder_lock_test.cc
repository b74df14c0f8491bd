// SPDX-License-Identifier: Apache-2.0
// One holder at a time; the next comes when the first lets go.
#include "base/folder_lock.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::base {
namespace {

TEST_CASE("a folder has one holder at a time") {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("troupe-folder-lock-" + std::to_string(::getpid())) / "made";
  auto first = FolderLock::take(folder);
  REQUIRE(first.ok());
  const auto second = FolderLock::take(folder);
  CHECK(second.status().code() == Errc::already_exists);
  CHECK(second.status().text() == folder.string() + " is in use by another process");
  {
    // Copies of checkpoints are kept where a server may write its own part.
    const auto keep = [&] {
      return FolderLock::take(folder, {}, FileMode::shared, FolderLock::kCopiesFile);
    };
    const auto copies = keep();
    CHECK(copies.ok());
    CHECK(keep().status().code() == Errc::already_exists);
  }
  std::thread leaver([held = std::move(first).value()]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held = FolderLock();
  });
  CHECK(FolderLock::take(folder, std::chrono::seconds(60)).ok());
  leaver.join();
  CHECK(FolderLock::take(folder).ok());
  std::filesystem::remove_all(folder.parent_path());
}

// Each holder removes the file. Were that not noticed, one who has opened it before could hold it
// beside another who makes a new file.
TEST_CASE("many who come and go are never two at a time, and leave no file") {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("troupe-folder-lock-many-" + std::to_string(::getpid()));
  std::atomic<int> inside{0};
  std::atomic<int> together{0};
  std::atomic<int> held{0};
  std::vector<std::jthread> comers;
  for (int comer = 0; comer < 4; ++comer) {
    comers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto lock = FolderLock::take(folder);
        if (!lock.ok()) continue;
        ++held;
        if (++inside > 1) ++together;
        std::this_thread::yield();
        --inside;
      }
    });
  }
  comers.clear();
  CHECK(held > 0);
  CHECK(together == 0);
  CHECK(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file that somebody replaces while it is held is left to its new holder") {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("troupe-folder-lock-replaced-" + std::to_string(::getpid()));
  const auto held = FolderLock::take(folder);
  REQUIRE(held.ok());
  std::filesystem::remove(folder / "lock");
  std::ofstream(folder / "lock") << "another";
  CHECK(FolderLock::take(folder).ok());
  std::filesystem::remove_all(folder);
}

TEST_CASE("who may read a folder cannot hold its lock, and a link in its place is not followed") {
  const TestFolder place("folder-lock-mode");
  const auto mode = [](const std::filesystem::path& path) {
    return std::filesystem::status(path).permissions();
  };
  using std::filesystem::perms;
  const auto shared = place.path() / "shared";
  {
    std::filesystem::create_directory(shared);
    std::ofstream(shared / "lock") << "";  // with the mode that anybody may read
    const auto held = FolderLock::take(shared);
    REQUIRE(held.ok());
    CHECK(mode(shared / "lock") == (perms::owner_read | perms::owner_write));
  }
  const auto secret = place.path() / "a" / "secret";
  const auto held = FolderLock::take(secret / "", {}, FileMode::secret);
  REQUIRE(held.ok());
  CHECK(mode(secret) == perms::owner_all);
  CHECK(mode(secret / "lock") == (perms::owner_read | perms::owner_write));
  CHECK(mode(place.path() / "a") != perms::owner_all);
  REQUIRE(make_folder(place.path() / "b" / "own", FileMode::secret).ok());
  CHECK(mode(place.path() / "b" / "own") == perms::owner_all);
  std::filesystem::create_symlink(place.path() / "outside", shared / "lock");
  CHECK_FALSE(FolderLock::take(shared).ok());
  CHECK_FALSE(std::filesystem::exists(place.path() / "outside"));
}

TEST_CASE("another's file at the lock's name is left alone") {
  const TestFolder place("folder-lock-hard-link");
  using std::filesystem::perms;
  const auto victim = place.path() / "victim";
  std::ofstream(victim) << "mine";
  std::filesystem::permissions(victim, perms::owner_all | perms::others_read);
  const auto folder = place.path() / "shared";
  std::filesystem::create_directory(folder);
  std::filesystem::create_hard_link(victim, folder / "lock");
  const Status refused = FolderLock::take(folder).status();
  CHECK(refused.code() == Errc::failed_precondition);
  CHECK_THAT(refused.text(), Catch::Contains((folder / "lock").string() + " cannot be locked") &&
                                 Catch::Contains("2 names"));
  CHECK(std::filesystem::status(victim).permissions() == (perms::owner_all | perms::others_read));
  std::filesystem::remove(folder / "lock");
  CHECK(FolderLock::take(folder).ok());
}

TEST_CASE("what cannot be a folder is an error that names it") {
  const auto file = std::filesystem::temp_directory_path() /
                    ("troupe-folder-lock-file-" + std::to_string(::getpid()));
  std::ofstream(file) << "x";
  const auto lock = FolderLock::take(file);
  REQUIRE_FALSE(lock.ok());
  CHECK_THAT(lock.status().text(), Catch::Contains(file.string()));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace troupe::base
