// SPDX-License-Identifier: Apache-2.0
// Draws and windows.
#include "data/augment.h"

#include <algorithm>

namespace troupe::data {

namespace {

/// A number in [-reach, reach] from a random word.
std::int64_t offset_from(std::uint32_t word, std::uint32_t reach) {
  const std::uint64_t places = 2 * std::uint64_t{reach} + 1;
  return static_cast<std::int64_t>((word * places) >> 32) - reach;
}

}  // namespace

base::Status check_augmentation(const Augmentation& how, const ImageShape& image) {
  const std::uint32_t side = std::min(image.height, image.width);
  if (how.crop_padding < side || how.crop_padding == 0) return {};
  return base::error(base::Errc::invalid_argument,
                     "data.augment.crop_padding is {}, for images of {} at most {} is possible",
                     how.crop_padding, image.to_string(), side == 0 ? 0 : side - 1);
}

Augmenter::Augmenter(const Augmentation& how)
    : how_(how),
      crop_key_(base::random_key(how.seed, "augment/crop")),
      mirror_key_(base::random_key(how.seed, "augment/mirror")) {}

Placement Augmenter::place(std::uint64_t epoch, std::uint64_t record) const {
  Placement placement;
  if (how_.crop_padding > 0) {
    const auto words = base::philox(crop_key_, record, epoch, 0);
    placement.down = offset_from(words[0], how_.crop_padding);
    placement.right = offset_from(words[1], how_.crop_padding);
  }
  if (how_.mirror) placement.mirrored = (base::philox(mirror_key_, record, epoch, 0)[0] >> 31) != 0;
  return placement;
}

void lay_plane(std::span<const std::uint8_t> pixels, const ImageShape& image,
               const Placement& placement, const PixelTable& table, float* out) {
  const auto height = static_cast<std::int64_t>(image.height);
  const auto width = static_cast<std::int64_t>(image.width);
  // The sample's columns [first, last) show the image.
  const std::int64_t first = std::clamp<std::int64_t>(-placement.right, 0, width);
  const std::int64_t last = std::clamp<std::int64_t>(width - placement.right, first, width);
  for (std::int64_t y = 0; y < height; ++y, out += width) {
    const std::int64_t source = y + placement.down;
    if (source < 0 || source >= height) {
      std::fill_n(out, width, table[0]);
      continue;
    }
    const std::uint8_t* row = pixels.data() + source * width;
    std::fill(out, out + first, table[0]);
    for (std::int64_t x = first; x < last; ++x) out[x] = table[row[x + placement.right]];
    std::fill(out + last, out + width, table[0]);
    if (placement.mirrored) std::reverse(out, out + width);
  }
}

}  // namespace troupe::data
