// SPDX-License-Identifier: Apache-2.0
// `data check` and `data index`: counts, the first bad offset, disagreeing indexes.
#include "data/inspect.h"

#include "base/hash.h"
#include "data/index.h"
#include "tests/data/data_fixtures.h"
#include "tests/data/image_fixtures.h"
#include "tests/support/catch.h"

namespace troupe::data {
namespace {

using base::Errc;
using test::bytes_of;
using test::TemporaryFolder;

CheckReport check(const std::filesystem::path& path, bool decode = false) {
  auto report = check_record_file(path, decode);
  REQUIRE(report.ok());
  return std::move(report).value();
}

TEST_CASE("a whole file is counted") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  test::write_images(path, 12, {1, 4, 4});
  const CheckReport report = check(path);
  CHECK(report.status().ok());
  CHECK(report.records == 12);
  CHECK(report.images == 12);
  CHECK(report.checksum == base::crc32c(test::read_bytes(path)));
  CHECK_THAT(report.to_string(), Catch::Contains("x.rec: 12 records") &&
                                     Catch::Contains("12 images, the first 1 x 4 x 4") &&
                                     !Catch::Contains("without an image"));
}

TEST_CASE("the first damage by offset is reported, of records and of images") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  const auto offsets = test::write_images(path, 12, {1, 4, 4});
  test::flip_byte(path, offsets[7]);
  CheckReport report = check(path);
  CHECK(report.status().code() == Errc::data_loss);
  CHECK(report.records == 11);
  CHECK(report.damaged_places == 1);
  CHECK(report.first_bad_offset == offsets[7]);
  CHECK_FALSE(report.index_fault.ok());
  // A label, which only our checksum guards.
  test::flip_byte(path, offsets[3] + 8 + 5);
  report = check(path);
  CHECK(report.first_bad_offset == offsets[3]);
  CHECK(report.damaged_images == 1);
  CHECK_THAT(report.to_string(),
             Catch::Contains("first bad offset " + std::to_string(offsets[3])) &&
                 Catch::Contains("x.rec: record at offset") && Catch::Contains("checksum"));
}

TEST_CASE("records without images are whole, encoded images are decoded when asked") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  const ImageShape shape{3, 16, 16};
  std::vector<std::uint8_t> pixels(shape.bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 31);
  test::Bytes record;
  const float label = 1;
  encode_image_record({&label, 1}, 0, test::encode_png(pixels, shape), record);
  record[record.size() - 30] ^= std::byte{1};  // within the pixels
  test::write_records(path, {bytes_of("text"), {}, record});
  CHECK(check(path).status().ok());
  CHECK(check(path).images == 1);
  CHECK_THAT(check(path).to_string(), Catch::Contains(", 2 records without an image"));
  const CheckReport report = check(path, true);
  CHECK(report.damaged_images == 1);
  CHECK_THAT(report.status().text(), Catch::Contains("PNG: cannot read to its end"));
}

TEST_CASE("an index is made anew, and one that disagrees is reported") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  const auto offsets = test::write_images(path, 5, {1, 4, 4});
  const auto written = test::read_bytes(folder / "x.idx");
  test::write_bytes(folder / "x.idx", bytes_of("0\t0\n1\t4\n"));
  CHECK_THAT(check(path).status().text(), Catch::Contains("x.idx: key 1 names offset 4"));
  test::write_bytes(folder / "x.idx", bytes_of("0\t0\n"));
  CHECK_THAT(check(path).status().text(), Catch::Contains("names 1 records, 5 were found"));
  const auto report = index_record_file(path);
  REQUIRE(report.ok());
  CHECK(report->records == 5);
  CHECK_THAT(report->to_string(), Catch::Contains("x.idx: 5 records"));
  CHECK(test::read_bytes(folder / "x.idx") == written);
  CHECK(check(path).status().ok());

  test::flip_byte(path, offsets[2]);
  CHECK(index_record_file(path).status().code() == Errc::data_loss);
  CHECK(test::read_bytes(folder / "x.idx") == written);
  CHECK(index_record_file(folder / "x.idx").status().code() == Errc::invalid_argument);
  CHECK(index_record_file(folder / "none.rec").status().code() == Errc::not_found);
}

TEST_CASE("an empty file holds no records, text is damage from its first byte") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  test::write_bytes(path, {});
  CHECK(check(path).status().ok());
  CHECK(check(path).records == 0);
  test::write_bytes(path, bytes_of("no record file at all, but long enough"));
  const CheckReport report = check(path);
  CHECK(report.status().code() == Errc::data_loss);
  CHECK(report.first_bad_offset == 0);
  CHECK(report.records == 0);
}

}  // namespace
}  // namespace troupe::data
