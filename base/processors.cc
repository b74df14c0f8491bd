// SPDX-License-Identifier: Apache-2.0
// From the set of the calling thread.
#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace troupe::base {

std::size_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // It fails where the machine has more of them than a set has room for.
  const bool known = sched_getaffinity(0, sizeof(set), &set) == 0;
  const auto count = known ? static_cast<std::size_t>(CPU_COUNT(&set))
                           : std::size_t{std::thread::hardware_concurrency()};
  return std::max<std::size_t>(count, 1);
}

}  // namespace troupe::base
