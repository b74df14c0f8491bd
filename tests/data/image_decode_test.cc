// SPDX-License-Identifier: Apache-2.0
// Image records: header bytes by hand, the raw tensor and its checksum, JPEG and PNG, damage.
#include "data/image_decode.h"

#include <cstring>
#include <random>

#include "tests/data/data_fixtures.h"
#include "tests/data/image_fixtures.h"
#include "tests/support/catch.h"

namespace troupe::data {
namespace {

using base::Errc;
using test::Bytes;
using test::bytes_from_hex;
using test::bytes_of;
using test::encode_jpeg;
using test::encode_png;
using Pixels = std::vector<std::uint8_t>;

TEST_CASE("image headers equal the bytes worked out by hand") {
  Bytes out;
  const std::vector<float> one = {3.0F};
  encode_image_record(one, 258, bytes_of("img"), out);
  CHECK(out == bytes_from_hex("00000000 00004040 0201000000000000 0000000000000000 696d67"));
  auto record = decode_image_record(out);
  REQUIRE(record.ok());
  CHECK(record->id == 258);
  REQUIRE(record->label_count() == 1);
  CHECK(record->label(0) == 3.0F);
  CHECK(Bytes(record->image.begin(), record->image.end()) == bytes_of("img"));

  const std::vector<float> two = {1.0F, -2.0F};
  encode_image_record(two, 1, bytes_of("img"), out);
  CHECK(out == bytes_from_hex("02000000 00000000 0100000000000000 0000000000000000"
                              "0000803f 000000c0 696d67"));
  record = decode_image_record(out);
  REQUIRE(record.ok());
  REQUIRE(record->label_count() == 2);
  CHECK(record->label(0) == 1.0F);
  CHECK(record->label(1) == -2.0F);
  CHECK(record->image.size() == 3);
}

TEST_CASE("image headers that do not fit are refused") {
  CHECK(decode_image_record({}).status().code() == Errc::data_loss);
  CHECK(decode_image_record(Bytes(23)).status().code() == Errc::data_loss);
  Bytes bytes(28);
  bytes[0] = std::byte{2};
  const auto labels = decode_image_record(bytes);
  CHECK(labels.status().code() == Errc::data_loss);
  CHECK_THAT(labels.status().text(), Catch::Contains("announces 2 labels, only 4 bytes follow"));
  for (int i = 0; i < 4; ++i) bytes[i] = std::byte{0xff};
  CHECK(decode_image_record(bytes).status().code() == Errc::data_loss);
}

TEST_CASE("raw images come back, and any flipped bit of their record is found") {
  const ImageShape shape{2, 3, 4};
  Pixels pixels(24);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 11);
  Bytes out;
  const float label = 5.0F;
  encode_raw_record({&label, 1}, 9, shape, pixels, out);
  REQUIRE(out.size() == 24 + 16 + 24);

  ImageDecoder decoder;
  const auto record = decode_image_record(out);
  REQUIRE(record.ok());
  CHECK(*decoder.shape(record->image) == shape);
  CHECK(verify_raw_checksum(*record).ok());
  Pixels found(24);
  REQUIRE(decoder.decode(record->image, shape, found).ok());
  CHECK(found == pixels);

