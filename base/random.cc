// SPDX-License-Identifier: Apache-2.0
// Philox blocks, normal values and permutations.
#include "base/random.h"

#include <Random123/philox.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace troupe::base {

RandomKey random_key(std::uint64_t seed, std::string_view name) {
  return RandomKey{hash64(name, seed)};
}

std::array<std::uint32_t, 4> philox(RandomKey key, std::uint64_t block, std::uint64_t step,
                                    std::uint32_t draw) {
  TROUPE_CHECK(step < (std::uint64_t{1} << 48) && draw < (1U << 16), "random counter out of range");
  const std::uint64_t high = step << 16 | draw;
  const philox4x32_ctr_t counter = {
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
       static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
  const philox4x32_key_t words = {
      {static_cast<std::uint32_t>(key.value), static_cast<std::uint32_t>(key.value >> 32)}};
  const philox4x32_ctr_t out = philox4x32(counter, words);
  return {out.v[0], out.v[1], out.v[2], out.v[3]};
}

std::array<double, 2> normal_pair(std::uint32_t a, std::uint32_t b) {
  const double u = (static_cast<double>(a) + 0.5) * 0x1.0p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * uniform_f64(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

std::vector<std::uint64_t> permutation(RandomKey key, std::uint64_t step, std::uint64_t n) {
  std::vector<std::uint64_t> order(n);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  std::uint64_t block = 0;
  for (std::uint64_t i = n; i > 1; --i) {
    // Draw below i without bias: reject the incomplete last run of multiples of i.
    const std::uint64_t limit = ~std::uint64_t{0} - ~std::uint64_t{0} % i;
    std::uint64_t draw = 0;
    do {
      const auto words = philox(key, block++, step, 0);
      draw = std::uint64_t{words[1]} << 32 | words[0];
    } while (draw >= limit);
    std::swap(order[i - 1], order[draw % i]);
  }
  return order;
}

}  // namespace troupe::base
