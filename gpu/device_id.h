// SPDX-License-Identifier: Apache-2.0
// By what a GPU is known beyond this process, in the form of NVIDIA's own tools: CUDA and NVML
// number the same devices differently. Functions of their arguments; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::gpu {

/// "GPU-" and 16 bytes in hexadecimal, grouped 4-2-2-2-6, as `nvidia-smi -L` shows them.
std::string device_uuid(std::span<const char, 16> bytes);

/// Whether a name is that of a slice of a GPU (multi-instance GPU).
inline bool names_slice(std::string_view name) {
  return name.starts_with("MIG-");
}

/// What CUDA_VISIBLE_DEVICES, set to `visible`, must be for a process that shall see device `index`
/// of this one alone: `uuid` or, where slices of devices are listed, that slice ("MIG-...").
std::string visible_name(const std::optional<std::string>& visible, std::size_t index,
                         std::string uuid);

/// "00000000:1B:00.0": domain, bus and device in hexadecimal; the function is always the first.
std::string pci_bus_id(unsigned domain, unsigned bus, unsigned device);

}  // namespace troupe::gpu
