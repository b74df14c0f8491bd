// SPDX-License-Identifier: Apache-2.0
// What a cache of kernels finds again, and what it does not believe.
#include "ops/jit/disk_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::ops::jit {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

const std::string kKernel("machine code \0 with any bytes", 29);

TEST_CASE("a kernel is found for exactly its text, by any cache of the folder") {
  const TestFolder folder("kernels");
  const fs::path path = folder.path() / "made" / "here";
  CHECK(DiskCache(path).put("source", kKernel).ok());
  CHECK(DiskCache(path).get("source") == kKernel);
  CHECK_FALSE(DiskCache(path).get("source "));
  CHECK_FALSE(DiskCache(path).get(""));
  CHECK(files_in(path).size() == 1);
  CHECK(DiskCache(path).put("source", "another").ok());
  CHECK(DiskCache(path).get("source") == "another");
  CHECK(DiskCache(path).put("empty", "").ok());
  CHECK(DiskCache(path).get("empty") == "");
}

TEST_CASE("a damaged file counts as missing, and is made anew") {
  const TestFolder folder("kernels");
  const DiskCache cache(folder.path() / "kernels");
  CHECK(cache.put("source", kKernel).ok());
  const fs::path file = files_in(folder.path() / "kernels").front();
  const std::string whole = base::read_text_file(file, 1 << 20).value();
  REQUIRE(whole.size() > kKernel.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    std::ofstream(file, std::ios::binary) << damaged;
    CHECK_FALSE(cache.get("source"));
    std::ofstream(file, std::ios::binary) << whole.substr(0, i);
    CHECK_FALSE(cache.get("source"));
  }
  CHECK(cache.put("source", kKernel).ok());
  CHECK(cache.get("source") == kKernel);
  // The file of another text, under this one's name.
  CHECK(cache.put("other", "other kernel").ok());
  for (const fs::path& each : files_in(folder.path() / "kernels")) {
    if (each != file) fs::copy_file(each, file, fs::copy_options::overwrite_existing);
  }
  CHECK_FALSE(cache.get("source"));
}

TEST_CASE("what others could have written is neither read nor written") {
  const TestFolder folder("kernels");
  const fs::path path = folder.path() / "kernels";
  const DiskCache cache(path);
  CHECK(cache.put("source", kKernel).ok());
  const fs::path file = files_in(path).front();
  SECTION("a folder in which others may write") {
    REQUIRE(chmod(path.c_str(), 0777) == 0);
    CHECK_FALSE(cache.get("source"));
    CHECK(cache.put("more", kKernel).code() == base::Errc::permission_denied);
    CHECK(files_in(path).size() == 1);
  }
  SECTION("a file that others may write") {
    REQUIRE(chmod(file.c_str(), 0666) == 0);
    CHECK_FALSE(cache.get("source"));
    CHECK(cache.put("source", kKernel).ok());
    CHECK(cache.get("source") == kKernel);
  }
  SECTION("a link to a file") {
    const fs::path elsewhere = folder.path() / "elsewhere";
    fs::rename(file, elsewhere);
    fs::create_symlink(elsewhere, file);
    CHECK_FALSE(cache.get("source"));
    CHECK(cache.put("source", "new").ok());
    CHECK(cache.get("source") == "new");
    CHECK(base::read_text_file(elsewhere, 1 << 20).value().ends_with(kKernel));
  }
  SECTION("a link to a folder") {
    const fs::path link = folder.path() / "link";
    fs::create_directory_symlink(path, link);
    CHECK_FALSE(DiskCache(link).get("source"));
    CHECK_FALSE(DiskCache(link.string() + "//").get("source"));
    CHECK_FALSE(DiskCache(link / ".").get("source"));
    CHECK_FALSE(DiskCache(link).put("more", kKernel).ok());
  }
}

TEST_CASE("folders are made for this user alone, and a pipe or a folder is no kernel") {
  const TestFolder folder("kernels");
  const fs::path path = folder.path() / "a" / "b";
  const mode_t before = umask(0);
  CHECK(DiskCache(path).put("source", kKernel).ok());
  umask(before);
  for (const fs::path& each : {path, path.parent_path(), files_in(path).front()}) {
    struct stat found = {};
    REQUIRE(stat(each.c_str(), &found) == 0);
    CHECK((found.st_mode & 077) == 0);
  }
  const fs::path file = files_in(path).front();
  fs::remove(file);
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  CHECK_FALSE(DiskCache(path).get("source"));
  fs::remove(file);
  fs::create_directory(file);
  CHECK_FALSE(DiskCache(path).get("source"));
  CHECK_FALSE(DiskCache(path).put("source", kKernel).ok());
  CHECK(files_in(path).size() == 1);  // nothing unfinished stays
}

TEST_CASE("what was not used for longest makes room, files of others stay") {
  const TestFolder folder("kernels");
  const fs::path path = folder.path() / "kernels";
  const DiskCache cache(path);
  CHECK(cache.put("used", kKernel).ok());
  CHECK(cache.put("unused", kKernel).ok());
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const fs::path& file : files_in(path)) fs::last_write_time(file, long_ago);
  CHECK(cache.get("used"));
  for (std::size_t i = 2; i < DiskCache::kFilesMost; ++i) {
    // As a process that was killed leaves them.
    std::ofstream(path / (std::string(60, '0') + std::to_string(10000 + i).substr(1) +
                          ".kernel.0123456789abcdef"))
        << "unfinished";
  }
  for (int i = 0; i < 3; ++i) std::ofstream(path / ("photo" + std::to_string(i))) << "of others";
  fs::create_directory(path / (std::string(64, 'a') + ".kernel"));
  fs::last_write_time(path / (std::string(64, 'a') + ".kernel"), long_ago);
  CHECK(cache.put("new", kKernel).ok());
  CHECK(files_in(path).size() == DiskCache::kFilesMost + 4);
  CHECK(cache.get("used"));
  CHECK(cache.get("new"));
  CHECK_FALSE(cache.get("unused"));
}

TEST_CASE("no kernel is too large, and threads may put the same at once") {
  const TestFolder folder("kernels");
  const DiskCache cache(folder.path() / "kernels");
  const std::string large(DiskCache::kBytesMost, 'x');
  CHECK(cache.put("large", large).ok());
  CHECK(cache.get("large") == large);
  CHECK(cache.put("large", large + "x").code() == base::Errc::resource_exhausted);
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, &failed] {
      for (int i = 0; i < 200; ++i) failed += !cache.put("same", kKernel).ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(cache.get("same") == kKernel);
  CHECK(files_in(folder.path() / "kernels").size() == 2);
}

TEST_CASE("without a folder, or where none can be, nothing is kept and nothing fails") {
  const TestFolder folder("kernels");
  CHECK(DiskCache("").put("source", kKernel).ok());
  CHECK_FALSE(DiskCache("").get("source"));
  std::ofstream(folder.path() / "file") << "no folder";
  const DiskCache blocked(folder.path() / "file");
  CHECK_FALSE(blocked.put("source", kKernel).ok());
  CHECK_FALSE(blocked.get("source"));
  CHECK_FALSE(kernel_cache().get("source"));
  set_kernel_cache(folder.path() / "process");
  CHECK(kernel_cache().put("source", kKernel).ok());
  CHECK(kernel_cache().get("source") == kKernel);
  set_kernel_cache("");
  CHECK_FALSE(kernel_cache().get("source"));
}

}  // namespace
}  // namespace troupe::ops::jit
