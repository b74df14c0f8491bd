// SPDX-License-Identifier: Apache-2.0
// Sessions with NVML, as long or short as they should be.
#include "gpu/device_sampler.h"

#include <utility>

#include "gpu/device_id.h"

namespace troupe::gpu {

base::Result<DeviceSampler> DeviceSampler::open(std::vector<WatchedDevice> devices,
                                                const std::vector<std::string>& files) {
  DeviceSampler sampler;
  TROUPE_TRY_ASSIGN(sampler.nvml_, Nvml::open(files));
  sampler.files_ = files;
  for (WatchedDevice& device : devices) sampler.devices_.push_back({std::move(device)});
  return sampler;
}

DeviceSample DeviceSampler::look_at(const Nvml& nvml, Known& known) {
  DeviceSample sample = nvml.sample(known.device.facts);
  if (sample.answer == DeviceAnswer::whole) known.answered = true;
  if (sample.answer == DeviceAnswer::hidden && known.answered) {
    const bool slice = names_slice(known.device.facts.uuid);
    sample.answer = slice ? DeviceAnswer::gone : DeviceAnswer::lost;
  }
  return sample;
}

std::vector<DeviceSample> DeviceSampler::look() {
  if (!nvml_) {
    auto opened = Nvml::open(files_);
    if (!opened.ok()) {
      const DeviceSample silent{.answer = DeviceAnswer::none, .problem = opened.status().text()};
      return std::vector<DeviceSample>(devices_.size(), silent);
    }
    nvml_ = std::move(opened).value();
  }
  if (!events_) {
    std::vector<DeviceFacts> facts;
    for (const Known& known : devices_) facts.push_back(known.device.facts);
    events_ = std::make_unique<XidEvents>(*nvml_, facts);
  }
  std::vector<DeviceSample> samples;
  bool well = true;
  for (Known& known : devices_) {
    const DeviceSample sample = look_at(*nvml_, known);
    well = well && sample.answer != DeviceAnswer::none && check_health("", nullptr, sample).ok();
    samples.push_back(sample);
  }
  // Behind the samples: what made a device fall ill was reported by now.
  std::vector<XidEvents::Xids> xids = events_->take();
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].xids = std::move(xids[i]);
  if (!well || events_->broken()) events_.reset();
  if (!well) nvml_.reset();
  return samples;
}

}  // namespace troupe::gpu
