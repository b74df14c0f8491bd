// SPDX-License-Identifier: Apache-2.0
// What an agent tells of its machine: load, memory and clock. Once a machine, so not in every
// process.
#pragma once

#include <string>

#include "monitoring/metrics.h"

namespace troupe::monitoring {

/// The kernel's text files: "/proc/loadavg", "/proc/meminfo".
struct MachineFiles {
  std::string load = "/proc/loadavg";
  std::string memory = "/proc/meminfo";
};

/// Shows troupe_machine_* while the result lives. What the files do not give is left out.
[[nodiscard]] Collection collect_machine(Metrics& metrics, MachineFiles files = {});

}  // namespace troupe::monitoring
