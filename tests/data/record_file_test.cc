// SPDX-License-Identifier: Apache-2.0
// RecordIO: bytes worked out by hand from the format, round trips, damage, random bytes.
#include "data/record_file.h"

#include <fmt/core.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "base/hash.h"
#include "data/bytes.h"
#include "tests/data/data_fixtures.h"
#include "tests/support/catch.h"

namespace troupe::data {
namespace {

using base::Errc;
using test::Bytes;
using test::bytes_from_hex;
using test::bytes_of;
using test::TemporaryFolder;

constexpr std::string_view kMagicHex = "0a23d7ce";

std::string hex(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const auto part : parts) all += std::string(part);
  return all;
}

std::vector<Bytes> read_all(const std::filesystem::path& path) {
  RecordReader reader(test::open_records(path));
  std::vector<Bytes> payloads;
  for (;;) {
    auto record = reader.next();
    REQUIRE(record.ok());
    if (!record->has_value()) return payloads;
    payloads.emplace_back((*record)->payload.begin(), (*record)->payload.end());
  }
}

struct Golden {
  std::string payload;
  std::string file;
};

// Each file follows from the format by hand: magic, kind << 29 | length, bytes, padding.
std::vector<Golden> golden_files() {
  return {
      // Whole records: empty, unpadded, padded.
      {"", hex({kMagicHex, "00000000"})},
      {"61626364", hex({kMagicHex, "04000000", "61626364"})},
      {"6162636465", hex({kMagicHex, "05000000", "6162636465000000"})},
      // The magic in the middle: first part 4 bytes, last part 3 bytes and padding.
      {hex({"61626364", kMagicHex, "656667"}),
       hex({kMagicHex, "04000020", "61626364", kMagicHex, "03000060", "65666700"})},
      // The magic at the start: the first part is empty.
      {hex({kMagicHex, "61"}), hex({kMagicHex, "00000020", kMagicHex, "01000060", "61000000"})},
      // Twice the magic alone: an empty first, middle and last part.
      {hex({kMagicHex, kMagicHex}),
       hex({kMagicHex, "00000020", kMagicHex, "00000040", kMagicHex, "00000060"})},
      // The magic off the grid of 4 bytes stays where it is.
      {hex({"61", kMagicHex, "626364"}), hex({kMagicHex, "08000000", "61", kMagicHex, "626364"})},
      // The magic at the very end: an empty last part.
      {hex({"61626364", kMagicHex}),
       hex({kMagicHex, "04000020", "61626364", kMagicHex, "00000060"})},
  };
}

TEST_CASE("record files equal the bytes worked out by hand") {
  const TemporaryFolder folder;
  for (const Golden& golden : golden_files()) {
    INFO(golden.payload << " -> " << golden.file);
    const Bytes payload = bytes_from_hex(golden.payload);
    const auto path = folder / "x.rec";
    test::write_records(path, {payload});
    CHECK(test::read_bytes(path) == bytes_from_hex(golden.file));
    const auto payloads = read_all(path);
    REQUIRE(payloads.size() == 1);
    CHECK(payloads[0] == payload);
  }
}

TEST_CASE("records come back in order, by offset, and through small windows") {
  rc::check("round trip", [] {
    const TemporaryFolder folder;
    const auto sizes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 200));
    const auto window = *rc::gen::inRange<std::uint64_t>(8, 300);
    std::vector<Bytes> payloads;
    for (const int size : sizes) {
      // Few different words, so that the magic is frequent on and off the grid.
      Bytes payload;
      while (payload.size() < static_cast<std::size_t>(size)) {
        const auto choice = *rc::gen::inRange(0, 3);
        const Bytes piece = choice == 0   ? bytes_from_hex(kMagicHex)
                            : choice == 1 ? bytes_of("abcd")
                                          : bytes_of("x");
        payload.insert(payload.end(), piece.begin(), piece.end());
      }
      payloads.push_back(payload);
    }
    const auto path = folder / "x.rec";
    const auto offsets = test::write_records(path, payloads);
    RecordReaderOptions options;
    options.window_bytes = window;
    RecordReader reader(test::open_records(path), options);
    for (const Bytes& payload : payloads) {
      const auto record = reader.next();
      RC_ASSERT(record.ok() && record->has_value());
      const auto found = (*record)->payload;
      RC_ASSERT(Bytes(found.begin(), found.end()) == payload);
    }
    RC_ASSERT(!reader.next()->has_value());
    for (std::size_t i = payloads.size(); i-- > 0;) {
      const auto record = reader.read_at(offsets[i], i % 2 == 0 ? 0 : 16);
      RC_ASSERT(record.ok());
      RC_ASSERT(Bytes(record->payload.begin(), record->payload.end()) == payloads[i]);
    }
  });
}

