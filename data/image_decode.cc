// SPDX-License-Identifier: Apache-2.0
// Wraps libjpeg-turbo and libspng. The size is read from the header and compared before any memory
// is taken for pixels, so a forged header costs nothing.
#include "data/image_decode.h"

#include <spng.h>
#include <turbojpeg.h>

#include <array>
#include <cstring>
#include <string_view>

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;
using base::Status;

namespace {

constexpr std::size_t kChunkBytesMax = std::size_t{1} << 24;  // of one PNG chunk besides pixels
constexpr std::size_t kChunkCacheMax = std::size_t{1} << 25;
// Slow integer arithmetic is the one whose result is fixed; a bound on scans stops forged
// progressive images that take hours.
constexpr int kJpegFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;

const unsigned char* jpeg_bytes(std::span<const std::byte> image) {
  return reinterpret_cast<const unsigned char*>(image.data());
}

void split_channels(std::span<const std::uint8_t> interleaved, std::size_t pixels,
                    std::span<std::uint8_t> out) {
  for (std::size_t i = 0; i < pixels; ++i) {
    out[i] = interleaved[3 * i];
    out[pixels + i] = interleaved[3 * i + 1];
    out[2 * pixels + i] = interleaved[3 * i + 2];
  }
}

}  // namespace

ImageFormat image_format(std::span<const std::byte> image) {
  static constexpr std::array<unsigned char, 8> kPng = {0x89, 'P', 'N', 'G', 13, 10, 26, 10};
  static constexpr std::array<unsigned char, 3> kJpeg = {0xff, 0xd8, 0xff};
  const auto begins = [&](const auto& mark) {
    return image.size() >= mark.size() && std::memcmp(image.data(), mark.data(), mark.size()) == 0;
  };
  if (is_raw_image(image)) return ImageFormat::raw;
  if (begins(kJpeg)) return ImageFormat::jpeg;
  return begins(kPng) ? ImageFormat::png : ImageFormat::unknown;
}

/// A libspng context over one image; contexts cannot be used twice.
struct ImageDecoder::Png {
  Png() : context(spng_ctx_new(0)) {}
  ~Png() { spng_ctx_free(context); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  Status check(int code, std::string_view action) const {
    if (code == 0) return {};
    return error(Errc::data_loss, "PNG: cannot {}: {}", action, spng_strerror(code));
  }

  Status open(std::span<const std::byte> image) {
    if (context == nullptr) return error(Errc::resource_exhausted, "PNG: no memory for a decoder");
    TROUPE_TRY(check(spng_set_image_limits(context, kImageSideMax, kImageSideMax), "set limits"));
    TROUPE_TRY(check(spng_set_chunk_limits(context, kChunkBytesMax, kChunkCacheMax), "set limits"));
    TROUPE_TRY(check(spng_set_png_buffer(context, image.data(), image.size()), "read"));
    return check(spng_get_ihdr(context, &header), "read the header");
  }

  Status decode(std::span<std::uint8_t> out, spng_format format) {
    TROUPE_TRY(check(spng_decode_image(context, out.data(), out.size(), format, 0), "decode"));
    // The library stops behind the last pixel; the checksums stand further on.
    return check(spng_decode_chunks(context), "read to its end");
  }

  bool gray() const {
    return header.color_type == SPNG_COLOR_TYPE_GRAYSCALE ||
           header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
  }
  ImageShape shape() const { return {gray() ? 1U : 3U, header.height, header.width}; }

  spng_ctx* context;
  spng_ihdr header{};
};

ImageDecoder::ImageDecoder() = default;

ImageDecoder::~ImageDecoder() {
  if (jpeg_ != nullptr) tjDestroy(jpeg_);
}

Result<ImageShape> ImageDecoder::shape(std::span<const std::byte> image) {
  switch (image_format(image)) {
    case ImageFormat::raw: {
      TROUPE_TRY_ASSIGN(const RawImage raw, parse_raw_image(image));
      return raw.shape;
    }
    case ImageFormat::jpeg:
      return jpeg_shape(image);
    case ImageFormat::png: {
      Png png;
      TROUPE_TRY(png.open(image));
      return png.shape();
    }
    case ImageFormat::unknown:
      break;
  }
  return error(Errc::data_loss, "{} bytes are neither a raw image nor JPEG nor PNG", image.size());
}

Status check_image_shape(const ImageShape& shape) {
  for (const std::uint32_t extent : {shape.channels, shape.height, shape.width}) {
    if (extent >= 1 && extent <= kImageSideMax) continue;
    return error(Errc::invalid_argument, "images of {}: {} is not from 1 to {}", shape.to_string(),
                 extent, kImageSideMax);
  }
  if (shape.pixels() > kImagePixelsMax) {
    return error(Errc::invalid_argument, "images of {}: {} pixels are more than {}",
                 shape.to_string(), shape.pixels(), kImagePixelsMax);
  }
  constexpr std::uint64_t kHeadsMost = 4096;  // of a record around the image
  constexpr std::uint64_t kBytesMost = kImageRecordBytesMax - kHeadsMost;
  if (shape.bytes() <= kBytesMost) return {};
  return error(Errc::invalid_argument, "images of {}: {} bytes are more than {}", shape.to_string(),
               shape.bytes(), kBytesMost);
}

Status ImageDecoder::decode(std::span<const std::byte> image, const ImageShape& expected,
                            std::span<std::uint8_t> out) {
  TROUPE_CHECK(out.size() == expected.bytes(), "image decoded into memory of another size");
  TROUPE_TRY_ASSIGN(const ImageShape found, shape(image));
  if (found != expected) {
    return error(Errc::invalid_argument, "the image is {}, expected {}", found.to_string(),
                 expected.to_string());
  }
  switch (image_format(image)) {
    case ImageFormat::raw: {
      TROUPE_TRY_ASSIGN(const RawImage raw, parse_raw_image(image));
      if (!out.empty()) std::memcpy(out.data(), raw.pixels.data(), out.size());
      return {};
    }
    case ImageFormat::jpeg:
      return decode_jpeg(image, expected, out);
    default:
      return decode_png(image, expected, out);
  }
}

Result<ImageShape> ImageDecoder::jpeg_shape(std::span<const std::byte> image) {
  if (jpeg_ == nullptr) jpeg_ = tjInitDecompress();
  if (jpeg_ == nullptr) return error(Errc::resource_exhausted, "JPEG: no memory for a decoder");
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(jpeg_, jpeg_bytes(image), image.size(), &width, &height, &subsampling,
                          &colours) != 0) {
    return error(Errc::data_loss, "JPEG: {}", tjGetErrorStr2(jpeg_));
  }
  // A stream of tables alone passes as a header and leaves the size unset.
  if (width <= 0 || height <= 0) return error(Errc::data_loss, "JPEG: holds no image");
  if (colours == TJCS_CMYK || colours == TJCS_YCCK) {
    return error(Errc::unimplemented, "JPEG: images in printing colours (CMYK) are not read");
  }
  return ImageShape{colours == TJCS_GRAY ? 1U : 3U, static_cast<std::uint32_t>(height),
                    static_cast<std::uint32_t>(width)};
}

