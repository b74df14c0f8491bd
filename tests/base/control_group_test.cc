// SPDX-License-Identifier: Apache-2.0
// Control groups as the kernel shows them, version 1 and 2, in a folder.
#include "base/control_group.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::base {
namespace {

TEST_CASE("what the kernel has killed for want of memory is counted", "[control_group]") {
  const TestFolder folder("control_group");
  const auto put = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder.path() / path).parent_path());
    std::ofstream(folder.path() / path) << text;
  };
  const std::string root = folder.path().string();
  const auto kills = [](const std::string& groups, const std::string& where) {
    return ControlGroup(groups, where).out_of_memory_kills();
  };
  CHECK(kills("0::/a/b\n", root) == 0);
  SECTION("version 2") {
    put("a/b/memory.events", "low 0\nhigh 7\nmax 9\noom 2\noom_kill 3\noom_group_kill 0\n");
    CHECK(kills("0::/a/b\n", root) == 3);
  }
  SECTION("version 2, seen from inside a container") {
    put("memory.events", "oom 1\noom_kill 1\n");
    CHECK(kills("0::/a/b\n", root) == 1);
  }
  SECTION("version 1, which some systems have beside an empty version 2") {
    put("memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
    CHECK(kills("5:cpu:/\n4:memory:/a\n0::/\n", root) == 4);
  }
}

/// "LIMIT/USED" in bytes; "none".
std::string memory_text(const std::string& groups, const std::string& root) {
  const auto memory = ControlGroup(groups, root).memory();
  if (!memory) return "none";
  return std::to_string(memory->limit) + "/" + std::to_string(memory->used);
}

TEST_CASE("the limit is that of the group, or around it, that is nearest to its own",
          "[control_group]") {
  const TestFolder folder("control_group");
  const std::string root = folder.path().string();
  const auto put = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder.path() / path).parent_path());
    std::ofstream(folder.path() / path) << text;
  };
  CHECK(memory_text("", root) == "none");
  CHECK(memory_text("0::/\n", root) == "none");
  CHECK_FALSE(ControlGroup("0::/\n", root).least_limit());
  SECTION("version 2") {
    put("a/b/memory.max", "max\n");
    put("a/b/memory.current", "50\n");
    CHECK(memory_text("0::/a/b\n", root) == "none");
    put("a/memory.max", "1000\n");
    put("a/memory.current", "700\n");
    put("a/memory.stat", "anon 300\ninactive_file 200\nactive_file 100\n");
    CHECK(memory_text("0::/a/b\n", root) == "1000/500");
    put("a/b/memory.max", "60\n");
    CHECK(memory_text("0::/a/b\n", root) == "60/50");
    CHECK(memory_text("0::/a\n", root) == "1000/500");
    put("a/memory.current", "1190\n");  // nearer to its limit, which is larger
    CHECK(memory_text("0::/a/b\n", root) == "1000/990");
    CHECK(ControlGroup("0::/a/b\n", root).least_limit() == 60);
    CHECK(ControlGroup("0::/a\n", root).least_limit() == 1000);
  }
  SECTION("version 2, seen from inside a container") {
    put("memory.max", "1000\n");
    put("memory.current", "100\n");
    put("memory.stat", "inactive_file 200\n");
    CHECK(memory_text("0::/elsewhere/deep\n", root) == "1000/0");
  }
  SECTION("version 1") {
    put("memory/a/memory.limit_in_bytes", "800\n");
    put("memory/a/memory.usage_in_bytes", "400\n");
    put("memory/a/memory.stat", "inactive_file 300\ntotal_inactive_file 100\n");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/memory.usage_in_bytes", "5000\n");
    CHECK(memory_text("5:cpu:/\n4:memory:/a\n0::/\n", root) == "800/300");
  }
}

}  // namespace
}  // namespace troupe::base
