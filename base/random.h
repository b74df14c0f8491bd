// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC'11; Random123).
// A value depends on (key, element, step, draw) alone: not on threads, devices, order or restarts.
// Pure functions, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe::base {

/// Names one stream of random numbers: the first 64 bits of XXH3-128(seed, stream name).
struct RandomKey {
  std::uint64_t value = 0;
  friend bool operator==(const RandomKey&, const RandomKey&) = default;
};

/// The key of stream `name` (purpose, then node or key name, then rank only where named) under a
/// job's seed.
RandomKey random_key(std::uint64_t seed, std::string_view name);

/// Four random words for counter {block: 64 bits, step: 48 bits, draw: 16 bits}.
/// Row-major logical element e uses word e % 4 of block e / 4. CHECKs step < 2^48 and draw < 2^16.
std::array<std::uint32_t, 4> philox(RandomKey key, std::uint64_t block, std::uint64_t step,
                                    std::uint32_t draw);

/// Uniform in [0, 1) with 24 bits from one word.
inline float uniform_f32(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1.0p-24F;
}
/// Uniform in [0, 1) with 32 bits from one word.
inline double uniform_f64(std::uint32_t word) {
  return static_cast<double>(word) * 0x1.0p-32;
}

/// Two standard normal values from two words (Box-Muller, in f64; first word is moved off 0).
std::array<double, 2> normal_pair(std::uint32_t a, std::uint32_t b);

/// The permutation of 0..n-1 by Fisher-Yates with unbiased draws from stream `key` at `step`.
std::vector<std::uint64_t> permutation(RandomKey key, std::uint64_t step, std::uint64_t n);

}  // namespace troupe::base
