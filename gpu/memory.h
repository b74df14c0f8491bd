// SPDX-License-Identifier: Apache-2.0
// Raw memory of GPUs, and pinned memory of the host, which GPUs copy from and to by themselves.
// For pools, not for operators: each call may wait for the device. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/device.h"
#include "base/status.h"

namespace troupe::gpu {

/// `bytes` > 0 bytes of a device, aligned to 256; resource_exhausted when it has none left, else
/// what the device answers.
base::Result<std::byte*> allocate(base::Device device, std::size_t bytes);
/// Gives back what allocate() gave. The caller knows that no work on the device uses it.
void release(base::Device device, std::byte* data);
/// Sets bytes that no work uses; done when it returns.
base::Status fill(base::Device device, std::byte* data, std::byte value, std::size_t bytes);
/// What the device has in all; 0 where it cannot be used.
std::uint64_t total_bytes(base::Device device);
/// What the device has left now, for everybody; 0 where it cannot be used.
std::uint64_t free_bytes(base::Device device);

/// Lets each of `devices` read and write the memory of the others directly, where the machine can
/// do that and a copy of a megabyte arrives whole; copies between the pairs that it returns pass
/// through the host. For the process, for good.
std::vector<std::pair<base::Device, base::Device>> allow_peer_access(
    const std::vector<base::Device>& devices);

/// `bytes` > 0 bytes of pinned host memory, aligned to 64; errors as allocate().
base::Result<std::byte*> allocate_pinned(std::size_t bytes);
/// Gives back what allocate_pinned() gave.
void release_pinned(std::byte* data);

}  // namespace troupe::gpu
