// SPDX-License-Identifier: Apache-2.0
// Memory by the CUDA runtime.
#include "gpu/memory.h"

#include <algorithm>

#include "gpu/cuda/error.h"
#include "gpu/device_scope.h"
#include "gpu/inventory.h"

namespace troupe::gpu {

using base::Device;
using base::Result;
using base::Status;

Result<std::byte*> allocate(Device device, std::size_t bytes) {
  TROUPE_TRY(check_device(device));
  const DeviceScope scope(device);
  void* data = nullptr;
  TROUPE_TRY(status_of(cudaMalloc(&data, bytes), device, "cudaMalloc"));
  return static_cast<std::byte*>(data);
}

void release(Device device, std::byte* data) {
  const DeviceScope scope(device);
  static_cast<void>(cudaFree(data));  // fails when the process ends or the device has failed
}

Status fill(Device device, std::byte* data, std::byte value, std::size_t bytes) {
  const DeviceScope scope(device);
  TROUPE_TRY(status_of(cudaMemset(data, std::to_integer<int>(value), bytes), device, "cudaMemset"));
  return status_of(cudaStreamSynchronize(nullptr), device, "cudaStreamSynchronize");
}

std::uint64_t total_bytes(Device device) {
  return check_device(device).ok()
             ? inventory().devices[static_cast<std::size_t>(device.index)].memory_bytes
             : 0;
}

std::uint64_t free_bytes(Device device) {
  if (!check_device(device).ok()) return 0;
  const DeviceScope scope(device);
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

std::vector<std::pair<Device, Device>> allow_peer_access(const std::vector<Device>& devices) {
  std::vector<std::pair<Device, Device>> without;
  for (const Device device : devices) {
    for (const Device peer : devices) {
      int can = 0;
      if (peer == device || !check_device(device).ok() || !check_device(peer).ok()) continue;
      const DeviceScope scope(device);
      cudaError_t got = cudaDeviceCanAccessPeer(&can, device.index, peer.index);
      if (got == cudaSuccess && can != 0) got = cudaDeviceEnablePeerAccess(peer.index, 0);
      if (got != cudaSuccess) static_cast<void>(cudaGetLastError());  // is no later call's
      const bool has = (got == cudaSuccess && can != 0) || got == cudaErrorPeerAccessAlreadyEnabled;
      if (!has) without.emplace_back(device, peer);
    }
  }
  return without;
}

namespace {

/// Under which memory of the host is pinned: one in use, else the first that can be used.
Device pinning_device() {
  if (const int used = used_device; used >= 0) return {base::DeviceKind::cuda, used};
  const std::vector<DeviceFacts>& devices = inventory().devices;
  const auto first =
      std::ranges::find_if(devices, [](const DeviceFacts& facts) { return facts.problem.empty(); });
  return {base::DeviceKind::cuda, static_cast<std::int32_t>(first - devices.begin())};
}

}  // namespace

Result<std::byte*> allocate_pinned(std::size_t bytes) {
  const Inventory& found = inventory();
  if (!found.problem.empty()) {
    return base::error(base::Errc::failed_precondition, "no pinned memory: {}", found.problem);
  }
  const DeviceScope scope(pinning_device());
  void* data = nullptr;
  // Portable: pinned for every device of the process.
  TROUPE_TRY(
      status_of(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), Device{}, "cudaHostAlloc"));
  return static_cast<std::byte*>(data);
}

void release_pinned(std::byte* data) {
  const DeviceScope scope(pinning_device());
  static_cast<void>(cudaFreeHost(data));
}

}  // namespace troupe::gpu
