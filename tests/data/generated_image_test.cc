// SPDX-License-Identifier: Apache-2.0
// Generated images: the same bytes each time, alike within a class, and what packs of them hold.
#include "data/generated_image.h"

#include <cstdlib>
#include <vector>

#include "data/dataset.h"
#include "data/pack.h"
#include "data/record_file.h"
#include "tests/data/data_fixtures.h"
#include "tests/support/catch.h"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using base::Errc;

std::vector<std::uint8_t> copy_of(std::span<const std::uint8_t> pixels) {
  return {pixels.begin(), pixels.end()};
}

/// Mean distance of two images' pixels.
double distance(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(int(a[i]) - int(b[i]));
  return sum / double(a.size());
}

TEST_CASE("a generated image follows from seed, class and number") {
  ImageGenerator one({3, 33, 40}, 7), two({3, 33, 40}, 7), other({3, 33, 40}, 8);
  const auto image = copy_of(one.image(5, 11));
  CHECK(one.image(4, 11).size() == 3 * 33 * 40);
  CHECK(copy_of(two.image(5, 11)) == image);
  CHECK(copy_of(one.image(5, 11)) == image);
  CHECK(copy_of(one.image(5, 12)) != image);
  CHECK(copy_of(other.image(5, 11)) != image);
}

TEST_CASE("images of a class are nearer to each other than to another class") {
  ImageGenerator generator({3, 24, 24}, 7);
  for (std::uint32_t label = 0; label < 20; ++label) {
    const auto image = copy_of(generator.image(label, 1));
    const double same = distance(image, copy_of(generator.image(label, 2)));
    CHECK(same > 20.0);  // the noise of both: a third of half its range
    for (std::uint32_t than = 0; than < 20; ++than) {
      if (than == label) continue;
      INFO(label << " and " << than);
      CHECK(distance(image, copy_of(generator.image(than, 3))) > same + 5.0);
    }
  }
}

TEST_CASE("generated images are packed by number, with the labels in turn") {
  const test::TemporaryFolder folder;
  GeneratedPackOptions options;
  options.image = {1, 6, 5};
  options.classes = 3;
  options.train = 7;
  options.test = 4;
  options.out = folder / "out";
  const auto report = pack_generated(options);
  REQUIRE(report.ok());
  REQUIRE(report->files.size() == 2);
  CHECK(report->files[0].records == 7);
  CHECK(report->files[0].classes == 3);
  CHECK(report->files[0].image == options.image);
  CHECK(report->files[1].records == 4);
  const auto dataset = Dataset::open(folder / "out/test.rec");
  REQUIRE(dataset.ok());
  RecordReader reader((*dataset)->file());
  ImageGenerator generator(options.image, options.seed);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto record = reader.read_at((*dataset)->offset(i));
    REQUIRE(record.ok());
    const auto image = decode_image_record(record->payload);
    REQUIRE(image.ok());
    CHECK(image->label(0) == float(i % 3));
    const auto raw = parse_raw_image(image->image);
    REQUIRE(raw.ok());
    const auto expected = generator.image(std::uint32_t(i % 3), 7 + i);
    CHECK(std::equal(expected.begin(), expected.end(), raw->pixels.begin(),
                     [](std::uint8_t a, std::byte b) { return std::byte{a} == b; }));
  }
  const auto before = test::read_bytes(folder / "out/train.rec");
  REQUIRE(pack_generated(options).ok());
  CHECK(test::read_bytes(folder / "out/train.rec") == before);
}

TEST_CASE("numbers of images that cannot be made are named") {
  const test::TemporaryFolder folder;
  const auto refused = [&](auto change) {
    GeneratedPackOptions options;
    options.out = folder / "out";
    change(options);
    const base::Status status = pack_generated(options).status();
    CHECK(status.code() == Errc::invalid_argument);
    return status.text();
  };
  CHECK_THAT(refused([](auto& o) {
               o.image = {3, 0, 4};
             }),
             Catch::Contains("3 x 0 x 4") && Catch::Contains(": 0 is not from 1 to 65535"));
  CHECK_THAT(refused([](auto& o) {
               o.image = {70000, 1, 1};
             }),
             Catch::Contains(": 70000 is not from 1"));
  CHECK_THAT(refused([](auto& o) {
               o.image = {1, 1, 65536};
             }),
             Catch::Contains(": 65536 is not from 1"));
  CHECK_THAT(refused([](auto& o) {
               o.image = {1, 16384, 16384};
             }),
             Catch::Contains("268435456 pixels are more than 67108864"));
  CHECK_THAT(refused([](auto& o) { o.classes = 0; }), Catch::Contains("classes is 0"));
  CHECK_THAT(refused([](auto& o) { o.classes = 1U << 25; }), Catch::Contains("33554432"));
  CHECK_THAT(refused([](auto& o) { o.train = 0; }), Catch::Contains("0 training"));
  CHECK_THAT(refused([](auto& o) { o.test = ~std::uint64_t{0}; }), Catch::Contains("test images"));
  CHECK_FALSE(fs::exists(folder / "out"));
  GeneratedPackOptions large;
  large.out = folder / "out";
  large.image = {3, 8000, 8000};
  large.train = kPackedMax;
  const base::Status room = pack_generated(large).status();
  CHECK(room.code() == Errc::resource_exhausted);
  CHECK_THAT(room.text(), Catch::Contains("the images take") && Catch::Contains("are free"));
}

TEST_CASE("no test set of an earlier pack stays beside another training set") {
  const test::TemporaryFolder folder;
  GeneratedPackOptions options{.image = {1, 4, 4}, .classes = 2, .train = 4, .test = 2};
  options.out = folder / "out";
  REQUIRE(pack_generated(options).ok());
  CHECK(fs::exists(folder / "out/test.rec"));
  options.test = 0;
  const auto report = pack_generated(options);
  REQUIRE(report.ok());
  CHECK(report->files.size() == 1);
  for (const char* name : {"out/test.rec", "out/test.idx"}) CHECK_FALSE(fs::exists(folder / name));
}

}  // namespace
}  // namespace troupe::data
