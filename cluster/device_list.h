// SPDX-License-Identifier: Apache-2.0
// What `--devices` of an agent says: "cpu:2", "gpu:all", "gpu:0,2", "cpu:2,gpu:0,0". Whether the
// machine has these GPUs is not known here. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace troupe::cluster {

/// The slots that an agent is to offer.
struct DeviceList {
  std::uint32_t cpu_slots = 0;
  bool all_gpus = false;            ///< one slot on each GPU of the machine; then `gpus` is empty
  std::vector<std::uint32_t> gpus;  ///< indices in the order given; one for each slot
  friend bool operator==(const DeviceList&, const DeviceList&) = default;

  /// Whether it names GPUs.
  bool on_gpus() const { return all_gpus || !gpus.empty(); }
  /// A machine that has all of them has so many at least. With all_gpus: nobody knows, 0.
  std::uint32_t gpus_needed() const;
};

/// How `--devices` is written.
inline constexpr std::string_view kDeviceListForm = "cpu:N, gpu:all or gpu:INDEX,INDEX,...";

/// Items with commas between: cpu:N once, with 1 to 4,096 slots; gpu:all; or gpu:INDEX, after which
/// bare numbers are GPUs, too. The same GPU twice is two slots on it. invalid_argument names the
/// item that is wrong.
base::Result<DeviceList> parse_device_list(std::string_view text);

}  // namespace troupe::cluster
