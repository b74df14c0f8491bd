// SPDX-License-Identifier: Apache-2.0
// Bytes and numbers as text.
#include "gpu/device_id.h"

#include <fmt/format.h>

#include <utility>

namespace troupe::gpu {

std::string device_uuid(std::span<const char, 16> bytes) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", group ? "-" : "", static_cast<unsigned char>(bytes[i]));
  }
  return text;
}

std::string visible_name(const std::optional<std::string>& visible, std::size_t index,
                         std::string uuid) {
  std::string_view rest = visible ? std::string_view(*visible) : std::string_view();
  for (; index > 0 && !rest.empty(); --index) {
    const std::size_t comma = rest.find(',');
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  const std::string_view entry = rest.substr(0, rest.find(','));
  return names_slice(entry) ? std::string(entry) : std::move(uuid);
}

std::string pci_bus_id(unsigned domain, unsigned bus, unsigned device) {
  return fmt::format("{:08X}:{:02X}:{:02X}.0", domain, bus, device);
}

}  // namespace troupe::gpu
