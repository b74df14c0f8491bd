// SPDX-License-Identifier: Apache-2.0
// One holder at a time; the next comes when the first lets go.
#include "base/folder_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

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
  std::thread leaver([held = std::move(first).value()]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held = FolderLock();
  });
  CHECK(FolderLock::take(folder, std::chrono::seconds(60)).ok());
  leaver.join();
  CHECK(FolderLock::take(folder).ok());
  std::filesystem::remove_all(folder.parent_path());
}

// Were it removed, a process that opened it before could hold it beside one that made a new file.
TEST_CASE("the file of a lock stays the same file") {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("troupe-folder-lock-stays-" + std::to_string(::getpid()));
  const auto inode = [&] {
    struct stat status = {};
    return ::stat((folder / "lock").c_str(), &status) == 0 ? status.st_ino : 0;
  };
  auto held = FolderLock::take(folder);
  REQUIRE(held.ok());
  const auto first = inode();
  CHECK(first != 0);
  held = FolderLock::take(folder / "other");
  CHECK(inode() == first);
  CHECK(FolderLock::take(folder).ok());
  CHECK(inode() == first);
  std::filesystem::remove_all(folder);
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
