// SPDX-License-Identifier: Apache-2.0
// Text form of devices.
#include "base/device.h"

#include <charconv>

namespace troupe::base {

std::string Device::to_string() const {
  constexpr std::string_view names[] = {"cpu", "cuda", "delayed"};
  return fmt::format("{}:{}", names[static_cast<int>(kind)], index);
}

Result<Device> parse_device(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  Device device;
  if (kind == "cuda") {
    device.kind = DeviceKind::cuda;
  } else if (kind == "delayed") {
    device.kind = DeviceKind::delayed;
  } else if (kind != "cpu") {
    return error(Errc::invalid_argument, "unknown device '{}' (known: cpu, cuda)", text);
  }
  if (colon == std::string_view::npos) return device;
  const std::string_view index = text.substr(colon + 1);
  auto [end, code] = std::from_chars(index.data(), index.data() + index.size(), device.index);
  if (code != std::errc() || end != index.data() + index.size() || device.index < 0) {
    return error(Errc::invalid_argument, "'{}' has no device number after the colon", text);
  }
  return device;
}

}  // namespace troupe::base
