// SPDX-License-Identifier: Apache-2.0
// Indexes: MXNet's text form, malformed lines, rebuilding; datasets with and without an index.
#include "data/index.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/hash.h"
#include "data/dataset.h"
#include "tests/data/data_fixtures.h"
#include "tests/support/catch.h"

namespace troupe::data {
namespace {

using base::Errc;
using test::bytes_of;
using test::TemporaryFolder;

constexpr std::uint64_t kMany = 1'000'000;

TEST_CASE("an index is written as MXNet writes it and read back") {
  const TemporaryFolder folder;
  const std::vector<IndexEntry> entries = {{0, 0}, {1, 832}, {7, 1664}};
  const auto path = folder / "x.idx";
  REQUIRE(write_index(path, entries).ok());
  CHECK(test::read_bytes(path) == bytes_of("0\t0\n1\t832\n7\t1664\n"));
  CHECK(*read_index(path, kMany) == entries);
  test::write_bytes(path, bytes_of("0\t0\r\n1\t832\r\n7\t1664"));
  CHECK(*read_index(path, kMany) == entries);
  // What other programs and people write.
  test::write_bytes(path, bytes_of("0 0\n\n  1\t 832 \r\n7\t\t1664\t\n \n"));
  CHECK(*read_index(path, kMany) == entries);
  test::write_bytes(path, {});
  CHECK(read_index(path, kMany)->empty());
  CHECK(index_path("a/train.rec") == std::filesystem::path("a/train.idx"));
}

TEST_CASE("files that differ in their extension have indices of their own") {
  CHECK(index_path("a/train.rec") == "a/train.idx");
  CHECK(index_path("a/part.000") == "a/part.000.idx");
  CHECK(index_path("part") == "part.idx");
}

TEST_CASE("malformed index lines are named by number") {
  const TemporaryFolder folder;
  const auto path = folder / "x.idx";
  for (const std::string line :
       {"1", "a\t2", "1\t", "\t1", "1\t-2", "1\t2\t3", "1 2 3", "1\t99999999999999999999999"}) {
    INFO(line);
    test::write_bytes(path, bytes_of("0\t0\n" + line + "\n5\t5\n"));
    const auto entries = read_index(path, kMany);
    CHECK(entries.status().code() == Errc::data_loss);
    CHECK_THAT(entries.status().text(), Catch::EndsWith("x.idx:2: is not `key TAB offset`"));
  }
}

TEST_CASE("an index is read in pieces, and no further than its records go") {
  const TemporaryFolder folder;
  const auto path = folder / "x.idx";
  std::vector<IndexEntry> entries;
  for (std::uint64_t i = 0; i < 20'000; ++i) entries.push_back({i, i << 40});
  REQUIRE(write_index(path, entries).ok());  // some pieces, with lines across their ends
  CHECK(*read_index(path, entries.size()) == entries);
  const auto fewer = read_index(path, entries.size() - 1);
  CHECK(fewer.status().code() == Errc::data_loss);
  CHECK_THAT(fewer.status().text(),
             Catch::EndsWith("x.idx:20000: 19999 records at most fit into the record file"));
  // Nobody has the memory or the time for so many zeros.
  test::write_bytes(path, bytes_of("0\t0\n"));
  std::filesystem::resize_file(path, std::uint64_t{1} << 40);
  const auto sparse = read_index(path, kMany);
  CHECK(sparse.status().code() == Errc::data_loss);
  CHECK_THAT(sparse.status().text(), Catch::EndsWith("x.idx:2: is not `key TAB offset`"));
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(read_index(path, kMany).status().code() == Errc::invalid_argument);
  CHECK(records_max(24) == 3);
}

TEST_CASE("a rebuilt index equals the written one") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  test::write_images(path, 20, {1, 5, 5});
  const auto entries = build_index(test::open_records(path), OnDamage::fail, nullptr);
  REQUIRE(entries.ok());
  CHECK(*entries == *read_index(folder / "x.idx", kMany));
}

// A file as large as some data sets: nobody could read it in the time of a test.
TEST_CASE("the fingerprint of a large file is that of samples and of the records' places") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  test::write_images(path, 30, {3, 4, 6});
  const auto print = [&] {
    const auto dataset = Dataset::open(path);
    REQUIRE(dataset.ok());
    return (*dataset)->fingerprint().value();
  };
  const auto put = [&](std::uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put('!');
  };
  const std::uint64_t bytes = std::uint64_t{1} << 40;
  std::filesystem::resize_file(path, bytes);
  const Fingerprint first = print();
  CHECK(first.records == 30);
  CHECK(first.bytes == bytes);
  CHECK(print() == first);
  put(bytes / 2 + 5'000'000);  // between two samples
  CHECK(print() == first);
  put(bytes - 1);
  const Fingerprint last = print();
  CHECK(last != first);
  put(100);
  CHECK(print() != last);
  const Fingerprint before = print();
  auto entries = *read_index(folder / "x.idx", kMany);
  entries.pop_back();
  entries.push_back({99, entries.back().offset + 4});
  REQUIRE(write_index(folder / "x.idx", entries).ok());
  CHECK(print().records == 30);
  CHECK(print() != before);
}

TEST_CASE("a dataset is the same with an index, without, and with a shuffled one") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  const auto offsets = test::write_images(path, 30, {3, 4, 6});
  const auto check = [&] {
    const auto dataset = Dataset::open(path);
    REQUIRE(dataset.ok());
    REQUIRE((*dataset)->records() == 30);
    for (std::uint64_t i = 0; i < 30; ++i) CHECK((*dataset)->offset(i) == offsets[i]);
    CHECK((*dataset)->reach(29) == (*dataset)->file()->bytes() - offsets[29]);
    CHECK(*(*dataset)->first_image_shape() == ImageShape{3, 4, 6});
    const auto print = (*dataset)->fingerprint();
    REQUIRE(print.ok());
    const auto bytes = test::read_bytes(path);
    CHECK(*print == Fingerprint{30, bytes.size(), base::crc32c(bytes)});
  };
  check();
  auto entries = *read_index(folder / "x.idx", kMany);
  std::swap(entries[3], entries[20]);
  REQUIRE(write_index(folder / "x.idx", entries).ok());
  check();
  std::filesystem::remove(folder / "x.idx");
  check();
}

