// SPDX-License-Identifier: Apache-2.0
// Bytes and numbers as text.
#include "gpu/device_id.h"

#include <fmt/format.h>

namespace troupe::gpu {

std::string device_uuid(std::span<const char, 16> bytes) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", group ? "-" : "", static_cast<unsigned char>(bytes[i]));
  }
  return text;
}

std::string pci_bus_id(unsigned domain, unsigned bus, unsigned device) {
  return fmt::format("{:08X}:{:02X}:{:02X}.0", domain, bus, device);
}

}  // namespace troupe::gpu
