// SPDX-License-Identifier: Apache-2.0
// When a kernel should write past the caches. Pure function; any thread.
#pragma once

#include <cstdint>

namespace troupe::ops {

/// True for whole outputs that would push more useful things out of the caches, and which vectors
/// of any length can stream to. Not for memory that the same call reads.
inline bool worth_streaming(const void* output, std::int64_t bytes) {
  constexpr std::int64_t kLeastBytes = 8 << 20;
  constexpr std::uintptr_t kAlignment = 64;
  return bytes >= kLeastBytes && reinterpret_cast<std::uintptr_t>(output) % kAlignment == 0;
}

}  // namespace troupe::ops
