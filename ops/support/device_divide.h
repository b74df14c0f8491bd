// SPDX-License-Identifier: Apache-2.0
// Division of indices in own kernels for GPUs, which have no instruction for it: a division of 64
// bits takes about 100 of theirs, a multiplication's upper half about ten.
#pragma once

#include <bit>
#include <cstdint>

#include "ops/support/host_device.h"

namespace troupe::ops {

/// A divisor that is known before many divisions (Granlund and Montgomery 1994): with 2^s the
/// smallest power of two >= divisor and m = 2^(63 + s) / divisor, rounded up,
/// n / divisor = n m / 2^(63 + s), rounded down, for all n in [0, 2^63). The same with 31 for 63 is
/// one instruction of a device, and most indices are so small.
class Divider {
 public:
  Divider() = default;
  /// One below 1, the extent of an axis without elements, counts as 1.
  explicit Divider(std::int64_t divisor) : divisor_(divisor < 1 ? 1 : divisor) {
    const auto d = static_cast<std::uint64_t>(divisor_);
    shift_ = std::bit_width(d - 1);
    const auto power = static_cast<unsigned __int128>(1) << (63 + shift_);
    factor_ = static_cast<std::uint64_t>((power + d - 1) / d);
    small_factor_ = 0;  // of a divisor above all small n
    if (shift_ > 31) return;
    const std::uint64_t small_power = std::uint64_t{1} << (31 + shift_);
    small_factor_ = static_cast<std::uint32_t>((small_power + d - 1) / d);
  }

  TROUPE_HOST_DEVICE std::int64_t divisor() const { return divisor_; }
  /// n / divisor, n >= 0.
  TROUPE_HOST_DEVICE std::int64_t quotient(std::int64_t n) const {
    if (is_small(n)) return small_quotient(static_cast<std::uint32_t>(n));
    const std::uint64_t twice = static_cast<std::uint64_t>(n) << 1;
#if defined(__CUDA_ARCH__)
    const std::uint64_t upper = __umul64hi(twice, factor_);
#else
    const auto upper =
        static_cast<std::uint64_t>(static_cast<unsigned __int128>(twice) * factor_ >> 64);
#endif
    return static_cast<std::int64_t>(upper >> shift_);
  }
  /// n % divisor, n >= 0.
  TROUPE_HOST_DEVICE std::int64_t remainder(std::int64_t n) const {
    return digits(n).remainder;
  }

  struct Digits {
    std::int64_t quotient, remainder;
  };
  TROUPE_HOST_DEVICE Digits digits(std::int64_t n) const {
    if (is_small(n)) {
      const auto small = static_cast<std::uint32_t>(n);
      const std::uint32_t above = small_quotient(small);
      return {above, small - above * static_cast<std::uint32_t>(divisor_)};
    }
    const std::int64_t above = quotient(n);
    return {above, n - above * divisor_};
  }

 private:
  TROUPE_HOST_DEVICE static bool is_small(std::int64_t n) {
    return static_cast<std::uint64_t>(n) >> 31 == 0;
  }
  TROUPE_HOST_DEVICE std::uint32_t small_quotient(std::uint32_t n) const {
#if defined(__CUDA_ARCH__)
    const std::uint32_t upper = __umulhi(n << 1, small_factor_);
#else
    const auto upper = static_cast<std::uint32_t>(std::uint64_t{n << 1} * small_factor_ >> 32);
#endif
    return upper >> (shift_ & 31);
  }

  std::int64_t divisor_ = 1;
  std::uint64_t factor_ = std::uint64_t{1} << 63;
  std::uint32_t small_factor_ = std::uint32_t{1} << 31;
  int shift_ = 0;
};

}  // namespace troupe::ops
