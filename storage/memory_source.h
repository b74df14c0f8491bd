// SPDX-License-Identifier: Apache-2.0
// MemorySource: where a pool gets its blocks from. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/device.h"
#include "base/status.h"

namespace troupe::storage {

/// Raw memory of one device.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// `bytes` aligned to 64, zeroed when `huge`; null when the system has none. `huge` asks for huge
  /// pages.
  virtual std::byte* take(std::size_t bytes, bool huge) = 0;
  /// Gives back what take() returned for the same arguments.
  virtual void give(std::byte* data, std::size_t bytes, bool huge) = 0;
  /// What the device has in all, for a pool without a limit of its own.
  virtual std::uint64_t total_bytes() const = 0;
};

/// The source of a device's memory; unimplemented names a device that this build cannot use.
base::Result<std::unique_ptr<MemorySource>> make_memory_source(base::Device device);

}  // namespace troupe::storage
