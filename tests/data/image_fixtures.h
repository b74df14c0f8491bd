// SPDX-License-Identifier: Apache-2.0
// Encoded images for the tests of data/, made with the libraries' own encoders.
#pragma once

#include <spng.h>
#include <turbojpeg.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "data/image_record.h"
#include "tests/support/catch.h"

namespace troupe::data::test {

/// CHW to HWC.
inline std::vector<std::uint8_t> interleave(std::span<const std::uint8_t> chw,
                                            const ImageShape& shape) {
  std::vector<std::uint8_t> hwc(chw.size());
  for (std::size_t c = 0; c < shape.channels; ++c) {
    for (std::size_t i = 0; i < shape.pixels(); ++i) {
      hwc[i * shape.channels + c] = chw[c * shape.pixels() + i];
    }
  }
  return hwc;
}

inline std::vector<std::byte> encode_png(std::span<const std::uint8_t> chw,
                                         const ImageShape& shape) {
  const auto hwc = interleave(chw, shape);
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr header{};
  header.width = shape.width;
  header.height = shape.height;
  header.bit_depth = 8;
  header.color_type = shape.channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR;
  REQUIRE(spng_set_ihdr(context, &header) == 0);
  REQUIRE(spng_encode_image(context, hwc.data(), hwc.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE) ==
          0);
  std::size_t size = 0;
  int problem = 0;
  void* bytes = spng_get_png_buffer(context, &size, &problem);
  REQUIRE(bytes != nullptr);
  const auto* begin = static_cast<const std::byte*>(bytes);
  std::vector<std::byte> out(begin, begin + size);
  std::free(bytes);
  spng_ctx_free(context);
  return out;
}

inline std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> chw,
                                          const ImageShape& shape) {
  const auto hwc = interleave(chw, shape);
  tjhandle handle = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const bool gray = shape.channels == 1;
  REQUIRE(tjCompress2(handle, hwc.data(), static_cast<int>(shape.width), 0,
                      static_cast<int>(shape.height), gray ? TJPF_GRAY : TJPF_RGB, &bytes, &size,
                      gray ? TJSAMP_GRAY : TJSAMP_444, 95, 0) == 0);
  const auto* begin = reinterpret_cast<const std::byte*>(bytes);
  std::vector<std::byte> out(begin, begin + size);
  tjFree(bytes);
  tjDestroy(handle);
  return out;
}

}  // namespace troupe::data::test
