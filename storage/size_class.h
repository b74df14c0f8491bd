// SPDX-License-Identifier: Apache-2.0
// Size classes of the pools: multiples of 64 bytes up to 512, then eight steps per doubling, so at
// most an eighth of a block is unused (and 63 bytes of a small one). Pure functions.
#pragma once

#include <bit>
#include <cstddef>

namespace troupe::storage {

inline constexpr std::size_t kBlockAlignment = 64;
inline constexpr std::size_t kLinearClasses = 8;  ///< 64, 128, ..., 512
inline constexpr int kLinearBits = 9;             ///< 512 = 2^9
inline constexpr std::size_t kStepsPerDoubling = 8;
/// Requests above this are refused before any arithmetic on them: 128 TiB.
inline constexpr std::size_t kRequestBytesMax = std::size_t{1} << 47;
inline constexpr std::size_t kSizeClasses = kLinearClasses + (47 - kLinearBits) * kStepsPerDoubling;

/// The smallest class that holds `bytes` (<= kRequestBytesMax).
constexpr std::size_t size_class(std::size_t bytes) {
  if (bytes <= kBlockAlignment * kLinearClasses) {
    return bytes == 0 ? 0 : (bytes - 1) / kBlockAlignment;
  }
  const int bits = std::bit_width(bytes - 1) - 1;  // 2^bits < bytes <= 2^(bits + 1)
  const std::size_t base = std::size_t{1} << bits;
  const std::size_t step = base / kStepsPerDoubling;
  return kLinearClasses + static_cast<std::size_t>(bits - kLinearBits) * kStepsPerDoubling +
         (bytes - base - 1) / step;
}

/// Bytes of the blocks of a class.
constexpr std::size_t size_class_bytes(std::size_t index) {
  if (index < kLinearClasses) return (index + 1) * kBlockAlignment;
  const std::size_t doubling = (index - kLinearClasses) / kStepsPerDoubling;
  const std::size_t step = (index - kLinearClasses) % kStepsPerDoubling;
  const std::size_t base = std::size_t{1} << (static_cast<std::size_t>(kLinearBits) + doubling);
  return base + (step + 1) * (base / kStepsPerDoubling);
}

}  // namespace troupe::storage
