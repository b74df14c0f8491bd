// SPDX-License-Identifier: Apache-2.0
// The calling thread's device by the CUDA runtime.
#include "gpu/device_scope.h"

#include "gpu/cuda/error.h"

namespace troupe::gpu {

DeviceScope::DeviceScope(base::Device device)
    : device_(device), status_(status_of(cudaSetDevice(device.index), device, "cudaSetDevice")) {}
DeviceScope::~DeviceScope() {
  if (attached_device >= 0 && attached_device != device_.index) {
    static_cast<void>(cudaSetDevice(attached_device));
  }
}

}  // namespace troupe::gpu
