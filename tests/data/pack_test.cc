// SPDX-License-Identifier: Apache-2.0
// Packers: IDX pairs plain and gzip, folders of images, their errors, whole or nothing.
#include "data/pack.h"

#include <sys/stat.h>
#include <zlib.h>

#include <atomic>
#include <fstream>
#include <iterator>

#include "data/dataset.h"
#include "data/idx_file.h"
#include "data/image_decode.h"
#include "tests/data/data_fixtures.h"
#include "tests/data/image_fixtures.h"
#include "tests/support/catch.h"

namespace troupe::data {
namespace {

using base::Errc;
using test::Bytes;
using test::bytes_from_hex;
using test::bytes_of;
using test::TemporaryFolder;
namespace fs = std::filesystem;

void write_gzip(const fs::path& path, const Bytes& bytes) {
  gzFile file = ::gzopen(path.c_str(), "wb");
  REQUIRE(::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(::gzclose(file) == Z_OK);
}

// Three images of 2 x 2 and their labels.
const std::string kImages = "00000803 00000003 00000002 00000002 01020304 05060708 090a0b0c";
const std::string kLabels = "00000801 00000003 020001";

void check_packed(const fs::path& path) {
  const auto dataset = Dataset::open(path);
  REQUIRE(dataset.ok());
  REQUIRE((*dataset)->records() == 3);
  RecordReader reader((*dataset)->file());
  ImageDecoder decoder;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto record = reader.read_at((*dataset)->offset(i));
    REQUIRE(record.ok());
    const auto image = decode_image_record(record->payload);
    REQUIRE(image.ok());
    CHECK(image->id == i);
    CHECK(image->label(0) == std::vector<float>{2, 0, 1}[i]);
    CHECK(verify_raw_checksum(*image).ok());
    std::vector<std::uint8_t> pixels(4);
    REQUIRE(decoder.decode(image->image, {1, 2, 2}, pixels).ok());
    for (std::size_t p = 0; p < 4; ++p) CHECK(pixels[p] == 4 * i + p + 1);
  }
}

TEST_CASE("IDX pairs are packed, plain and compressed, to the same bytes") {
  const TemporaryFolder folder;
  test::write_bytes(folder / "images", bytes_from_hex(kImages));
  test::write_bytes(folder / "labels", bytes_from_hex(kLabels));
  write_gzip(folder / "images.gz", bytes_from_hex(kImages));
  write_gzip(folder / "labels.gz", bytes_from_hex(kLabels));
  IdxPackOptions options;
  options.train = {folder / "images", folder / "labels"};
  options.test = IdxPair{folder / "images.gz", folder / "labels.gz"};
  options.out = folder / "deep/out";
  for (int round = 0; round < 2; ++round) {
    const auto report = pack_idx(options);
    REQUIRE(report.ok());
    REQUIRE(report->files.size() == 2);
    CHECK(report->files[0].records == 3);
    CHECK(report->files[0].classes == 3);
    CHECK(report->files[0].image == ImageShape{1, 2, 2});
    CHECK(report->files[0].bytes == fs::file_size(options.out / "train.rec"));
    CHECK_THAT(report->to_string(), Catch::Contains("test.rec: 3 records of 1 x 2 x 2"));
    check_packed(options.out / "train.rec");
    CHECK(test::read_bytes(options.out / "train.rec") ==
          test::read_bytes(options.out / "test.rec"));
    CHECK(test::read_bytes(options.out / "train.idx") == bytes_of("0\t0\n1\t52\n2\t104\n"));
  }
}

TEST_CASE("damaged IDX files are named and leave an earlier set alone") {
  const TemporaryFolder folder;
  const auto out = folder / "out";
  const auto pack = [&](const std::string& images, const std::string& labels) {
    test::write_bytes(folder / "images", bytes_from_hex(images));
    test::write_bytes(folder / "labels", bytes_from_hex(labels));
    return pack_idx({{folder / "images", folder / "labels"}, std::nullopt, out}).status();
  };
  REQUIRE(pack(kImages, kLabels).ok());
  const Bytes before = test::read_bytes(out / "train.rec");
  const auto check = [&](const base::Status& status, const std::string& text) {
    CHECK_THAT(status.to_string(), Catch::Contains(text));
    CHECK(test::read_bytes(out / "train.rec") == before);
    CHECK(std::distance(fs::directory_iterator(out), {}) == 2);
  };
  check(pack(kImages.substr(0, kImages.size() - 4), kLabels), "images: truncated in item 2 of 3");
  check(pack(kImages + "00", kLabels), "images: holds more than the 3 items");
  check(pack(kImages, "00000801 00000002 0200"), "holds 3 images but");
  check(pack("00000801 00000003 020001", kLabels), "images need 3 (count, height, width)");
  check(pack("00000d03" + kImages.substr(8), kLabels), "images: holds values of type 13, not u8");
  check(pack("1f8c0803", kLabels), "images: is no IDX file: begins with 1f 8c");
  check(pack("0000", kLabels), "images: truncated in its header");
  check(pack("00000803 ffffffff ffffffff ffffffff", kLabels), "larger than the limit");
  check(pack("00000803 00000003 00000000 00000002", kLabels), "is not from 1 to 65535");
  check(pack("00000803 00000000 00000002 00000002", "00000801 00000000"), "holds no images");
  const std::string many = "00000801 20000000", most = "00000801 10000000";
  check(pack("00000803 20000000 00000001 00000001", many), "images; the limit is 268435456");
  check(pack("00000803 10000000 00002000 00002000", most), ": the images take ");
  fs::remove(folder / "images");
  REQUIRE(::mkfifo((folder / "images").c_str(), 0600) == 0);  // nobody writes into it
  check(pack_idx({{folder / "images", folder / "labels"}, std::nullopt, out}).status(),
        "images: is no regular file");
  const base::Status missing =
      pack_idx({{folder / "none", folder / "labels"}, std::nullopt, out}).status();
  CHECK(missing.code() == Errc::not_found);
  CHECK_THAT(missing.text(), Catch::Contains("none: cannot open"));
}

TEST_CASE("an index that cannot be written leaves an earlier set alone") {
  const TemporaryFolder folder;
  const auto out = folder / "out";
  test::write_bytes(folder / "images", bytes_from_hex(kImages));
  test::write_bytes(folder / "labels", bytes_from_hex(kLabels));
  const IdxPair pair{folder / "images", folder / "labels"};
  REQUIRE(pack_idx({pair, pair, out}).ok());
  fs::remove(out / "test.idx");
  fs::create_directory(out / "test.idx");
  const auto before = fs::last_write_time(out / "train.rec");
  CHECK_THAT(pack_idx({pair, pair, out}).status().text(),
             Catch::Contains("test.idx: is no regular file and is not replaced"));
  CHECK(fs::last_write_time(out / "train.rec") == before);
  CHECK(fs::exists(out / "train.idx"));
}

TEST_CASE("a cut compressed stream is damage") {
  const TemporaryFolder folder;
  Bytes large = bytes_from_hex("00000803 00000400 00000010 00000010");
  for (std::uint32_t i = 0; i < 1024 * 256; ++i) {
    large.push_back(static_cast<std::byte>(i * i >> 7));
  }
  write_gzip(folder / "images", large);
  Bytes cut = test::read_bytes(folder / "images");
  cut.resize(cut.size() / 2);
  test::write_bytes(folder / "images", cut);
  auto file = IdxFile::open(folder / "images");
  REQUIRE(file.ok());
  std::vector<std::uint8_t> item(256);
  base::Status status;
  for (int i = 0; i < 1024 && status.ok(); ++i) status = file->read_item(item);
  CHECK(status.code() == Errc::data_loss);
  CHECK_THAT(status.text(), Catch::Contains("images: truncated in item"));
}

TEST_CASE("Fashion-MNIST, where it is installed, packs to 60,000 and 10,000 images") {
  const TemporaryFolder folder;
  const auto none = pack_fashion_mnist(folder / "none", folder / "out");
  CHECK(none.status().code() == Errc::not_found);
  CHECK_THAT(none.status().text(), Catch::Contains("dataset-fashion-mnist"));
  if (!fs::exists(kFashionMnistFolder)) return;
  const auto report = pack_fashion_mnist(kFashionMnistFolder, folder / "out");
  REQUIRE(report.ok());
  CHECK(report->files[0].records == 60000);
  CHECK(report->files[1].records == 10000);
  CHECK(report->files[1].image == ImageShape{1, 28, 28});
  CHECK(report->files[1].classes == 10);
  const auto dataset = Dataset::open(folder / "out/test.rec");
  REQUIRE(dataset.ok());
  CHECK((*dataset)->records() == 10000);
}

TEST_CASE("folders of images by class are packed raw or as they are") {
  const TemporaryFolder folder;
  const ImageShape shape{3, 4, 8};
  const std::vector<std::uint8_t> light(shape.bytes(), 200);
  const std::vector<std::uint8_t> dark(shape.bytes(), 20);
  for (const char* name : {"train/b cat", "train/a dog", "test/b cat"}) {
    fs::create_directories(folder / name);
  }
  test::write_bytes(folder / "train/b cat/2.png", test::encode_png(dark, shape));
  test::write_bytes(folder / "train/b cat/1.jpg", test::encode_jpeg(light, shape));
  test::write_bytes(folder / "train/a dog/x.png", test::encode_png(light, shape));
  test::write_bytes(folder / "train/a dog/.hidden", bytes_of("no image"));
  test::write_bytes(folder / "test/b cat/z.png", test::encode_png(dark, shape));
  FolderPackOptions options{folder / "train", folder / "test", folder / "out"};

  for (const bool keep : {false, true}) {
    options.keep_encoded = keep;
    const auto report = pack_images(options);
    REQUIRE(report.ok());
    CHECK(report->files[0].records == 3);
    CHECK(report->files[0].classes == 2);
    CHECK(report->files[1].records == 1);
    CHECK(test::read_bytes(folder / "out/classes.txt") == bytes_of("a dog\nb cat\n"));
    const auto dataset = Dataset::open(folder / "out/train.rec");
    REQUIRE(dataset.ok());
    RecordReader reader((*dataset)->file());
    ImageDecoder decoder;
    std::vector<std::uint8_t> pixels(shape.bytes());
    const std::vector<float> labels = {0, 1, 1};
    const std::vector<int> values = {200, 200, 20};
    const std::vector<ImageFormat> formats = {ImageFormat::png, ImageFormat::jpeg,
                                              ImageFormat::png};
    for (std::uint64_t i = 0; i < 3; ++i) {
      const auto record = reader.read_at((*dataset)->offset(i));
      REQUIRE(record.ok());
      const auto image = decode_image_record(record->payload);
      REQUIRE(image.ok());
      CHECK(image->label(0) == labels[i]);
      CHECK(image_format(image->image) == (keep ? formats[i] : ImageFormat::raw));
      REQUIRE(decoder.decode(image->image, shape, pixels).ok());
      CHECK(std::abs(pixels[5] - values[i]) <= 2);
    }
  }
}

TEST_CASE("a class that is a link to nowhere is refused, and no class stays beside another set") {
  const TemporaryFolder folder;
  const ImageShape shape{1, 4, 4};
  for (const char* name : {"a", "c"}) {
    fs::create_directories(folder / "train" / name);
    test::write_bytes(folder / "train" / name / "1.png",
                      test::encode_png(std::vector<std::uint8_t>(shape.bytes(), 9), shape));
  }
  const FolderPackOptions options{folder / "train", {}, folder / "out"};
  REQUIRE(pack_images(options).ok());
  fs::create_directory_symlink("/nowhere/b", folder / "train/b");
  const auto status = pack_images(options).status();
  CHECK(status.code() == base::Errc::not_found);
  CHECK_THAT(status.text(), Catch::Contains("train/b: cannot open"));
  CHECK(fs::exists(folder / "out/classes.txt"));
  GeneratedPackOptions generated;
  generated.image = shape;
  generated.classes = generated.train = 1;
  generated.test = 0;
  generated.out = folder / "out";
  REQUIRE(pack_generated(generated).ok());
  CHECK_FALSE(fs::exists(folder / "out/classes.txt"));
}

TEST_CASE("a packer that is stopped leaves what was there, and nothing else") {
  const TemporaryFolder folder;
  std::atomic<bool> stop{false};
  GeneratedPackOptions options;
  options.image = {1, 4, 4};
  options.classes = options.train = options.test = 2;
  options.out = folder / "out";
  options.stop = &stop;
  REQUIRE(pack_generated(options).ok());
  const auto before = test::read_bytes(options.out / "train.rec");
  const auto files = [&] {
    return std::distance(fs::directory_iterator(options.out), fs::directory_iterator());
  };
  const auto count = files();
  stop = true;
  options.seed = 8;
  CHECK(pack_generated(options).status().code() == base::Errc::cancelled);
  CHECK(files() == count);
  CHECK(test::read_bytes(options.out / "train.rec") == before);
}

TEST_CASE("a folder with a wrong image, class or nothing is refused by name") {
  const TemporaryFolder folder;
  const auto pack = [&] {
    return pack_images({folder / "train", folder / "test", folder / "out"}).status();
  };
  CHECK(pack().code() == Errc::not_found);
  fs::create_directories(folder / "train");
  fs::create_directories(folder / "test");
  CHECK_THAT(pack().text(), Catch::Contains("train: has no sub-folders"));
  fs::create_directories(folder / "train/a/deeper");
  CHECK_THAT(pack().text(), Catch::Contains("train/a/deeper: a folder within a class"));
  fs::remove(folder / "train/a/deeper");
  CHECK_THAT(pack().text(), Catch::Contains("train: no image in it"));
  const ImageShape shape{1, 4, 8};
  const std::vector<std::uint8_t> pixels(64, 9);
  test::write_bytes(folder / "train/a/1.png", test::encode_png(std::span(pixels).first(32), shape));
  CHECK_THAT(pack().text(), Catch::Contains("test: no image in it"));
  fs::create_directories(folder / "test/a");
  CHECK_THAT(pack().text(), Catch::Contains("test: no image in it"));
  fs::copy(folder / "train/a/1.png", folder / "test/a/1.png");
  REQUIRE(pack().ok());
  test::write_bytes(folder / "train/a/2.png", test::encode_png(pixels, {1, 8, 8}));
  CHECK_THAT(pack().text(), Catch::Contains("train/a/2.png: the image is 1 x 8 x 8") &&
                                Catch::Contains("expected 1 x 4 x 8"));
  test::write_bytes(folder / "train/a/2.png", bytes_of("text"));
  CHECK_THAT(pack().text(), Catch::Contains("2.png: 4 bytes are neither a raw image nor JPEG"));
  fs::remove(folder / "train/a/2.png");
  fs::create_directories(folder / "test/zebra");
  CHECK_THAT(pack().text(), Catch::Contains("zebra: ") && Catch::Contains("has no such class"));
}

}  // namespace
}  // namespace troupe::data
