// SPDX-License-Identifier: Apache-2.0
// Credit: how much a sender may have under way on one connection of a link. The link cuts off who
// exceeds it, and a role that keeps envelopes for later takes no more than it from one peer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/limits.h"

namespace troupe::base {

/// Bytes that nobody has let go of yet, at most: the windows of pushes, replies and control, each
/// of which lets one message pass, however large. `overhead`: bytes counted for a message beside
/// its header and payload.
constexpr std::uint64_t connection_credit(const Limits& limits, std::uint64_t overhead) {
  const std::uint64_t largest =
      overhead + std::max(limits.control_header_bytes_max,
                          limits.data_header_bytes_max + limits.payload_bytes_max);
  return std::max(limits.push_window_bytes, largest) +
         std::max(limits.reply_window_bytes, largest) +
         std::max(limits.control_window_bytes, largest);
}

}  // namespace troupe::base
