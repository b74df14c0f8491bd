// SPDX-License-Identifier: Apache-2.0
// The two floating types of 16 bits. Numbers of memory and of the wire: sums and products are
// taken in f32, to which both convert exactly. Towards 16 bits values are rounded to the nearest,
// halves to even (IEEE 754); what is too large becomes infinity, NaN stays NaN. Plain values; any
// thread.
#pragma once

#include <bit>
#include <cstdint>

namespace troupe::base {
namespace detail {

/// `value` in f32, rounded so that a second rounding, to fewer bits, gives what one would have
/// given: towards zero, and odd where something was lost (Boldo and Melquiond 2008).
constexpr float round_to_odd(double value) {
  const auto near = static_cast<float>(value);
  const auto exact = static_cast<double>(near);
  if (exact == value || value != value) return near;
  auto bits = std::bit_cast<std::uint32_t>(near);
  const bool away = value > 0 ? exact > value : exact < value;
  if (away) --bits;
  return std::bit_cast<float>(bits | 1);
}

}  // namespace detail

/// bfloat16: 8 bits of exponent as f32 has, 7 of fraction.
class BF16 {
 public:
  constexpr BF16() = default;
  explicit constexpr BF16(float value) : bits_(round(std::bit_cast<std::uint32_t>(value))) {}
  explicit constexpr BF16(double value) : BF16(detail::round_to_odd(value)) {}
  static constexpr BF16 from_bits(std::uint16_t bits) {
    BF16 result;
    result.bits_ = bits;
    return result;
  }
  constexpr std::uint16_t bits() const { return bits_; }
  explicit constexpr operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }
  explicit constexpr operator double() const { return static_cast<float>(*this); }

 private:
  static constexpr std::uint16_t round(std::uint32_t f32) {
    constexpr std::uint32_t kInfinity = 0x7f800000, kQuiet = 0x40, kBelowHalf = 0x7fff;
    if ((f32 & 0x7fffffff) > kInfinity) return static_cast<std::uint16_t>((f32 >> 16) | kQuiet);
    return static_cast<std::uint16_t>((f32 + kBelowHalf + ((f32 >> 16) & 1)) >> 16);
  }

  std::uint16_t bits_ = 0;
};

/// IEEE 754's binary16: 5 bits of exponent, 10 of fraction; the largest number is 65504.
class F16 {
 public:
  constexpr F16() = default;
  explicit constexpr F16(float value) : bits_(round(std::bit_cast<std::uint32_t>(value))) {}
  explicit constexpr F16(double value) : F16(detail::round_to_odd(value)) {}
  static constexpr F16 from_bits(std::uint16_t bits) {
    F16 result;
    result.bits_ = bits;
    return result;
  }
  constexpr std::uint16_t bits() const { return bits_; }
  explicit constexpr operator float() const {
    constexpr std::uint32_t kSmallExponents = 112;  // 127 - 15
    const std::uint32_t sign = static_cast<std::uint32_t>(bits_ & 0x8000) << 16;
    const std::uint32_t exponent = (bits_ >> 10) & 0x1f, fraction = bits_ & 0x3ff;
    if (exponent == 0) {  // fraction times 2^-24
      const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
    }
    const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + kSmallExponents;
    return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
  }
  explicit constexpr operator double() const { return static_cast<float>(*this); }

 private:
  static constexpr std::uint16_t round(std::uint32_t f32) {
    const auto sign = static_cast<std::uint16_t>((f32 >> 16) & 0x8000);
    const std::uint32_t magnitude = f32 & 0x7fffffff;
    constexpr std::uint32_t kInfinity = 0x7f800000;
    constexpr std::uint32_t kTooLarge = 0x477ff000;  // 65520 rounds to 2^16
    constexpr std::uint32_t kNormal = 0x38800000;    // 2^-14
    if (magnitude > kInfinity) {
      return static_cast<std::uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
    }
    if (magnitude >= kTooLarge) return static_cast<std::uint16_t>(sign | 0x7c00);
    if (magnitude < kNormal) {
      // Beside 1/2 the last bit of f32 is worth 2^-24, as the last of these numbers is.
      const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(sign |
                                        (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000));
    }
    const std::uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
  }

  std::uint16_t bits_ = 0;
};

}  // namespace troupe::base
