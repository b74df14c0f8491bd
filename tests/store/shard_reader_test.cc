// SPDX-License-Identifier: Apache-2.0
// A shard's file read in parts: only what is wanted is read, and none of it is believed unchecked.
#include "store/shard_reader.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <thread>

#include "base/file.h"
#include "base/hash.h"
#include "tests/support/catch.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/test_folder.h"

namespace troupe::store {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

/// A file of three tensors, each as large as a chunk, so that each lies in two of them.
class Sample {
 public:
  explicit Sample(const std::string& name) : folder_(name) {
    std::vector<ndarray::RawTensor> tensors;
    for (std::size_t i = 0; i < 3; ++i) {
      contents_.emplace_back(kChecksumChunkBytes, std::byte(17 + i));
      tensors.push_back({fmt::format("t{}", i), base::DType::u8,
                         base::Shape{static_cast<std::int64_t>(kChecksumChunkBytes)},
                         contents_.back()});
    }
    const Bytes bytes = tests::safetensors_bytes(tensors, {{"said", "so"}});
    ChunkChecksums checksums;
    checksums.add(bytes);
    expected_ = {0, "file", bytes.size(), kChecksumChunkBytes, checksums.take()};
    REQUIRE(base::write_file_atomically(path(), bytes).ok());
  }

  fs::path path() const { return folder_.path() / "file"; }
  base::Result<std::unique_ptr<const ShardReader>> open() const {
    return ShardReader::open(path(), expected_);
  }
  /// Changes one byte.
  void damage(std::uint64_t offset) const {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put('!');
  }
  base::Status read(const ShardReader& file, std::size_t tensor) const {
    const auto place = file.find(fmt::format("t{}", tensor));
    if (!place.ok()) return place.status();
    REQUIRE(place->has_value());
    Bytes out(kChecksumChunkBytes);
    const base::Status status = file.read(**place, out);
    if (status.ok()) CHECK(out == contents_[tensor]);
    return status;
  }

  schemas::ShardFile expected_;

 private:
  TestFolder folder_;
  std::vector<Bytes> contents_;
};

TEST_CASE("the checksums of chunks are the same in whatever pieces the bytes come",
          "[shard_reader]") {
  const auto [size, piece] = GENERATE(
      table<std::size_t, std::size_t>({{0, 1},
                                       {5, 1},
                                       {kChecksumChunkBytes, 4096},
                                       {kChecksumChunkBytes + 1, 1000},
                                       {3 * kChecksumChunkBytes - 7, 2 * kChecksumChunkBytes}}));
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 256);
  std::vector<std::uint32_t> expected;
  for (std::size_t at = 0; at < size; at += kChecksumChunkBytes) {
    expected.push_back(base::crc32c(
        std::span(bytes).subspan(at, std::min<std::size_t>(kChecksumChunkBytes, size - at))));
  }
  ChunkChecksums checksums;
  for (std::size_t at = 0; at < size; at += piece) {
    checksums.add(std::span(bytes).subspan(at, std::min(piece, size - at)));
  }
  CHECK(checksums.take() == expected);
}

TEST_CASE("tensors and metadata of a shard's file are read by name", "[shard_reader]") {
  const Sample sample("shard-reader-names");
  const auto file = sample.open();
  REQUIRE(file.ok());
  for (const std::size_t tensor : {2U, 0U, 1U, 1U}) CHECK(sample.read(**file, tensor).ok());
  CHECK_FALSE((*file)->find("t3")->has_value());
  CHECK(*(*file)->metadata("said") == "so");
  CHECK_FALSE((*file)->metadata("t0")->has_value());
  CHECK((*file)->verify().ok());
}

TEST_CASE("damage is found by who reads it, and by a check of the whole", "[shard_reader]") {
  const Sample sample("shard-reader-damage");
  sample.damage(2 * kChecksumChunkBytes + 5);  // in the second and third tensors' chunk
  const auto file = sample.open();
  REQUIRE(file.ok());
  CHECK(sample.read(**file, 0).ok());
  const base::Status found = sample.read(**file, 1);
  CHECK(found.code() == base::Errc::data_loss);
  CHECK_THAT(found.text(), Catch::Contains(sample.path().string()) &&
                               Catch::Contains("damaged between bytes 2097152 and 3145728"));
  CHECK(sample.read(**file, 2).code() == base::Errc::data_loss);
  CHECK((*file)->verify() == found);
  CHECK(sample.read(**file, 0).ok());
}

TEST_CASE("a damaged header is damage of the whole file", "[shard_reader]") {
  const Sample sample("shard-reader-header");
  sample.damage(3);
  const auto file = sample.open();
  REQUIRE(file.ok());
  CHECK(sample.read(**file, 2).code() == base::Errc::data_loss);
  CHECK((*file)->metadata("said").status().code() == base::Errc::data_loss);
}

TEST_CASE("a file of another size is damaged, one that is not there is missing", "[shard_reader]") {
  const Sample sample("shard-reader-size");
  const auto size = fs::file_size(sample.path());
  {
    const auto file = sample.open();
    REQUIRE(file.ok());
    fs::resize_file(sample.path(), 2 * kChecksumChunkBytes);  // behind its back
    CHECK(sample.read(**file, 0).ok());
    CHECK_THAT(sample.read(**file, 2).text(), Catch::Contains("ends at byte 2097152"));
  }
  for (const std::uint64_t other : {size - 1, size + 1, std::uint64_t{0}}) {
    fs::resize_file(sample.path(), other);
    CHECK(sample.open().status().code() == base::Errc::data_loss);
  }
  fs::remove(sample.path());
  CHECK(sample.open().status().code() == base::Errc::not_found);
  fs::create_directory(sample.path());
  CHECK_THAT(sample.open().status().text(), Catch::Contains("is no regular file"));
}

TEST_CASE("a pipe in a shard's place is waited for by nobody, and no link is followed",
          "[shard_reader]") {
  const Sample sample("shard-reader-pipe");
  const fs::path outside = sample.path().string() + "-elsewhere";
  fs::rename(sample.path(), outside);
  fs::create_symlink(outside, sample.path());
  const base::Status link = sample.open().status();
  CHECK(link.code() == base::Errc::data_loss);
  CHECK_THAT(link.text(), Catch::Contains(sample.path().string() + ": is a symbolic link"));
  fs::remove(sample.path());
  REQUIRE(::mkfifo(sample.path().c_str(), 0600) == 0);
  CHECK_THAT(sample.open().status().text(), Catch::Contains("is no regular file"));
}

TEST_CASE("pipes that come and go in a shard's place hang no reader", "[shard_reader]") {
  const Sample sample("shard-reader-swap");
  const fs::path other = sample.path().string() + "-pipe";
  REQUIRE(::mkfifo(other.c_str(), 0600) == 0);
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    while (!stop) {
      ::renameat2(AT_FDCWD, sample.path().c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
    }
  });
  for (int i = 0; i < 5'000; ++i) {
    const base::Errc code = sample.open().status().code();  // a pipe would be waited for
    CHECK((code == base::Errc::ok || code == base::Errc::data_loss));
  }
  stop = true;
  swapper.join();
}

}  // namespace
}  // namespace troupe::store
