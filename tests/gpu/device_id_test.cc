// SPDX-License-Identifier: Apache-2.0
// Names of GPUs, as NVIDIA's tools write them.
#include "gpu/device_id.h"

#include <array>

#include "tests/support/catch.h"

namespace troupe::gpu {
namespace {

TEST_CASE("UUIDs and places of the bus are written as nvidia-smi does", "[gpu]") {
  std::array<char, 16> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 17);
  CHECK(device_uuid(bytes) == "GPU-00112233-4455-6677-8899-aabbccddeeff");
  CHECK(pci_bus_id(0, 0x1b, 0) == "00000000:1B:00.0");
  CHECK(pci_bus_id(0x10000, 0xff, 0x1f) == "00010000:FF:1F.0");
}

TEST_CASE("a slice is named as CUDA_VISIBLE_DEVICES names it, whole devices by their UUID",
          "[device_id]") {
  CHECK(visible_name(std::nullopt, 1, "GPU-1") == "GPU-1");
  CHECK(visible_name("", 0, "GPU-1") == "GPU-1");
  CHECK(visible_name("3,2", 1, "GPU-1") == "GPU-1");
  CHECK(visible_name("MIG-a", 0, "GPU-1") == "MIG-a");
  CHECK(visible_name("MIG-a,MIG-b", 1, "GPU-1") == "MIG-b");
  CHECK(visible_name("MIG-a", 1, "GPU-1") == "GPU-1");
}

}  // namespace
}  // namespace troupe::gpu
