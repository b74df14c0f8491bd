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
  TROUPE_TRY(scope.status());
  void* data = nullptr;
  TROUPE_TRY(status_of(cudaMalloc(&data, bytes), device, "cudaMalloc"));
  return static_cast<std::byte*>(data);
}

void release(Device device, std::byte* data) {
  const DeviceScope scope(device);
  ignore(cudaFree(data));  // fails when the process ends or the device has failed
}

Status fill(Device device, std::byte* data, std::byte value, std::size_t bytes) {
  const DeviceScope scope(device);
  TROUPE_TRY(scope.status());
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
  if (!scope.status().ok()) return 0;
  std::size_t free = 0, total = 0;
  const cudaError_t asked = cudaMemGetInfo(&free, &total);
  ignore(asked);
  return asked == cudaSuccess ? free : 0;
}

namespace {

/// Whether peers may read each other's memory.
enum class Peer : std::uint8_t { no, was, is_now };

Peer enable_peer(Device device, Device peer) {
  int can = 0;
  const DeviceScope scope(device);
  if (!scope.status().ok()) return Peer::no;
  cudaError_t got = cudaDeviceCanAccessPeer(&can, device.index, peer.index);
  if (got == cudaSuccess && can != 0) got = cudaDeviceEnablePeerAccess(peer.index, 0);
  ignore(got);
  if (got == cudaErrorPeerAccessAlreadyEnabled) return Peer::was;
  return got == cudaSuccess && can != 0 ? Peer::is_now : Peer::no;
}

void disable_peer(Device device, Device peer) {
  const DeviceScope scope(device);
  ignore(cudaDeviceDisablePeerAccess(peer.index));
}

/// Memory of a device while the object lives; null where there is none.
class Held {
 public:
  Held(Device device, std::size_t bytes) : device_(device) {
    const Result<std::byte*> data = allocate(device, bytes);
    if (data.ok()) data_ = *data;
  }
  ~Held() {
    if (data_ != nullptr) release(device_, data_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  std::byte* data() const { return data_; }

 private:
  const Device device_;
  std::byte* data_ = nullptr;
};

/// Whether bytes are lost between two devices: on machines that send them through an IOMMU they may
/// be, although the driver offers access and reports no error. So are those of which it cannot be
/// tried.
bool are_lost(Device from, Device to) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  constexpr std::size_t kPrime = 251;
  std::vector<std::byte> sent(kBytes), got(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<std::byte>(i % kPrime);
  const Held source(from, kBytes), target(to, kBytes);
  if (source.data() == nullptr || target.data() == nullptr) return true;  // no memory now
  const auto copied = [&] {
    const DeviceScope scope(to);
    return cudaMemset(target.data(), 0xff, kBytes) == cudaSuccess &&
           cudaMemcpy(source.data(), sent.data(), kBytes, cudaMemcpyDefault) == cudaSuccess &&
           cudaMemcpyPeer(target.data(), to.index, source.data(), from.index, kBytes) ==
               cudaSuccess &&
           cudaDeviceSynchronize() == cudaSuccess &&
           cudaMemcpy(got.data(), target.data(), kBytes, cudaMemcpyDefault) == cudaSuccess;
  };
  if (copied()) return got != sent;
  static_cast<void>(cudaGetLastError());
  return true;
}

}  // namespace

std::vector<std::pair<Device, Device>> allow_peer_access(const std::vector<Device>& devices) {
  std::vector<std::pair<Device, Device>> without;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t k = i + 1; k < devices.size(); ++k) {
      const Device a = devices[i], b = devices[k];
      if (a == b || !check_device(a).ok() || !check_device(b).ok()) continue;
      const Peer forth = enable_peer(a, b), back = enable_peer(b, a);
      const auto fails = [](Peer access, Device from, Device to) {  // what was there has been tried
        return access == Peer::is_now && are_lost(from, to);
      };
      const bool lost = fails(forth, a, b) || fails(back, b, a);
      if (lost && forth == Peer::is_now) disable_peer(a, b);
      if (lost && back == Peer::is_now) disable_peer(b, a);
      if (forth == Peer::no || lost) without.emplace_back(a, b);
      if (back == Peer::no || lost) without.emplace_back(b, a);
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
  ignore(cudaFreeHost(data));
}

}  // namespace troupe::gpu
