// SPDX-License-Identifier: Apache-2.0
// A job's GPUs among those of a machine.
#include "train/job_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "base/units.h"

namespace troupe::train {
namespace {

const std::string& model_of(const gpu::Inventory& inventory, base::Device device) {
  return inventory.devices[static_cast<std::size_t>(device.index)].name;
}

/// Those of one model: the one that has the most of them, as far as `wanted`; the first of these.
std::vector<base::Device> of_one_model(const std::vector<base::Device>& fit,
                                       const gpu::Inventory& inventory, std::size_t wanted) {
  std::vector<base::Device> best;
  for (const base::Device first : fit) {
    std::vector<base::Device> alike;
    for (const base::Device each : fit) {
      if (model_of(inventory, each) == model_of(inventory, first)) alike.push_back(each);
    }
    alike.resize(std::min(alike.size(), wanted));
    if (alike.size() > best.size()) best = std::move(alike);
  }
  return best;
}

}  // namespace

base::Result<std::vector<base::Device>> choose_gpus(const schemas::JobSpec& job,
                                                    const gpu::Inventory& inventory) {
  const schemas::WorkersSpec& workers = job.workers;
  std::vector<base::Device> fit;
  if (workers.device == schemas::WorkerDevice::cpu) return fit;
  if (!inventory.problem.empty()) {
    return base::error(base::Errc::resource_exhausted,
                       "workers.devices asks for GPUs; this machine has none to compute on: {}",
                       inventory.problem);
  }
  std::vector<std::string> others = gpu::problems_of(inventory);
  for (std::size_t i = 0; i < inventory.devices.size(); ++i) {
    const gpu::DeviceFacts& facts = inventory.devices[i];
    const base::Device device{base::DeviceKind::cuda, static_cast<std::int32_t>(i)};
    if (!facts.problem.empty()) continue;
    if (facts.memory_bytes >= workers.memory) {
      fit.push_back(device);
    } else {
      others.push_back(fmt::format("{} ({}) has {}", device.to_string(), facts.name,
                                   base::format_bytes(facts.memory_bytes)));
    }
  }
  if (fit.empty()) {
    return base::error(base::Errc::resource_exhausted,
                       "workers.memory asks for GPUs of {} or more: {}",
                       base::format_bytes(workers.memory), fmt::join(others, ", "));
  }
  if (job.reproducible) return of_one_model(fit, inventory, job.ranks());
  fit.resize(std::min<std::size_t>(fit.size(), job.ranks()));
  return fit;
}

}  // namespace troupe::train
