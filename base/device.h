// SPDX-License-Identifier: Apache-2.0
// Names of the devices that hold buffers and run operations. Plain values; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace troupe::base {

/// Kinds of devices. `delayed` is the engine's test device: host memory behind a stream.
enum class DeviceKind : std::uint8_t { cpu, cuda, delayed };

/// One device of this process.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int32_t index = 0;

  friend auto operator<=>(const Device&, const Device&) = default;
  /// "cpu:0", "cuda:1".
  std::string to_string() const;
  /// True when the host can read and write the device's memory directly.
  bool host_memory() const { return kind != DeviceKind::cuda; }
};

}  // namespace troupe::base
