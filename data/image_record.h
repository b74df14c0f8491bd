// SPDX-License-Identifier: Apache-2.0
// What an image record holds: MXNet's header (Python struct IfQQ: flag u32, label f32, id u64,
// id2 u64, little-endian), then `flag` further f32 labels when flag > 0, then the image: JPEG, PNG,
// or our raw tensor. Pure functions, any thread.
//
// Raw tensor: 16 bytes {"TRAW", CRC-32C u32, channels u16, height u16, width u16, version u16 = 1},
// then u8 pixels, channel by channel, rows from the top. The checksum covers the whole record
// (labels included) except its own four bytes: RecordIO has none, and a flipped label hurts most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace troupe::data {

/// Longest side of an image, JPEG's limit.
inline constexpr std::uint32_t kImageSideMax = 65535;
/// Longest record in which an image is looked for; one of the most pixels and three channels has
/// room.
inline constexpr std::uint64_t kImageRecordBytesMax = std::uint64_t{256} << 20;

/// Size of an image in dense u8 CHW.
struct ImageShape {
  std::uint32_t channels = 0;
  std::uint32_t height = 0;
  std::uint32_t width = 0;

  std::uint64_t pixels() const { return std::uint64_t{height} * width; }
  std::uint64_t bytes() const { return channels * pixels(); }
  /// "3 x 32 x 32 (channels x height x width)".
  std::string to_string() const;
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// An image record's parts; the spans point into the payload it was read from.
struct ImageRecord {
  std::uint64_t id = 0;
  std::uint64_t id2 = 0;
  std::span<const std::byte> labels;  ///< f32 each, unaligned
  std::span<const std::byte> head;    ///< everything before the image
  std::span<const std::byte> image;

  std::size_t label_count() const { return labels.size() / sizeof(float); }
  float label(std::size_t i) const;
};

/// data_loss (without naming the file) when the header or its labels do not fit.
base::Result<ImageRecord> decode_image_record(std::span<const std::byte> payload);

/// Replaces `out` by a record of header, labels and an encoded image (JPEG or PNG bytes). One label
/// stands in the header, any other number behind it.
void encode_image_record(std::span<const float> labels, std::uint64_t id,
                         std::span<const std::byte> image, std::vector<std::byte>& out);
/// The same with a raw tensor of shape.bytes() pixels; CHECKs the sizes.
void encode_raw_record(std::span<const float> labels, std::uint64_t id, const ImageShape& shape,
                       std::span<const std::uint8_t> pixels, std::vector<std::byte>& out);

/// A raw tensor found behind a record's head.
struct RawImage {
  ImageShape shape;
  std::span<const std::byte> pixels;
};
/// True when the image begins with the raw tensor's mark.
bool is_raw_image(std::span<const std::byte> image);
/// Shape and pixels; data_loss when sizes disagree, version_mismatch for a later version.
base::Result<RawImage> parse_raw_image(std::span<const std::byte> image);
/// data_loss when a raw tensor's checksum does not match its record. Other images pass.
base::Status verify_raw_checksum(const ImageRecord& record);

}  // namespace troupe::data
