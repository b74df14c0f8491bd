// SPDX-License-Identifier: Apache-2.0
// The folder's headers in a build without CUDA: there is no device.
#include "gpu/device_scope.h"
#include "gpu/inventory.h"
#include "gpu/memory.h"
#include "gpu/stream.h"

namespace troupe::gpu {

const Inventory& inventory() {
  static const Inventory none{.problem = "this program is built without CUDA"};
  return none;
}
const std::vector<LibraryFacts>& libraries() {
  static const std::vector<LibraryFacts> none;
  return none;
}

base::Result<std::byte*> allocate(base::Device device, std::size_t) {
  return check_device(device);
}
void release(base::Device, std::byte*) {}
base::Status fill(base::Device device, std::byte*, std::byte, std::size_t) {
  return check_device(device);
}
std::uint64_t total_bytes(base::Device) {
  return 0;
}
std::uint64_t free_bytes(base::Device) {
  return 0;
}

std::vector<std::pair<base::Device, base::Device>> allow_peer_access(
    const std::vector<base::Device>&) {
  return {};
}

base::Result<std::byte*> allocate_pinned(std::size_t) {
  return base::error(base::Errc::failed_precondition, "no pinned memory: {}", inventory().problem);
}
void release_pinned(std::byte*) {}

DeviceScope::DeviceScope(base::Device device) : device_(device) {}
DeviceScope::~DeviceScope() = default;

base::Result<std::unique_ptr<base::Stream>> make_stream(base::Device device, StreamPriority) {
  return check_device(device);
}

}  // namespace troupe::gpu
