// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's numbers of errors (XIDs) mean, those that people with GPUs that train meet: a table
// after NVIDIA's catalog (docs.nvidia.com/deploy/xid-errors). Constants; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::gpu {

/// An XID.
struct XidMeaning {
  std::uint32_t xid = 0;
  /// NVIDIA asks for a reset of the GPU, a reboot of its machine or a look at its links. Of the
  /// others most are a program's own fault, and the GPU is well.
  bool of_device = false;
  std::string_view text;  ///< a sentence without its end
};

/// All that are known, by number.
std::span<const XidMeaning> xid_meanings();

/// Null: not in the table.
const XidMeaning* find_xid(std::uint32_t xid);

}  // namespace troupe::gpu
