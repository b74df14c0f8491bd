// SPDX-License-Identifier: Apache-2.0
// XidEvents: the errors of GPUs that the driver reports to who listens, by NVIDIA's numbers (XIDs),
// which the kernel's log has, too. What was before, or while nobody listened, is not told. One
// thread at a time, one that may wait: see nvml.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/inventory.h"
#include "gpu/nvml.h"

namespace troupe::gpu {

/// See the top of the file. Holds the session open.
class XidEvents {
 public:
  /// So many are read at a time, at most; the driver keeps the rest for the next time.
  static constexpr int kReadMax = 256;

  /// Of a device, what was reported since the last time, the oldest first; of a slice, what was its
  /// own or the whole device's. Absent: the driver or the device has no events.
  using Xids = std::optional<std::vector<std::uint32_t>>;

  /// Listens from now on. No error of it says anything of a device.
  XidEvents(const Nvml& nvml, const std::vector<DeviceFacts>& devices);
  ~XidEvents();
  XidEvents(const XidEvents&) = delete;
  XidEvents& operator=(const XidEvents&) = delete;

  /// What has come, of each device, in their order. Does not wait for more.
  std::vector<Xids> take();
  /// The library cannot tell any more: another object of this class may hear again.
  bool broken() const { return broken_; }

 private:
  struct Source;
  struct EventSet;
  bool listens_to(struct OpaqueNvmlDevice* device) const;

  std::vector<Source> sources_;
  std::unique_ptr<EventSet> set_;  // null: nobody is listened to
  bool broken_ = false;
};

}  // namespace troupe::gpu
