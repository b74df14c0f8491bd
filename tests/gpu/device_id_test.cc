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

}  // namespace
}  // namespace troupe::gpu
