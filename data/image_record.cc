// SPDX-License-Identifier: Apache-2.0
// Coding of image records and of the raw tensor.
#include "data/image_record.h"

#include <fmt/core.h>

#include <cstring>

#include "base/hash.h"
#include "data/bytes.h"

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;
using base::Status;

namespace {

constexpr std::size_t kHeaderBytes = 24;
constexpr std::uint32_t kRawMark = 0x57415254;  // "TRAW"
constexpr std::uint16_t kRawVersion = 1;
constexpr std::size_t kRawHeaderBytes = 16;
constexpr std::size_t kRawChecksumOffset = 4;

// Checksum of a record: `head`, the raw header without the checksum's own bytes, the pixels.
std::uint32_t raw_checksum(std::span<const std::byte> head, std::span<const std::byte> image) {
  std::uint32_t sum = base::crc32c(head);
  sum = base::crc32c(image.first(kRawChecksumOffset), sum);
  return base::crc32c(image.subspan(kRawChecksumOffset + sizeof(sum)), sum);
}

void encode_head(std::span<const float> labels, std::uint64_t id, std::vector<std::byte>& out) {
  out.clear();
  const bool inside = labels.size() == 1;
  store(out, inside ? std::uint32_t{0} : static_cast<std::uint32_t>(labels.size()));
  store(out, inside ? labels[0] : 0.0F);
  store(out, id);
  store(out, std::uint64_t{0});
  if (inside) return;
  for (const float label : labels) store(out, label);
}

}  // namespace

std::string ImageShape::to_string() const {
  return fmt::format("{} x {} x {} (channels x height x width)", channels, height, width);
}

float ImageRecord::label(std::size_t i) const {
  return load<float>(labels, i * sizeof(float));
}

Result<ImageRecord> decode_image_record(std::span<const std::byte> payload) {
  if (payload.size() < kHeaderBytes) {
    return error(Errc::data_loss, "{} bytes are too few for an image header of {}", payload.size(),
                 kHeaderBytes);
  }
  ImageRecord record;
  const auto flag = load<std::uint32_t>(payload, 0);
  record.id = load<std::uint64_t>(payload, 8);
  record.id2 = load<std::uint64_t>(payload, 16);
  if (flag == 0) {
    record.labels = payload.subspan(4, sizeof(float));
    record.head = payload.first(kHeaderBytes);
    record.image = payload.subspan(kHeaderBytes);
    return record;
  }
  const std::uint64_t label_bytes = std::uint64_t{flag} * sizeof(float);
  if (label_bytes > payload.size() - kHeaderBytes) {
    return error(Errc::data_loss, "the image header announces {} labels, only {} bytes follow",
                 flag, payload.size() - kHeaderBytes);
  }
  record.labels = payload.subspan(kHeaderBytes, label_bytes);
  record.head = payload.first(kHeaderBytes + label_bytes);
  record.image = payload.subspan(kHeaderBytes + label_bytes);
  return record;
}

void encode_image_record(std::span<const float> labels, std::uint64_t id,
                         std::span<const std::byte> image, std::vector<std::byte>& out) {
  encode_head(labels, id, out);
  out.insert(out.end(), image.begin(), image.end());
}

void encode_raw_record(std::span<const float> labels, std::uint64_t id, const ImageShape& shape,
                       std::span<const std::uint8_t> pixels, std::vector<std::byte>& out) {
  TROUPE_CHECK(shape.channels <= kImageSideMax && shape.height <= kImageSideMax &&
                   shape.width <= kImageSideMax && pixels.size() == shape.bytes(),
               "raw image of another size than its shape");
  encode_head(labels, id, out);
  const std::size_t head = out.size();
  store(out, kRawMark);
  store(out, std::uint32_t{0});
  store(out, static_cast<std::uint16_t>(shape.channels));
  store(out, static_cast<std::uint16_t>(shape.height));
  store(out, static_cast<std::uint16_t>(shape.width));
  store(out, kRawVersion);
  const auto bytes = std::as_bytes(pixels);
  out.insert(out.end(), bytes.begin(), bytes.end());
  const std::span<const std::byte> all(out);
  const std::uint32_t sum = raw_checksum(all.first(head), all.subspan(head));
  std::memcpy(out.data() + head + kRawChecksumOffset, &sum, sizeof(sum));
}

bool is_raw_image(std::span<const std::byte> image) {
  return image.size() >= sizeof(kRawMark) && load<std::uint32_t>(image, 0) == kRawMark;
}

Result<RawImage> parse_raw_image(std::span<const std::byte> image) {
  if (!is_raw_image(image) || image.size() < kRawHeaderBytes) {
    return error(Errc::data_loss, "{} bytes do not begin with the header of a raw image",
                 image.size());
  }
  const auto version = load<std::uint16_t>(image, 14);
  if (version != kRawVersion) {
    return error(Errc::version_mismatch, "raw image of version {}, this program reads {}", version,
                 kRawVersion);
  }
  const ImageShape shape{load<std::uint16_t>(image, 8), load<std::uint16_t>(image, 10),
                         load<std::uint16_t>(image, 12)};
  const auto pixels = image.subspan(kRawHeaderBytes);
  if (pixels.size() != shape.bytes()) {
    return error(Errc::data_loss, "raw image of {} has {} bytes of pixels", shape.to_string(),
                 pixels.size());
  }
  return RawImage{shape, pixels};
}

Status verify_raw_checksum(const ImageRecord& record) {
  if (!is_raw_image(record.image)) return {};
  if (record.image.size() < kRawHeaderBytes) {
    return error(Errc::data_loss, "raw image of {} bytes has no whole header", record.image.size());
  }
  const auto stored = load<std::uint32_t>(record.image, kRawChecksumOffset);
  const std::uint32_t found = raw_checksum(record.head, record.image);
  if (stored == found) return {};
  return error(Errc::data_loss, "checksum {:#010x} does not match the stored {:#010x}", found,
               stored);
}

}  // namespace troupe::data
