// SPDX-License-Identifier: Apache-2.0
// The machine's memory, as its kernel tells it. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::base {

/// Bytes; 0: the file does not say.
struct MachineMemory {
  std::uint64_t total = 0;
  std::uint64_t available = 0;  ///< that programs can have without pushing others out: an estimate
};

/// Reads the kernel's text file, in which lines are "NAME: NUMBER kB".
MachineMemory read_machine_memory(const std::string& path = "/proc/meminfo");

}  // namespace troupe::base