TEST_CASE("damage names file and offset") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  const auto check = [&](const std::string& file, const std::string& text) {
    INFO(file);
    test::write_bytes(path, bytes_from_hex(file));
    RecordReader reader(test::open_records(path));
    auto record = reader.next();
    while (record.ok() && record->has_value()) record = reader.next();
    REQUIRE(!record.ok());
    CHECK(record.status().code() == Errc::data_loss);
    CHECK_THAT(record.status().text(), Catch::Contains("x.rec: record at offset"));
    CHECK_THAT(record.status().text(), Catch::Contains(text));
  };
  const std::string good = hex({kMagicHex, "04000000", "61626364"});
  check(good + "0a23", "offset 12: truncated: 2 bytes are left for a head of 8");
  check(good + "0b23d7ce00000000", "offset 12: the magic 0xced7230a is not there");
  check(good + hex({kMagicHex, "05000000", "61626364"}), "truncated: a length of 5 needs 16 bytes");
  check(good + hex({kMagicHex, "ffffff1f"}), "truncated: a length of 536870911");
  check(hex({kMagicHex, "04000080", "61626364"}), "unknown kind of part 4");
  check(hex({kMagicHex, "04000060", "61626364"}), "offset 0: begins with a later part");
  check(hex({kMagicHex, "04000020", "61626364"}), "offset 12: truncated: 0 bytes are left");
  check(hex({kMagicHex, "04000020", "61626364"}) + good, "a new record begins at 12");

  test::write_bytes(path, bytes_from_hex(good));
  RecordReader reader(test::open_records(path));
  CHECK_THAT(reader.read_at(2).status().text(), Catch::Contains("no multiple of 4"));
  CHECK_THAT(reader.read_at(12).status().text(), Catch::Contains("the file ends at 12"));
  CHECK_THAT(reader.read_at(std::uint64_t{1} << 60).status().text(), Catch::Contains("ends at 12"));
  CHECK_THAT(reader.read_at(4).status().text(),
             Catch::Contains("the magic 0xced7230a is not there"));

  RecordReaderOptions limited;
  limited.record_bytes_max = 3;
  RecordReader small(test::open_records(path), limited);
  CHECK_THAT(small.next().status().text(), Catch::Contains("length 4 is above the limit of 3"));
  CHECK(RecordFile::open(folder / "none.rec").status().code() == Errc::not_found);
  CHECK(RecordFile::open(folder.path()).status().code() == Errc::invalid_argument);
}

TEST_CASE("a reader that skips finds the next record and counts what it passed") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  const std::vector<Bytes> payloads = {bytes_of("first"), bytes_from_hex(hex({kMagicHex, "6162"})),
                                       bytes_of("third"), bytes_of("fourth")};
  const auto offsets = test::write_records(path, payloads);
  // The magic of the last part of the split record: its first part stands alone now.
  test::flip_byte(path, offsets[1] + 8);
  // And the third record's length reaches behind the end.
  test::flip_byte(path, offsets[2] + 7);

  RecordReaderOptions options;
  options.on_damage = OnDamage::skip;
  RecordReader reader(test::open_records(path), options);
  std::vector<std::uint64_t> found;
  for (auto record = reader.next(); record.ok() && record->has_value(); record = reader.next()) {
    found.push_back((*record)->offset);
  }
  CHECK(found == std::vector<std::uint64_t>{offsets[0], offsets[3]});
  CHECK(reader.damage().places == 1);
  CHECK(reader.damage().bytes == offsets[3] - offsets[1]);
  CHECK(reader.damage().first_offset == offsets[1]);
  CHECK(reader.damage().first.code() == Errc::data_loss);
}

TEST_CASE("a length that leads past the next records does not take them along") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  // The second record is whole, or split; each payload has its own length.
  for (const std::string& second : {std::string("736563"), hex({"73656373", kMagicHex, "65"})}) {
    INFO(second);
    const std::vector<Bytes> payloads = {bytes_of("first"), bytes_from_hex(second),
                                         bytes_of("the third"), bytes_of("the last of all")};
    const auto offsets = test::write_records(path, payloads);
    const std::uint64_t last_part = offsets[2] - 12;  // its head, 4 bytes with padding
    Bytes bytes = test::read_bytes(path);
    // Now its end lies in the third record, at the third's end but for a word, in the last one, at
    // the file's end but for a word, or there.
    const std::uint64_t size = bytes.size();
    for (const std::uint64_t end :
         {offsets[2] + 12, offsets[3] - 4, offsets[3] + 8, size - 4, size}) {
      bytes[last_part + 4] = static_cast<std::byte>(end - last_part - 8);
      test::write_bytes(path, bytes);
      for (const bool heads_only : {false, true}) {
        RecordReaderOptions options;
        options.on_damage = OnDamage::skip;
        options.heads_only = heads_only;
        options.window_bytes = 16;
        RecordReader reader(test::open_records(path), options);
        std::vector<std::uint64_t> found;
        auto record = reader.next();
        for (; record.ok() && record->has_value(); record = reader.next()) {
          found.push_back((*record)->offset);
        }
        REQUIRE(record.ok());
        CHECK(found == std::vector<std::uint64_t>{offsets[0], offsets[2], offsets[3]});
        CHECK(reader.damage().bytes == offsets[2] - offsets[1]);
      }
      RecordReader reader(test::open_records(path));
      CHECK_THAT(reader.read_at(offsets[1]).status().text(),
                 Catch::Contains(fmt::format("leads past the record at {} to where", offsets[2])));
    }
  }
}

