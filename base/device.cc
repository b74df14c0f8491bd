// SPDX-License-Identifier: Apache-2.0
// Text form of devices.
#include "base/device.h"

namespace troupe::base {

std::string Device::to_string() const {
  constexpr std::string_view names[] = {"cpu", "cuda", "delayed"};
  return fmt::format("{}:{}", names[static_cast<int>(kind)], index);
}

}  // namespace troupe::base
