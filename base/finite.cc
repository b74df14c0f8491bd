// SPDX-License-Identifier: Apache-2.0
// A loop without branches: the compiler makes it vector code.
#include "base/finite.h"

#include <algorithm>
#include <cstring>

namespace troupe::base {
namespace {

/// Values whose exponent bits are all ones.
template <typename Bits>
std::uint64_t count(std::span<const std::byte> bytes, Bits exponent) {
  std::uint64_t found = 0;
  constexpr std::size_t kBlock = 4096;
  for (std::size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += kBlock * sizeof(Bits)) {
    const std::size_t values = std::min(kBlock, (bytes.size() - at) / sizeof(Bits));
    Bits here = 0;
    for (std::size_t i = 0; i < values; ++i) {
      Bits value;
      std::memcpy(&value, bytes.data() + at + i * sizeof(Bits), sizeof(Bits));
      here += static_cast<Bits>((value & exponent) == exponent);
    }
    found += here;
  }
  return found;
}

}  // namespace

std::uint64_t count_not_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::f32:
      return count<std::uint32_t>(bytes, 0x7f800000U);
    case DType::f64:
      return count<std::uint64_t>(bytes, 0x7ff0000000000000U);
    case DType::f16:
      return count<std::uint16_t>(bytes, 0x7c00U);
    case DType::bf16:
      return count<std::uint16_t>(bytes, 0x7f80U);
    default:
      return 0;
  }
}

}  // namespace troupe::base
