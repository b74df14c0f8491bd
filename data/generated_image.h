// SPDX-License-Identifier: Apache-2.0
// Images that no camera took, for measuring and trying where no data set is at hand: each class has
// a pattern of stripes per channel, each image noise over it. Whole numbers only, so the same
// arguments give the same bytes on every machine. Pure; one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/image_record.h"

namespace troupe::data {

/// Makes images of one shape.
class ImageGenerator {
 public:
  /// `shape` has at least one pixel.
  ImageGenerator(const ImageShape& shape, std::uint64_t seed);

  /// Image `number` of class `label`, u8 CHW, until the next call.
  std::span<const std::uint8_t> image(std::uint32_t label, std::uint64_t number);

 private:
  ImageShape shape_;
  std::uint64_t seed_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace troupe::data
