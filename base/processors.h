// SPDX-License-Identifier: Apache-2.0
// How many processors work can be done on here. Any thread.
#pragma once

#include <cstddef>

namespace troupe::base {

/// Those that the calling thread, and each that it starts, may use, as taskset, a batch system or a
/// container has it; never 0. std::thread::hardware_concurrency() counts those of the machine. A
/// share of processor time (cpu.max of a control group) is not seen.
std::size_t usable_processors();

}  // namespace troupe::base
