// SPDX-License-Identifier: Apache-2.0
// DeviceSampler: looks at some GPUs again and again, and lets go of the driver where that lets a
// device come back. One thread at a time, one that may wait: see nvml.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "gpu/device_health.h"
#include "gpu/nvml.h"
#include "gpu/xid_events.h"

namespace troupe::gpu {

/// A device that is looked at.
struct WatchedDevice {
  std::int32_t index = 0;  ///< Device::index
  DeviceFacts facts;
};

/// See the top of the file.
class DeviceSampler {
 public:
  /// `files` and errors: see Nvml::open. Where NVML is not there now nothing is known of devices,
  /// which says nothing against them; where it goes later they do not answer.
  static base::Result<DeviceSampler> open(std::vector<WatchedDevice> devices,
                                          const std::vector<std::string>& files = {
                                              "libnvidia-ml.so.1"});

  /// One sample of each device, in their order. Between two looks the session stays open only
  /// while all is well: a device is reset while nobody holds it, and a new session sees it again.
  /// A device that has answered and is not shown any more is lost. XID errors are heard of while a
  /// session is open: those of the moment at which a device falls ill, but few until it is well.
  std::vector<DeviceSample> look();

 private:
  /// A device, and whether it has answered yet.
  struct Known {
    WatchedDevice device;
    bool answered = false;
  };
  static DeviceSample look_at(const Nvml& nvml, Known& known);

  std::vector<Known> devices_;
  std::vector<std::string> files_;
  std::optional<Nvml> nvml_;
  std::unique_ptr<XidEvents> events_;  // of nvml_, which it holds open
};

}  // namespace troupe::gpu
