// SPDX-License-Identifier: Apache-2.0
// A machine's load and memory from files as the kernel writes them, and from the real ones.
#include "monitoring/machine.h"

#include <ctime>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::monitoring {
namespace {

using Catch::Contains;

TEST_CASE("load and memory are what the kernel's files say", "[machine]") {
  const TestFolder folder("machine");
  const std::string load = (folder.path() / "loadavg").string();
  const std::string memory = (folder.path() / "meminfo").string();
  std::ofstream(load) << "1.25 0.50 0.10 3/811 4242\n";
  std::ofstream(memory) << "MemTotal:        1024 kB\nMemFree:          12 kB\n"
                        << "MemAvailable:     512 kB\nHugePages_Total:       0\n";
  Metrics metrics;
  const Collection shown = collect_machine(metrics, {load, memory});
  const std::string page = metrics.exposition();
  CHECK_THAT(page, Contains("troupe_machine_load_average 1.25\n"));
  CHECK_THAT(page, Contains("troupe_machine_memory_bytes 1048576\n"));
  CHECK_THAT(page, Contains("troupe_machine_memory_available_bytes 524288\n"));
}

TEST_CASE("what cannot be read has no series", "[machine]") {
  Metrics metrics;
  const Collection shown = collect_machine(metrics, {"/nowhere/load", "/nowhere/memory"});
  const std::string page = metrics.exposition();
  CHECK_THAT(page, !Contains("troupe_machine_load_average") && !Contains("troupe_machine_memory"));
}

TEST_CASE("this machine has memory, processors and a clock", "[machine]") {
  Metrics metrics;
  const Collection shown = collect_machine(metrics);
  const std::string page = metrics.exposition();
  for (const char* name :
       {"load_average", "processors", "memory_bytes", "memory_available_bytes"}) {
    CHECK_THAT(page, Contains(std::string("\ntroupe_machine_") + name + " "));
  }
  const std::string clock = "\ntroupe_machine_time_seconds ";
  const std::size_t at = page.find(clock);
  REQUIRE(at != std::string::npos);
  const double seconds = std::stod(page.substr(at + clock.size()));
  CHECK(seconds == Approx(static_cast<double>(std::time(nullptr))).margin(60.0));
}

}  // namespace
}  // namespace troupe::monitoring
