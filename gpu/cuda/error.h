// SPDX-License-Identifier: Apache-2.0
// Errors of the CUDA runtime as Status, and the device that a thread's stream is of.
// Private to this folder.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

#include "base/device.h"
#include "base/status.h"
#include "gpu/cuda_error.h"

namespace troupe::gpu {

/// Success, or "cuda:1, cudaMalloc: out of memory" with the code that fits.
inline base::Status status_of(cudaError_t error, base::Device device, const char* call) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());  // what does not stick is told once
  return base::error(errc_of(error), "{}, {}: {}", device.to_string(), call,
                     cudaGetErrorString(error));
}

/// For calls that nobody can do anything about: their errors are no later call's.
inline void ignore(cudaError_t error) {
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
}

/// The device that the calling thread issues on (Stream::attach); -1: none.
inline thread_local int attached_device = -1;
/// One that this process has made a stream of, and so uses anyway; -1: none yet. Memory of the host
/// is pinned under it, by threads that no device is attached to.
inline std::atomic<int> used_device = -1;

}  // namespace troupe::gpu
