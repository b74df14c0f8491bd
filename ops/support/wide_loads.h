// SPDX-License-Identifier: Apache-2.0
// What cuDNN and cuBLASLt are promised of addresses: they choose engines that load 16 bytes at a
// time, and take more of a workspace. Allocations and plans keep the first; a slice of an array may
// not. Pure functions; any thread.
#pragma once

#include <cstddef>
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

/// What a workspace begins at a multiple of, which is more than a kernel's scratch promises.
inline constexpr std::size_t kWorkspaceAlignment = 256;

/// Bytes of scratch that hold a workspace of `bytes`.
constexpr std::size_t workspace_scratch(std::size_t bytes) {
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}
/// The workspace in scratch of so many bytes.
inline std::byte* workspace_in(std::byte* scratch) {
  const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(scratch) % kWorkspaceAlignment;
  return past == 0 ? scratch : scratch + (kWorkspaceAlignment - past);
}

/// Why a library that failed with `status` is not used: another kernel is asked, but not where
/// memory was missing, which says nothing of other times.
inline base::Status declined(const base::Status& status) {
  const bool full = status.code() == base::Errc::resource_exhausted;
  return full ? status : base::error(base::Errc::unimplemented, "{}", status.text());
}

}  // namespace troupe::ops
