// SPDX-License-Identifier: Apache-2.0
// What a cache of kernels finds again, and what it does not believe.
#include "ops/jit/disk_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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
  DiskCache(path).put("source", kKernel);
  CHECK(DiskCache(path).get("source") == kKernel);
  CHECK_FALSE(DiskCache(path).get("source "));
  CHECK_FALSE(DiskCache(path).get(""));
  CHECK(files_in(path).size() == 1);
  DiskCache(path).put("source", "another");
  CHECK(DiskCache(path).get("source") == "another");
  DiskCache(path).put("empty", "");
  CHECK(DiskCache(path).get("empty") == "");
}

TEST_CASE("a damaged file counts as missing, and is made anew") {
  const TestFolder folder("kernels");
  const DiskCache cache(folder.path() / "kernels");
  cache.put("source", kKernel);
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
  cache.put("source", kKernel);
  CHECK(cache.get("source") == kKernel);
  // The file of another text, under this one's name.
  cache.put("other", "other kernel");
  for (const fs::path& each : files_in(folder.path() / "kernels")) {
    if (each != file) fs::copy_file(each, file, fs::copy_options::overwrite_existing);
  }
  CHECK_FALSE(cache.get("source"));
}

TEST_CASE("what others could have written is neither read nor written") {
  const TestFolder folder("kernels");
  const fs::path path = folder.path() / "kernels";
  const DiskCache cache(path);
  cache.put("source", kKernel);
  const fs::path file = files_in(path).front();
  SECTION("a folder in which others may write") {
    REQUIRE(chmod(path.c_str(), 0777) == 0);
    CHECK_FALSE(cache.get("source"));
    cache.put("more", kKernel);
    CHECK(files_in(path).size() == 1);
  }
  SECTION("a file that others may write") {
    REQUIRE(chmod(file.c_str(), 0666) == 0);
    CHECK_FALSE(cache.get("source"));
    cache.put("source", kKernel);
    CHECK(cache.get("source") == kKernel);
  }
  SECTION("a link to a file") {
    const fs::path elsewhere = folder.path() / "elsewhere";
    fs::rename(file, elsewhere);
    fs::create_symlink(elsewhere, file);
    CHECK_FALSE(cache.get("source"));
    cache.put("source", "new");
    CHECK(cache.get("source") == "new");
    CHECK(base::read_text_file(elsewhere, 1 << 20).value().ends_with(kKernel));
  }
  SECTION("a link to a folder") {
    const fs::path link = folder.path() / "link";
    fs::create_directory_symlink(path, link);
    CHECK_FALSE(DiskCache(link).get("source"));
  }
}

TEST_CASE("without a folder, or where none can be, nothing is kept and nothing fails") {
  const TestFolder folder("kernels");
  DiskCache("").put("source", kKernel);
  CHECK_FALSE(DiskCache("").get("source"));
  std::ofstream(folder.path() / "file") << "no folder";
  const DiskCache blocked(folder.path() / "file");
  blocked.put("source", kKernel);
  CHECK_FALSE(blocked.get("source"));
  CHECK_FALSE(kernel_cache().get("source"));
  set_kernel_cache(folder.path() / "process");
  kernel_cache().put("source", kKernel);
  CHECK(kernel_cache().get("source") == kKernel);
  set_kernel_cache("");
  CHECK_FALSE(kernel_cache().get("source"));
}

}  // namespace
}  // namespace troupe::ops::jit
