// SPDX-License-Identifier: Apache-2.0
// Which device the calling thread's calls of CUDA libraries mean.
#pragma once

#include "base/device.h"
#include "base/status.h"

namespace troupe::gpu {

/// Makes `device`, which check_device() accepts, the calling thread's, for a scope. A thread that
/// no stream is attached to keeps it: going back to the runtime's default would take memory of
/// device 0 for nothing.
class DeviceScope {
 public:
  explicit DeviceScope(base::Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  /// An error: calls still mean the device of before. Whoever takes something looks at it.
  const base::Status& status() const { return status_; }

 private:
  const base::Device device_;
  const base::Status status_;
};

}  // namespace troupe::gpu
