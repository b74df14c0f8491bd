// SPDX-License-Identifier: Apache-2.0
// An agent's GPU slots.
#include "apps/agent_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "base/units.h"

namespace troupe::apps {
namespace {

schemas::GpuOffer offer_of(std::uint32_t index, const gpu::DeviceFacts& facts) {
  schemas::GpuOffer offer;
  offer.index = index;
  offer.name = base::shortened(base::printable(facts.name), schemas::kGpuTextBytesMax);
  offer.uuid = base::shortened(base::printable(facts.uuid), schemas::kGpuTextBytesMax);
  offer.memory_bytes = facts.memory_bytes;
  return offer;
}

/// Those that can be used.
std::vector<schemas::GpuOffer> all_of(const gpu::Inventory& inventory) {
  const std::size_t count = std::min(inventory.devices.size(), schemas::kGpusMax);
  std::vector<schemas::GpuOffer> offers;
  for (std::uint32_t index = 0; index < count; ++index) {
    const gpu::DeviceFacts& facts = inventory.devices[index];
    if (facts.problem.empty()) offers.push_back(offer_of(index, facts));
  }
  return offers;
}

}  // namespace

base::Result<std::vector<schemas::GpuOffer>> gpu_slots_of(const cluster::DeviceList& list,
                                                          const gpu::Inventory& inventory) {
  std::vector<schemas::GpuOffer> offers;
  if (!list.on_gpus()) return offers;
  const std::vector<schemas::GpuOffer> all = all_of(inventory);
  if (list.all_gpus) offers = all;
  for (const std::uint32_t index : list.gpus) {
    if (index >= inventory.devices.size()) {
      if (all.empty()) break;
      return base::error(base::Errc::resource_exhausted, "this machine has no GPU {}; it has {}",
                         index, gpus_text(all));
    }
    const gpu::DeviceFacts& facts = inventory.devices[index];
    if (!facts.problem.empty()) {
      return base::error(base::Errc::resource_exhausted, "GPU {} of this machine ({}): {}", index,
                         facts.name, facts.problem);
    }
    offers.push_back(offer_of(index, facts));
  }
  if (!all.empty()) return offers;
  return base::error(base::Errc::resource_exhausted, "this machine has no GPU to compute on: {}",
                     inventory.problem);
}

std::size_t distinct_gpus(const std::vector<schemas::GpuOffer>& gpus) {
  std::set<std::uint32_t> indices;
  for (const schemas::GpuOffer& gpu : gpus) indices.insert(gpu.index);
  return indices.size();
}

std::string gpus_text(const std::vector<schemas::GpuOffer>& gpus) {
  std::string text;
  std::set<std::uint32_t> told;
  for (const schemas::GpuOffer& gpu : gpus) {
    if (!told.insert(gpu.index).second) continue;
    text += fmt::format("{}GPU {}: {}, {}", text.empty() ? "" : "; ", gpu.index, gpu.name,
                        base::format_bytes(gpu.memory_bytes));
  }
  return text;
}

}  // namespace troupe::apps