TEST_CASE("a damaged head leaves the record before it whole") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  const auto offsets = test::write_records(path, {bytes_of("first"), bytes_of("second")});
  test::flip_byte(path, offsets[1]);
  RecordReader reader(test::open_records(path));
  CHECK(reader.next().ok());
  CHECK(reader.next().status().code() == Errc::data_loss);
}

TEST_CASE("forged records that all lead into the same parts are not walked for ever") {
  const TemporaryFolder folder;
  constexpr std::uint64_t kHeads = 5000, kParts = 5000, kHead = 8;
  Bytes bytes;
  const auto put = [&bytes](std::uint64_t kind, std::uint64_t length) {
    for (const std::uint64_t word : {std::uint64_t{kRecordMagic}, kind << 29 | length}) {
      for (int shift = 0; shift < 32; shift += 8) bytes.push_back(std::byte(word >> shift & 0xff));
    }
  };
  // First parts, each of which reaches over those behind it, and middle parts that nothing ends.
  for (std::uint64_t i = 1; i <= kHeads; ++i) put(1, (kHeads - i) * kHead);
  for (std::uint64_t i = 0; i < kParts; ++i) put(2, 0);
  test::write_bytes(folder / "x.rec", bytes);
  RecordReaderOptions options;
  options.on_damage = OnDamage::skip;
  options.heads_only = true;
  RecordReader reader(test::open_records(folder / "x.rec"), options);
  const auto status = reader.next().status();
  CHECK(status.code() == Errc::invalid_argument);
  CHECK_THAT(status.text(), Catch::Contains("x.rec: records without an end overlap"));
}

TEST_CASE("forged records that all lead into one another are not read for ever") {
  const TemporaryFolder folder;
  constexpr std::uint32_t kHeads = 200'000, kHead = 8;
  Bytes bytes;
  // Each one ends in the middle of the last head, where nothing begins.
  for (std::uint32_t i = 1; i <= kHeads; ++i) {
    store(bytes, kRecordMagic);
    store(bytes, (kHeads - i) * kHead - (i < kHeads ? kHead - 4 : 0));
  }
  store(bytes, std::uint64_t{0});
  test::write_bytes(folder / "x.rec", bytes);
  for (const bool heads_only : {false, true}) {
    RecordReaderOptions options;
    options.on_damage = OnDamage::skip;
    options.heads_only = heads_only;
    options.window_bytes = 4096;
    RecordReader reader(test::open_records(folder / "x.rec"), options);
    CHECK(reader.next().status().code() == Errc::invalid_argument);
  }
}

TEST_CASE("random and mutated bytes never crash a reader") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  const Bytes magic = bytes_from_hex(kMagicHex);
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Bytes bytes(random() % 600);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 4 * (1 + random() % 8)) {
      std::copy(magic.begin(), magic.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
      bytes[at + 7] &= std::byte{0xe0};
      if (random() % 4 != 0) bytes[at + 6] = bytes[at + 5] = std::byte{0};
    }
    test::write_bytes(path, bytes);
    RecordReaderOptions options;
    options.on_damage = OnDamage::skip;
    options.window_bytes = 8 + random() % 100;
    RecordReader reader(test::open_records(path), options);
    std::uint64_t covered = 0;
    for (auto record = reader.next(); record.ok() && record->has_value(); record = reader.next()) {
      covered += (*record)->next_offset - (*record)->offset;
    }
    CHECK(reader.position() == bytes.size());
    CHECK(covered + reader.damage().bytes == bytes.size());
  }
}

TEST_CASE("writer refuses what the format cannot hold and leaves nothing without commit") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  {
    RecordWriter writer(path);
    REQUIRE(writer.open().ok());
    REQUIRE(writer.append(bytes_of("abc")).ok());
    const Bytes large(kRecordBytesMax + 1);
    const auto result = writer.append(large);
    CHECK(result.status().code() == Errc::invalid_argument);
    CHECK(writer.bytes() == 12);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("many threads read one file, its checksum is that of its bytes") {
  const TemporaryFolder folder;
  const auto path = folder / "x.rec";
  std::vector<Bytes> payloads;
  for (int i = 0; i < 200; ++i) payloads.push_back(bytes_of(std::to_string(i * 7919)));
  const auto offsets = test::write_records(path, payloads);
  const auto file = test::open_records(path);
  CHECK(*file->checksum() == base::crc32c(test::read_bytes(path)));
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      RecordReader reader(file);
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        const std::size_t at = (i * 13 + t * 50) % offsets.size();
        const auto record = reader.read_at(offsets[at]);
        if (!record.ok()) continue;
        equal[t] += Bytes(record->payload.begin(), record->payload.end()) == payloads[at] ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(equal == std::vector<int>(4, 200));
}

}  // namespace
}  // namespace troupe::data