TEST_CASE("an index that cannot belong to its file is refused") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  test::write_images(path, 3, {1, 4, 4});
  for (const std::string line : {"0\t2\n", "0\t99999996\n", "0\t0\n1\t0\n"}) {
    test::write_bytes(folder / "x.idx", bytes_of(line));
    const auto dataset = Dataset::open(path);
    CHECK(dataset.status().code() == Errc::data_loss);
    CHECK_THAT(dataset.status().text(), Catch::Contains("x.idx: offset"));
    CHECK_THAT(dataset.status().text(), Catch::Contains("troupe data index"));
  }
  test::write_bytes(folder / "x.idx", {});
  CHECK_THAT(
      Dataset::open(path).status().text(),
      Catch::Contains("x.idx: names no records, but ") && Catch::Contains("troupe data index"));
}

TEST_CASE("an index is made from heads alone, whatever lengths they announce") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  const auto offsets = test::write_images(path, 4, {1, 4, 4});
  RecordReaderOptions options;
  options.heads_only = true;
  RecordReader reader(test::open_records(path), options);
  for (const std::uint64_t offset : offsets) {
    const auto record = reader.next();
    REQUIRE((record.ok() && record->has_value()));
    CHECK((*record)->offset == offset);
    CHECK((*record)->payload.empty());
  }
  CHECK(!reader.next()->has_value());
  // A split record of a gigabyte, of which a file system keeps the two heads.
  const auto sparse = folder / "sparse.rec";
  const auto head = [](std::uint32_t kind, std::uint32_t length) {
    const std::uint32_t words[] = {kRecordMagic, (kind << 29) | length};
    return std::string(reinterpret_cast<const char*>(words), sizeof(words));
  };
  constexpr std::uint32_t kPart = 200'000'000;
  std::ofstream file(sparse, std::ios::binary);
  file << head(1, kPart);
  file.seekp(8 + kPart);
  file << head(3, kPart);
  file.seekp(2 * (8 + kPart) - 1);
  file << '\0';
  file.close();
  RecordReader large(test::open_records(sparse), options);
  const auto record = large.next();
  INFO(record.status().text());
  REQUIRE((record.ok() && record->has_value()));
  CHECK((*record)->split);
  CHECK((*record)->next_offset == 2 * (8 + kPart));
  // As an image it has no room, and that is found without reading it.
  const auto dataset = Dataset::open(sparse);
  REQUIRE(dataset.ok());
  CHECK_THAT((*dataset)->first_image_shape().status().text(),
             Catch::Contains("limit of 268435456"));
}

TEST_CASE("without an index damage fails the opening, or is passed over when asked") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  const auto offsets = test::write_images(path, 10, {1, 4, 4});
  std::filesystem::remove(folder / "x.idx");
  test::flip_byte(path, offsets[4]);
  const auto failed = Dataset::open(path);
  CHECK(failed.status().code() == Errc::data_loss);
  CHECK_THAT(failed.status().text(),
             Catch::Contains("record at offset " + std::to_string(offsets[4])));
  const auto skipped = Dataset::open(path, OnDamage::skip);
  REQUIRE(skipped.ok());
  CHECK((*skipped)->records() == 9);
}

}  // namespace
}  // namespace troupe::data
