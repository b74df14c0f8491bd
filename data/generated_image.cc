// SPDX-License-Identifier: Apache-2.0
// Stripes by a phase that grows with row and column, and wraps.
#include "data/generated_image.h"

#include <array>
#include <cstddef>

#include "base/random.h"

namespace troupe::data {
namespace {

/// Stripes of one channel of a class: a triangular wave over the 2^32 phases of a period.
struct Stripes {
  std::uint32_t begin, down, across;  // phase of the first pixel, a row's step, a column's step

  std::uint32_t at(std::uint32_t row, std::uint32_t column) const {
    const std::uint32_t level = (begin + down * row + across * column) >> 23;  // 0 to 511
    return level < 256 ? level : 511 - level;
  }
};

Stripes stripes_of(base::RandomKey key, std::uint32_t label, std::uint32_t channel,
                   const ImageShape& shape) {
  constexpr std::uint32_t kPeriods = 8;  // at most, along a side
  const std::array<std::uint32_t, 4> words =
      base::philox(key, std::uint64_t{label} << 16 | channel, 0, 0);
  const auto step = [](std::uint32_t word, std::uint32_t side) {
    return static_cast<std::uint32_t>((std::uint64_t{1} << 32) * (word % kPeriods) / side);
  };
  return {words[0], step(words[1], shape.height), step(words[2], shape.width)};
}

}  // namespace

ImageGenerator::ImageGenerator(const ImageShape& shape, std::uint64_t seed)
    : shape_(shape), seed_(seed), pixels_(shape.bytes()) {}

std::span<const std::uint8_t> ImageGenerator::image(std::uint32_t label, std::uint64_t number) {
  const base::RandomKey patterns = base::random_key(seed_, "generated.patterns");
  const base::RandomKey noise = base::random_key(seed_, "generated.noise");
  std::size_t place = 0;
  std::array<std::uint32_t, 4> words{};
  for (std::uint32_t channel = 0; channel < shape_.channels; ++channel) {
    const Stripes stripes = stripes_of(patterns, label, channel, shape_);
    for (std::uint32_t row = 0; row < shape_.height; ++row) {
      for (std::uint32_t column = 0; column < shape_.width; ++column, ++place) {
        // 16 pixels a block, a byte each.
        if (place % 16 == 0) words = base::philox(noise, place / 16, number, 0);
        const std::uint32_t byte = words[place / 4 % 4] >> (place % 4 * 8) & 0xff;
        pixels_[place] = static_cast<std::uint8_t>((stripes.at(row, column) + byte) / 2);
      }
    }
  }
  return pixels_;
}

}  // namespace troupe::data
