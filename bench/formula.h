// SPDX-License-Identifier: Apache-2.0
// Numbers that benchmark programs and their peers draw alike (peers/timing.py has the same
// formula). Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe::bench {

/// Number i of stream k, in [-1, 1): a hash.
inline double formula(std::uint32_t k, std::uint32_t i) {
  std::uint32_t h = (i + 1) * 2654435761U + k * 40503U;
  h ^= h >> 15;
  h *= 2246822519U;
  h ^= h >> 13;
  return h / 4294967296.0 * 2.0 - 1.0;
}

/// The first `elements` numbers of stream k, times `scale`.
inline std::vector<float> stream(std::uint32_t k, std::size_t elements, double scale) {
  std::vector<float> values;
  values.reserve(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    values.push_back(static_cast<float>(scale * formula(k, static_cast<std::uint32_t>(i))));
  }
  return values;
}

/// The stream of an array by its name: CRC-32 as zlib computes it.
inline std::uint32_t stream_of(std::string_view name) {
  constexpr std::uint32_t kPolynomial = 0xEDB88320U;
  std::uint32_t crc = ~0U;
  for (const char c : name) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc % 2 != 0 ? kPolynomial : 0);
  }
  return ~crc;
}

}  // namespace troupe::bench
