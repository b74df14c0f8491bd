// SPDX-License-Identifier: Apache-2.0
// The end of the interval of uniform, for its kernels. Pure functions; any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace troupe::ops {

/// The largest value of T below `high`, at least `low`: rounding, of the product as of the result,
/// could reach `high`, which is not in the interval. W is T, or f32 where T has 16 bits.
template <typename T, typename W>
W uniform_last(W low, W high) {
  if (!(high > low)) return low;
  if constexpr (std::is_same_v<T, W>) {
    return std::nextafter(high, low);
  } else {
    const T near(high);
    if (static_cast<W>(near) < high) return std::max(static_cast<W>(near), low);
    constexpr std::uint16_t kSign = 0x8000, kLeastNegative = 0x8001;
    const std::uint16_t bits = near.bits();
    const bool zero = (bits & ~kSign) == 0, negative = (bits & kSign) != 0;
    const int below = zero ? kLeastNegative : negative ? bits + 1 : bits - 1;
    return std::max(static_cast<W>(T::from_bits(static_cast<std::uint16_t>(below))), low);
  }
}

}  // namespace troupe::ops
