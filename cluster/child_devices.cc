// SPDX-License-Identifier: Apache-2.0
// Indices of the agent to names, and to indices of the child.
#include "cluster/child_devices.h"

#include <algorithm>

namespace troupe::cluster {
namespace {

std::string name_of(const std::vector<schemas::GpuOffer>& offers, std::uint32_t gpu) {
  const auto offer = std::find_if(offers.begin(), offers.end(),
                                  [gpu](const auto& each) { return each.index == gpu; });
  const bool named = offer != offers.end() && !offer->uuid.empty();
  return named ? offer->uuid : std::to_string(gpu);
}

}  // namespace

ChildDevices child_devices(const std::vector<schemas::GpuOffer>& offers,
                           const std::vector<std::uint32_t>& gpus) {
  ChildDevices made;
  made.environment = "CUDA_VISIBLE_DEVICES=";
  std::vector<std::uint32_t> seen;  // by the child's index
  for (const std::uint32_t gpu : gpus) {
    const auto known = std::find(seen.begin(), seen.end(), gpu);
    made.gpus.push_back(static_cast<std::uint32_t>(known - seen.begin()));
    if (known != seen.end()) continue;
    made.environment += (seen.empty() ? "" : ",") + name_of(offers, gpu);
    seen.push_back(gpu);
  }
  return made;
}

}  // namespace troupe::cluster
