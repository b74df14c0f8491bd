// SPDX-License-Identifier: Apache-2.0
// DeviceSampler: looks at some GPUs again and again, and lets go of the driver where that lets a
// device come back. One thread at a time, one that may wait: see nvml.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device_health.h"
#include "gpu/nvml.h"

namespace troupe::gpu {

/// A device that is looked at.
struct WatchedDevice {
  std::int32_t index = 0;  ///< Device::index
  DeviceFacts facts;
};

/// See the top of the file.
class DeviceSampler {
 public:
  /// `files`: see Nvml::open. Opens nothing yet.
  DeviceSampler(std::vector<WatchedDevice> devices, std::vector<std::string> files);

  /// One sample of each device, in their order. Between two looks the session stays open only while
  /// all is well: a device is reset while nobody holds it, and is seen again by those who come
  /// then.
  std::vector<DeviceSample> look();

 private:
  const std::vector<WatchedDevice> devices_;
  const std::vector<std::string> files_;
  std::optional<Nvml> nvml_;
};

}  // namespace troupe::gpu
