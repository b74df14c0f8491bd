// SPDX-License-Identifier: Apache-2.0
// What the values of one dtype are in another, at their edges.
#include "base/cast_values.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/finite.h"
#include "tests/support/catch.h"

namespace troupe::base {
namespace {

template <typename To, typename From>
std::vector<To> cast(const std::vector<From>& values) {
  // Not a vector: that of bool has no bytes.
  std::array<To, 8> made{};
  REQUIRE(values.size() <= made.size());
  cast_values(kDTypeOf<From>, values.data(), kDTypeOf<To>, made.data(),
              static_cast<std::int64_t>(values.size()));
  return std::vector<To>(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(values.size()));
}

template <typename T>
std::vector<double> numbers(const std::vector<T>& values) {
  std::vector<double> made;
  for (const T value : values) made.push_back(static_cast<double>(value));
  return made;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_CASE("floating values stop at an integer type's ends and NaN is 0", "[cast_values]") {
  const std::vector<float> values = {-1.9F, 1.9F, 300.0F, -300.0F, kInfinity, -kInfinity, kNan};
  CHECK(cast<std::int8_t>(values) == std::vector<std::int8_t>{-1, 1, 127, -128, 127, -128, 0});
  CHECK(cast<std::uint8_t>(values) == std::vector<std::uint8_t>{0, 1, 255, 0, 255, 0, 0});
  CHECK(cast<std::int64_t>(std::vector<float>{9.3e18F, -9.3e18F}) ==
        std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::int64_t>::min()});
  CHECK(cast<bool>(std::vector<float>{0.0F, -0.0F, kNan, 0.1F}) ==
        std::vector<bool>{false, false, true, true});
}

TEST_CASE("values are rounded once to 16 bits, ties to even", "[cast_values]") {
  // 1 + 2^-8 is between two numbers of bf16; in f64 a little more is not.
  CHECK(numbers(cast<BF16>(std::vector<float>{1.00390625F, 1.01171875F, -0.0F})) ==
        std::vector<double>{1.0, 1.015625, -0.0});
  CHECK(numbers(cast<BF16>(std::vector<double>{1.00390625, 1.00390625 + 1e-12})) ==
        std::vector<double>{1.0, 1.0078125});
  // Of 54 bits or more, which a double would round first.
  constexpr std::int64_t kTie = (std::int64_t{1} << 60) + (std::int64_t{1} << 52);
  CHECK(numbers(cast<BF16>(std::vector<std::int64_t>{kTie - 1, kTie, kTie + 1, -kTie + 1, -kTie - 1,
                                                     std::numeric_limits<std::int64_t>::max(),
                                                     std::numeric_limits<std::int64_t>::min()})) ==
        std::vector<double>{0x1p60, 0x1p60, 0x1.02p60, -0x1p60, -0x1.02p60, 0x1p63, -0x1p63});
  const auto halves = cast<F16>(std::vector<float>{65504.0F, 65520.0F, -1e9F, 1e-9F, kNan});
  CHECK(static_cast<float>(halves[0]) == 65504.0F);
  CHECK(static_cast<float>(halves[1]) == kInfinity);
  CHECK(static_cast<float>(halves[2]) == -kInfinity);
  CHECK(static_cast<float>(halves[3]) == 0.0F);
  CHECK(std::isnan(static_cast<float>(halves[4])));
}

TEST_CASE("what 16 bits hold comes back, and no values are none", "[cast_values]") {
  std::vector<F16> all;
  for (int bits = 0x0400; bits < 0x0408; ++bits) {
    all.push_back(F16::from_bits(static_cast<std::uint16_t>(bits)));
  }
  const auto back = cast<F16>(cast<double>(all));
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(back[i].bits() == all[i].bits());
  cast_values(DType::f32, nullptr, DType::bf16, nullptr, 0);
}

/// Casts of many values in one call are those of each by itself, to the bit.
template <typename Narrow>
void check_instructions() {
  std::vector<Narrow> all;
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    all.push_back(Narrow::from_bits(static_cast<std::uint16_t>(bits)));
  }
  std::vector<float> wide(all.size());
  for (const std::size_t begin : {0U, 3U}) {  // whole vectors, and some left
    const auto count = static_cast<std::int64_t>(all.size() - begin);
    cast_values(kDTypeOf<Narrow>, all.data() + begin, DType::f32, wide.data() + begin, count);
    std::size_t wrong = 0;
    for (std::size_t i = begin; i < all.size(); ++i) {
      const auto alone = static_cast<float>(all[i]);
      wrong += std::bit_cast<std::uint32_t>(wide[i]) != std::bit_cast<std::uint32_t>(alone);
    }
    CHECK(wrong == 0);
  }
  std::vector<float> values;
  for (std::uint32_t high = 0; high <= 0xffff; ++high) {
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x0fffU, 0x1000U, 0x1001U, 0x2fffU, 0x3000U,
                                    0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  std::vector<Narrow> made(values.size());
  cast_values(DType::f32, values.data(), kDTypeOf<Narrow>, made.data(),
              static_cast<std::int64_t>(values.size()));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    wrong += made[i].bits() != Narrow(values[i]).bits();
  }
  CHECK(wrong == 0);
}

TEST_CASE("many values have the bits of each by itself, NaN and small ones, too", "[cast_values]") {
  check_instructions<F16>();
  check_instructions<BF16>();
}

TEST_CASE("NaN and infinity are counted in every floating dtype", "[finite]") {
  const auto found = [](DType dtype) {
    const std::array<float, 5> values = {1.0F, kInfinity, -kInfinity, kNan, -0.0F};
    std::array<std::byte, 5 * sizeof(double)> bytes{};
    cast_values(DType::f32, values.data(), dtype, bytes.data(), 5);
    return count_not_finite(dtype, std::span(bytes).first(5 * dtype_size(dtype)));
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    CHECK(found(dtype) == 3);
  }
  CHECK(found(DType::i32) == 0);
  // More than a counter of 16 bits holds in one go.
  const std::vector<std::uint16_t> many(70'000, 0x7c00);
  CHECK(count_not_finite(DType::f16, std::as_bytes(std::span(many))) == many.size());
}

}  // namespace
}  // namespace troupe::base