/// Scans of a progressive image, each of which may touch every pixel: at least as many as there
/// are.
std::size_t count_scans(std::span<const std::byte> image) {
  constexpr std::byte kMarker{0xff}, kStartOfScan{0xda};
  std::size_t scans = 0;
  for (std::size_t i = 0; i + 1 < image.size(); ++i) {
    if (image[i] == kMarker && image[i + 1] == kStartOfScan) ++scans;
  }
  return scans;
}

Status ImageDecoder::decode_jpeg(std::span<const std::byte> image, const ImageShape& shape,
                                 std::span<std::uint8_t> out) {
  constexpr std::uint64_t kPixelsScannedMax = std::uint64_t{1} << 30;
  const std::uint64_t scans = count_scans(image);
  if (scans > 1 && scans * shape.pixels() > kPixelsScannedMax) {
    return error(Errc::data_loss, "JPEG: {} scans of {} pixels are more work than {} pixels", scans,
                 shape.pixels(), kPixelsScannedMax);
  }
  const bool gray = shape.channels == 1;
  if (!gray) interleaved_.resize(shape.bytes());
  unsigned char* pixels = gray ? out.data() : interleaved_.data();
  if (tjDecompress2(jpeg_, jpeg_bytes(image), image.size(), pixels, static_cast<int>(shape.width),
                    0, static_cast<int>(shape.height), gray ? TJPF_GRAY : TJPF_RGB,
                    kJpegFlags) != 0) {
    return error(Errc::data_loss, "JPEG: {}", tjGetErrorStr2(jpeg_));
  }
  if (!gray) split_channels(interleaved_, shape.pixels(), out);
  return {};
}

Status ImageDecoder::decode_png(std::span<const std::byte> image, const ImageShape& shape,
                                std::span<std::uint8_t> out) {
  Png png;
  TROUPE_TRY(png.open(image));
  const bool plain_gray =
      png.header.color_type == SPNG_COLOR_TYPE_GRAYSCALE && png.header.bit_depth <= 8;
  if (plain_gray) return png.decode(out, SPNG_FMT_G8);
  interleaved_.resize(3 * shape.pixels());
  TROUPE_TRY(png.decode(interleaved_, SPNG_FMT_RGB8));
  if (shape.channels == 3) {
    split_channels(interleaved_, shape.pixels(), out);
    return {};
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = interleaved_[3 * i];
  return {};
}

}  // namespace troupe::data
