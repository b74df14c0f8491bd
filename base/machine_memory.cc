// SPDX-License-Identifier: Apache-2.0
// Two lines of /proc/meminfo.
#include "base/machine_memory.h"

#include <fstream>

namespace troupe::base {

MachineMemory read_machine_memory(const std::string& path) {
  constexpr std::uint64_t kUnit = 1024;
  MachineMemory memory;
  std::ifstream file(path);
  std::string name;
  std::uint64_t number = 0;
  for (std::string unit; file >> name >> number && std::getline(file, unit);) {
    if (name == "MemTotal:") memory.total = number * kUnit;
    if (name == "MemAvailable:") memory.available = number * kUnit;
  }
  return memory;
}

}  // namespace troupe::base
