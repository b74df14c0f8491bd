// SPDX-License-Identifier: Apache-2.0
// What an error of the CUDA runtime means to those who ask for work. For sources that are compiled
// with CUDA. Any thread.
#pragma once

#include <cuda_runtime_api.h>

#include "base/device.h"
#include "base/status.h"

namespace troupe::gpu {

/// resource_exhausted for memory (a kernel's code takes some at its first launch) and where another
/// program has the device for itself, failed_precondition where the device has failed, else
/// internal.
inline base::Errc errc_of(cudaError_t error) {
  switch (static_cast<int>(error)) {
    case cudaErrorMemoryAllocation:
    case cudaErrorDevicesUnavailable:
      return base::Errc::resource_exhausted;
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case 226:  // cudaErrorContained, which older toolkits do not name
      return base::Errc::failed_precondition;
    default:
      return base::Errc::internal;
  }
}

/// Success, or why a kernel's launch on `device` failed.
inline base::Status launch_status(cudaError_t error, base::Device device) {
  if (error == cudaSuccess) return {};
  return base::error(errc_of(error), "launch on {}: {}, of this or of work before it",
                     device.to_string(), cudaGetErrorString(error));
}

}  // namespace troupe::gpu
