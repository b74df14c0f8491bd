// SPDX-License-Identifier: Apache-2.0
// By what a GPU is known beyond this process, in the form of NVIDIA's own tools: CUDA and NVML
// number the same devices differently. Functions of their arguments; any thread.
#pragma once

#include <span>
#include <string>

namespace troupe::gpu {

/// "GPU-" and 16 bytes in hexadecimal, grouped 4-2-2-2-6, as `nvidia-smi -L` shows them.
std::string device_uuid(std::span<const char, 16> bytes);

/// "00000000:1B:00.0": domain, bus and device in hexadecimal; the function is always the first.
std::string pci_bus_id(unsigned domain, unsigned bus, unsigned device);

}  // namespace troupe::gpu
