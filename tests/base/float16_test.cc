// SPDX-License-Identifier: Apache-2.0
// bf16 and f16 against their definitions: every number of both, and roundings at every border.
#include "base/float16.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

/// The value that IEEE 754 gives to `bits` of a type with so many bits of exponent and fraction.
double defined_value(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const std::uint32_t fraction = bits & ((1U << fraction_bits) - 1);
  const std::uint32_t exponents = (1U << exponent_bits) - 1;
  const std::uint32_t exponent = (bits >> fraction_bits) & exponents;
  const double sign = ((bits >> (fraction_bits + exponent_bits)) & 1) != 0 ? -1.0 : 1.0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == exponents) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  const double whole = exponent == 0 ? 0.0 : 1.0;
  const int power = static_cast<int>(exponent == 0 ? 1 : exponent) - bias;
  return sign * std::ldexp(whole + std::ldexp(fraction, -fraction_bits), power);
}

/// What is wrong with the rounding of `value` to T; the neighbours are those of its bits.
template <typename T>
bool rounds_to_nearest(double value) {
  const T rounded(value);
  const auto near = static_cast<double>(rounded);
  if (std::isnan(value)) return std::isnan(near);
  if (std::isinf(value)) return near == value;
  for (const int step : {-1, 1}) {
    const T other = T::from_bits(static_cast<std::uint16_t>(rounded.bits() + step));
    auto beside = static_cast<double>(other);
    if (std::isnan(beside) || std::signbit(beside) != std::signbit(near)) continue;
    // Infinity counts as the number that would be there.
    const double end = std::is_same_v<T, F16> ? 65536.0 : std::ldexp(1.0, 128);
    const auto finite = [end](double x) { return std::isinf(x) ? std::copysign(end, x) : x; };
    const double own = std::fabs(finite(near) - value), its = std::fabs(finite(beside) - value);
    if (its < own) return false;
    if (its == own && (rounded.bits() & 1) != 0) return false;
  }
  return std::signbit(near) == std::signbit(value);
}

template <typename T>
void check_type(int exponent_bits, int fraction_bits) {
  int wrong_values = 0, wrong_ways_back = 0, wrong_roundings = 0;
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const T number = T::from_bits(static_cast<std::uint16_t>(bits));
    const double value = defined_value(bits, exponent_bits, fraction_bits);
    const float widened(number);
    wrong_values +=
        !(static_cast<double>(widened) == value || (std::isnan(value) && std::isnan(widened)));
    if (std::isnan(value)) {
      wrong_ways_back += !std::isnan(static_cast<float>(T(widened)));
      continue;
    }
    wrong_ways_back += T(widened).bits() != bits || T(value).bits() != bits;
    const double next = defined_value(bits + 1, exponent_bits, fraction_bits);
    if (std::isnan(next) || std::isinf(value)) continue;
    const double far =
        std::isinf(next) ? 2 * value - defined_value(bits - 1, exponent_bits, fraction_bits) : next;
    const double half = value + (far - value) / 2;
    for (const double x : {half, std::nextafter(half, value), std::nextafter(half, far),
                           value + (far - value) * 0.3, value + (far - value) * 0.8}) {
      wrong_roundings += !rounds_to_nearest<T>(x);
      const auto single = static_cast<float>(x);
      wrong_roundings += T(single).bits() != T(static_cast<double>(single)).bits();
    }
  }
  CHECK(wrong_values == 0);
  CHECK(wrong_ways_back == 0);
  CHECK(wrong_roundings == 0);
}

TEST_CASE("every number of 16 bits has its value, and numbers between round to the nearest") {
  check_type<BF16>(8, 7);
  check_type<F16>(5, 10);
}

TEST_CASE("the ends of the types of 16 bits") {
  CHECK(F16(65504.0F).bits() == 0x7bff);
  CHECK(F16(65519.99F).bits() == 0x7bff);
  CHECK(F16(65520.0F).bits() == 0x7c00);
  CHECK(F16(-1e30F).bits() == 0xfc00);
  CHECK(F16(0x1p-24F).bits() == 1);
  CHECK(F16(0x1p-25F).bits() == 0);
  CHECK(F16(0x1.8p-25F).bits() == 1);
  CHECK(F16(-0.0F).bits() == 0x8000);
  CHECK(BF16(3.4e38F).bits() == 0x7f80);
  CHECK(BF16(std::numeric_limits<float>::infinity()).bits() == 0x7f80);
  CHECK(std::isnan(static_cast<float>(BF16(std::nanf("")))));
  // A NaN whose fraction lies below the bits that are kept is none the less one.
  CHECK(std::isnan(static_cast<float>(BF16(std::bit_cast<float>(0x7f800001U)))));
  CHECK(std::isnan(static_cast<float>(F16(std::bit_cast<float>(0x7f800001U)))));
  // One rounding, not two: in f32 this would lie half way between two numbers of f16.
  CHECK(F16(1.0 + 0x1p-11 + 0x1p-40).bits() == F16(1.0F).bits() + 1);
  static_assert(static_cast<float>(BF16(1.0F)) == 1.0F);
  static_assert(static_cast<float>(F16(0.5F)) == 0.5F);
}

}  // namespace
}  // namespace troupe::base
