// SPDX-License-Identifier: Apache-2.0
// Pixels of an image record's payload: raw tensor, JPEG (libjpeg-turbo) or PNG (libspng), told
// apart by their first bytes, as u8 CHW. A decoder belongs to one thread at a time and keeps its
// working memory. Gray images have one channel, colour images three; transparency is dropped.
// An image that a library decodes only with a warning counts as damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "data/image_record.h"

namespace troupe::data {

/// Most pixels of an image (64 million); each extent is at most kImageSideMax.
inline constexpr std::uint64_t kImagePixelsMax = std::uint64_t{1} << 26;

/// invalid_argument naming the extent or the number of pixels of a shape that no image may have.
base::Status check_image_shape(const ImageShape& shape);

/// How the bytes of an image are to be read.
enum class ImageFormat : std::uint8_t { unknown, raw, jpeg, png };

/// By the first bytes alone.
ImageFormat image_format(std::span<const std::byte> image);

/// Decodes images one after the other. Errors do not name the file; the caller knows it.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  /// Size from the header, without decoding. data_loss for unknown or damaged images.
  base::Result<ImageShape> shape(std::span<const std::byte> image);
  /// Pixels into `out` (expected.bytes() long, CHECKed). invalid_argument naming both sizes when
  /// the image has another one; data_loss when it is damaged.
  base::Status decode(std::span<const std::byte> image, const ImageShape& expected,
                      std::span<std::uint8_t> out);

 private:
  struct Png;
  base::Result<ImageShape> jpeg_shape(std::span<const std::byte> image);
  base::Status decode_jpeg(std::span<const std::byte> image, const ImageShape& shape,
                           std::span<std::uint8_t> out);
  base::Status decode_png(std::span<const std::byte> image, const ImageShape& shape,
                          std::span<std::uint8_t> out);

  void* jpeg_ = nullptr;  // tjhandle
  std::vector<std::uint8_t> interleaved_;
};

}  // namespace troupe::data
