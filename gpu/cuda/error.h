// SPDX-License-Identifier: Apache-2.0
// Errors of the CUDA runtime as Status, and the calling thread's device.
// Private to this folder.
#pragma once

#include <cuda_runtime_api.h>

#include "base/device.h"
#include "base/status.h"

namespace troupe::gpu {

/// Success, or "cuda:1, cudaMalloc: out of memory" with the code that fits: resource_exhausted for
/// memory, unavailable where the device itself has failed, else internal.
inline base::Status status_of(cudaError_t error, base::Device device, const char* call) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());  // what does not stick is told once
  base::Errc code = base::Errc::internal;
  if (error == cudaErrorMemoryAllocation) code = base::Errc::resource_exhausted;
  if (error == cudaErrorECCUncorrectable || error == cudaErrorNvlinkUncorrectable ||
      error == cudaErrorDevicesUnavailable) {
    code = base::Errc::unavailable;
  }
  return base::error(code, "{}, {}: {}", device.to_string(), call, cudaGetErrorString(error));
}

/// The device that the calling thread issues on (Stream::attach); -1: none.
inline thread_local int attached_device = -1;

/// Makes `device` the calling thread's, for a scope. A thread that is attached to none keeps it:
/// going back to the runtime's default would take memory of device 0 for nothing.
class DeviceScope {
 public:
  explicit DeviceScope(base::Device device) : device_(device) {
    static_cast<void>(cudaSetDevice(device.index));
  }
  ~DeviceScope() {
    if (attached_device >= 0 && attached_device != device_.index) {
      static_cast<void>(cudaSetDevice(attached_device));
    }
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const base::Device device_;
};

}  // namespace troupe::gpu