  for (std::size_t bit = 0; bit < out.size() * 8; ++bit) {
    Bytes damaged = out;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto flipped = decode_image_record(damaged);
    if (!flipped.ok()) continue;
    const bool passes =
        verify_raw_checksum(*flipped).ok() && decoder.decode(flipped->image, shape, found).ok();
    INFO("bit " << bit);
    CHECK_FALSE(passes);
  }
}

TEST_CASE("PNG decodes to the very pixels, gray and colour") {
  ImageDecoder decoder;
  for (const ImageShape shape : {ImageShape{1, 5, 7}, ImageShape{3, 6, 4}}) {
    Pixels pixels(shape.bytes());
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
    const Bytes png = encode_png(pixels, shape);
    CHECK(image_format(png) == ImageFormat::png);
    CHECK(*decoder.shape(png) == shape);
    Pixels found(shape.bytes());
    REQUIRE(decoder.decode(png, shape, found).ok());
    CHECK(found == pixels);
  }
}

TEST_CASE("JPEG decodes to nearly the pixels, gray and colour") {
  ImageDecoder decoder;
  for (const ImageShape shape : {ImageShape{1, 16, 24}, ImageShape{3, 24, 16}}) {
    Pixels pixels(shape.bytes());
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const std::size_t channel = i / shape.pixels();
      pixels[i] = static_cast<std::uint8_t>(60 + 50 * channel + i % shape.width);
    }
    const Bytes jpeg = encode_jpeg(pixels, shape);
    CHECK(image_format(jpeg) == ImageFormat::jpeg);
    CHECK(*decoder.shape(jpeg) == shape);
    Pixels found(shape.bytes());
    REQUIRE(decoder.decode(jpeg, shape, found).ok());
    for (std::size_t i = 0; i < pixels.size(); ++i) CHECK(std::abs(found[i] - pixels[i]) <= 6);
  }
}

TEST_CASE("a JPEG of many scans of many pixels is refused before it is decoded") {
  ImageDecoder decoder;
  const ImageShape shape{1, 4096, 4096};
  Bytes jpeg = encode_jpeg(Pixels(shape.bytes()), shape);
  Pixels found(shape.bytes());
  CHECK(decoder.decode(jpeg, shape, found).ok());
  const std::array scan = {std::byte{0xff}, std::byte{0xda}};
  for (int i = 0; i < 64; ++i) jpeg.insert(jpeg.end(), scan.begin(), scan.end());
  const auto status = decoder.decode(jpeg, shape, found);
  CHECK(status.code() == base::Errc::data_loss);
  CHECK_THAT(status.text(), Catch::Contains("65 scans of 16777216 pixels"));
}

TEST_CASE("another size is an error that names both") {
  ImageDecoder decoder;
  const ImageShape expected{1, 28, 28};
  Pixels out(expected.bytes());
  const ImageShape shape{3, 8, 8};
  const Pixels pixels(shape.bytes(), 100);
  Bytes raw;
  encode_raw_record({}, 0, shape, pixels, raw);
  const Bytes raw_image(raw.begin() + 24, raw.end());
  for (const Bytes& image : {raw_image, encode_png(pixels, shape), encode_jpeg(pixels, shape)}) {
    const auto status = decoder.decode(image, expected, out);
    CHECK(status.code() == Errc::invalid_argument);
    CHECK_THAT(status.text(), Catch::Contains("the image is 3 x 8 x 8") &&
                                  Catch::Contains("expected 1 x 28 x 28"));
  }
}

TEST_CASE("truncated, mutated and random images never crash and never read as whole") {
  ImageDecoder decoder;
  const ImageShape shape{3, 20, 20};
  Pixels pixels(shape.bytes());
  std::mt19937 random(11);
  for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(random());
  Pixels out(shape.bytes());
  const Bytes png = encode_png(pixels, shape);
  const Bytes jpeg = encode_jpeg(pixels, shape);
  for (const Bytes* image : {&png, &jpeg}) {
    for (std::size_t cut = 0; cut + 16 < image->size(); cut += 13) {
      const Bytes part(image->begin(), image->begin() + static_cast<std::ptrdiff_t>(cut));
      INFO((image == &png ? "PNG" : "JPEG") << " cut at " << cut);
      CHECK(decoder.decode(part, shape, out).code() == Errc::data_loss);
    }
    for (int round = 0; round < 300; ++round) {
      Bytes mutated = *image;
      for (int i = 0; i < 3; ++i) {
        mutated[random() % mutated.size()] = static_cast<std::byte>(random());
      }
      (void)decoder.decode(mutated, shape, out);
    }
  }
  for (int round = 0; round < 200; ++round) {
    Bytes noise(random() % 100);
    for (auto& byte : noise) byte = static_cast<std::byte>(random());
    CHECK_FALSE(decoder.decode(noise, shape, out).ok());
  }
  CHECK(decoder.decode({}, shape, out).code() == Errc::data_loss);
}

}  // namespace
}  // namespace troupe::data
