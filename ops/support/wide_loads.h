// SPDX-License-Identifier: Apache-2.0
// What libraries for GPUs are promised of addresses: they choose engines that load 16 bytes at a
// time. Allocations and plans keep that; a slice of an array may not.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace troupe::ops {

/// Tensors begin at multiples of this.
inline constexpr std::int64_t kWideLoadBytes = 16;

/// failed_precondition where one of `tensors` does not; null stands for none.
inline base::Status check_wide_loads(std::string_view library,
                                     std::span<const void* const> tensors) {
  for (const void* const tensor : tensors) {
    const std::uintptr_t past =
        reinterpret_cast<std::uintptr_t>(tensor) % std::uintptr_t{kWideLoadBytes};
    if (past == 0) continue;
    return base::error(base::Errc::failed_precondition,
                       "{} takes tensors that begin at multiples of {} bytes, one begins {} behind "
                       "that: compute on a copy of this slice",
                       library, kWideLoadBytes, past);
  }
  return {};
}

}  // namespace troupe::ops
