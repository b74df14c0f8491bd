// SPDX-License-Identifier: Apache-2.0
// What the kernel's file says, and what it does not say.
#include "base/machine_memory.h"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("total and available memory are read, and what is missing is 0", "[machine_memory]") {
  const auto path = std::filesystem::temp_directory_path() / "troupe-machine-memory-test";
  std::ofstream(path) << "MemTotal:        1024 kB\nMemFree:          12 kB\nOther:       0\n"
                      << "MemAvailable:     512 kB\n";
  const MachineMemory memory = read_machine_memory(path.string());
  CHECK(memory.total == 1024 * 1024);
  CHECK(memory.available == 512 * 1024);
  std::ofstream(path) << "MemTotal: many kB\n";
  CHECK(read_machine_memory(path.string()).total == 0);
  std::filesystem::remove(path);
  CHECK(read_machine_memory(path.string()).available == 0);
  CHECK(read_machine_memory().total > 0);
}

}  // namespace
}  // namespace troupe::base
