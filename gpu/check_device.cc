// SPDX-License-Identifier: Apache-2.0
// The refusal of devices that are not there or cannot be used, in the same words for every build.
#include "gpu/inventory.h"

namespace troupe::gpu {

std::vector<std::string> problems_of(const Inventory& inventory) {
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < inventory.devices.size(); ++i) {
    const DeviceFacts& facts = inventory.devices[i];
    if (facts.problem.empty()) continue;
    problems.push_back(fmt::format("cuda:{} ({}): {}", i, facts.name, facts.problem));
  }
  return problems;
}

base::Status check_device(base::Device device, const Inventory& found) {
  TROUPE_CHECK(device.kind == base::DeviceKind::cuda, "a question about GPUs only");
  const auto count = static_cast<std::int32_t>(found.devices.size());
  if (device.index >= 0 && device.index < count) {
    const DeviceFacts& facts = found.devices[static_cast<std::size_t>(device.index)];
    if (facts.problem.empty()) return {};
    return base::error(base::Errc::failed_precondition, "no device {}, {}: {}", device.to_string(),
                       facts.name, facts.problem);
  }
  if (count == 0) {
    return base::error(base::Errc::failed_precondition, "no device {}: {}", device.to_string(),
                       found.problem);
  }
  return base::error(base::Errc::failed_precondition, "no device {}: this machine shows {} of them",
                     device.to_string(), count);
}

}  // namespace troupe::gpu
