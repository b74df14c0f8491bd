// SPDX-License-Identifier: Apache-2.0
// Files for the tests of data/: a folder that goes away, record files of raw images, damage.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/image_record.h"
#include "data/index.h"
#include "data/record_file.h"
#include "tests/support/catch.h"

namespace troupe::data::test {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

/// "0a23 d7ce" -> four bytes.
inline Bytes bytes_from_hex(std::string_view text) {
  Bytes out;
  std::string digits;
  for (const char c : text) {
    if (c != ' ' && c != '\n') digits += c;
  }
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return out;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-data-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  REQUIRE(base::write_file_atomically(path, bytes).ok());
}

inline Bytes read_bytes(const std::filesystem::path& path) {
  auto bytes = base::read_file(path, std::uint64_t{1} << 30);
  REQUIRE(bytes.ok());
  return std::move(bytes).value();
}

inline std::vector<std::uint64_t> write_records(const std::filesystem::path& path,
                                                const std::vector<Bytes>& payloads) {
  RecordWriter writer(path);
  REQUIRE(writer.open().ok());
  std::vector<std::uint64_t> offsets;
  for (const Bytes& payload : payloads) {
    auto offset = writer.append(payload);
    REQUIRE(offset.ok());
    offsets.push_back(*offset);
  }
  REQUIRE(writer.commit().ok());
  return offsets;
}

inline std::shared_ptr<const RecordFile> open_records(const std::filesystem::path& path) {
  auto file = RecordFile::open(path);
  REQUIRE(file.ok());
  return *file;
}

/// `count` raw images of `shape`; record i has label i % 10 and pixels (i + position) % 251.
inline std::vector<std::uint64_t> write_images(const std::filesystem::path& path,
                                               std::uint64_t count, const ImageShape& shape) {
  std::vector<Bytes> payloads(count);
  std::vector<std::uint8_t> pixels(shape.bytes());
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::size_t p = 0; p < pixels.size(); ++p) {
      pixels[p] = static_cast<std::uint8_t>((i + p) % 251);
    }
    const float label = static_cast<float>(i % 10);
    encode_raw_record({&label, 1}, i, shape, pixels, payloads[i]);
  }
  const auto offsets = write_records(path, payloads);
  std::vector<IndexEntry> entries;
  for (std::uint64_t i = 0; i < count; ++i) entries.push_back({i, offsets[i]});
  REQUIRE(write_index(index_path(path), entries).ok());
  return offsets;
}

/// Changes one byte of a file.
inline void flip_byte(const std::filesystem::path& path, std::uint64_t offset) {
  Bytes bytes = read_bytes(path);
  bytes.at(offset) ^= std::byte{0x40};
  write_bytes(path, bytes);
}

}  // namespace troupe::data::test
