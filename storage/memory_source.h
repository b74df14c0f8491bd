// SPDX-License-Identifier: Apache-2.0
// MemorySource: where a pool gets its blocks from: the host, the host pinned for devices, a GPU.
// Any thread.
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
  /// `bytes` aligned to 64. `huge` asks for huge pages. resource_exhausted: the system has none, in
  /// its own words; other errors are a device's that has failed.
  virtual base::Result<std::byte*> take(std::size_t bytes, bool huge) = 0;
  /// Gives back what take() returned for the same arguments.
  virtual void give(std::byte* data, std::size_t bytes, bool huge) = 0;
  /// True when what take() gives is zero already.
  virtual bool zeroed(bool huge) const = 0;
  /// Sets every byte of memory that nobody else uses; done when it returns.
  virtual base::Status fill(std::byte* data, std::byte value, std::size_t bytes) = 0;
  /// What the device has in all, for a pool without a limit of its own.
  virtual std::uint64_t total_bytes() const = 0;
};

/// The source of a device's memory; the error of a device that this process cannot use.
base::Result<std::unique_ptr<MemorySource>> make_memory_source(base::Device device);
/// Memory of the host that GPUs copy from and to by themselves; where there is none, ordinary
/// memory, from which they would not.
std::unique_ptr<MemorySource> make_pinned_source();

}  // namespace troupe::storage
