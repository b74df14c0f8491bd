// SPDX-License-Identifier: Apache-2.0
// Augmentation: how the image of a record is moved and mirrored when it becomes a training sample.
// A function of (seed, purpose, epoch, record) alone: not of threads, ranks, steps or restarts.
// Pure values and functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/random.h"
#include "base/status.h"
#include "data/image_record.h"

namespace troupe::data {

/// What is done to the images of training. By default nothing.
struct Augmentation {
  /// The image gets so many pixels of value 0 on each side, and the sample is a window of the
  /// image's own size at a random place of that.
  std::uint32_t crop_padding = 0;
  bool mirror = false;     ///< left and right change places in half of the samples
  std::uint64_t seed = 0;  ///< of the job

  friend bool operator==(const Augmentation&, const Augmentation&) = default;
};

/// invalid_argument for a padding of which a window could be all that there is.
base::Status check_augmentation(const Augmentation& how, const ImageShape& image);

/// Where an image lies in its sample: before mirroring, pixel (y, x) of the sample is pixel
/// (y + down, x + right) of the image, and 0 outside of it.
struct Placement {
  std::int64_t down = 0;
  std::int64_t right = 0;
  bool mirrored = false;
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Draws placements.
class Augmenter {
 public:
  explicit Augmenter(const Augmentation& how);
  /// Of a record in an epoch. All values are equally likely, but for less than 2^-15 of each.
  Placement place(std::uint64_t epoch, std::uint64_t record) const;

 private:
  Augmentation how_;
  base::RandomKey crop_key_, mirror_key_;
};

/// What each of the 256 values of a pixel becomes.
using PixelTable = std::array<float, 256>;

/// One channel of a sample: `pixels` and `out` have height x width elements, row-major.
void lay_plane(std::span<const std::uint8_t> pixels, const ImageShape& image,
               const Placement& placement, const PixelTable& table, float* out);

}  // namespace troupe::data
