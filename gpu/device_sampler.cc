// SPDX-License-Identifier: Apache-2.0
// Sessions with NVML, as long or short as they should be.
#include "gpu/device_sampler.h"

#include <utility>

namespace troupe::gpu {

DeviceSampler::DeviceSampler(std::vector<WatchedDevice> devices, std::vector<std::string> files)
    : devices_(std::move(devices)), files_(std::move(files)) {}

std::vector<DeviceSample> DeviceSampler::look() {
  if (!nvml_) {
    auto opened = Nvml::open(files_);
    if (!opened.ok()) {
      const DeviceSample silent{.answer = DeviceAnswer::none, .problem = opened.status().text()};
      return std::vector<DeviceSample>(devices_.size(), silent);
    }
    nvml_ = std::move(opened).value();
  }
  std::vector<DeviceSample> samples;
  bool well = true;
  for (const WatchedDevice& device : devices_) {
    const DeviceSample sample = nvml_->sample(device.facts.pci_bus_id);
    well = well && sample.answer == DeviceAnswer::whole && check_health("", nullptr, sample).ok();
    samples.push_back(sample);
  }
  if (!well) nvml_.reset();
  return samples;
}

}  // namespace troupe::gpu
