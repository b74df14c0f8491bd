// SPDX-License-Identifier: Apache-2.0
// The choice between the two ways of gathering.
#include "actors/device_gather.h"

#include "actors/eventual_gather.h"
#include "actors/sequential_gather.h"

namespace troupe::actors {

std::unique_ptr<DeviceGather> make_gather(const store::SliceRules& rules, std::uint32_t machine) {
  if (rules.device_sequential()) return std::make_unique<SequentialGather>(rules, machine);
  return std::make_unique<EventualGather>(rules, machine);
}

}  // namespace troupe::actors
