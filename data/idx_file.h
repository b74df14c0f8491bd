// SPDX-License-Identifier: Apache-2.0
// IDX: the format of MNIST and Fashion-MNIST, plain or gzip. {0, 0, type u8, rank u8}, an extent of
// u32 big-endian per axis, then the values; only type 8 (u8) is read. A file is read as a stream of
// items along its first axis, so its size costs no memory. One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace troupe::data {

/// Highest rank that is read.
inline constexpr int kIdxRankMax = 4;
/// Largest item (one image).
inline constexpr std::uint64_t kIdxItemBytesMax = std::uint64_t{1} << 28;

/// See the top of the file.
class IdxFile {
 public:
  /// Opens the file and reads its header; errors name the file and, where it matters, the item.
  static base::Result<IdxFile> open(const std::filesystem::path& path);
  ~IdxFile();
  IdxFile(IdxFile&& other) noexcept;
  IdxFile& operator=(IdxFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::vector<std::uint32_t>& extents() const { return extents_; }
  std::uint64_t items() const { return extents_[0]; }
  /// Fills `out` with the next item; it is as long as the product of all extents but the first
  /// (CHECKed).
  base::Status read_item(std::span<std::uint8_t> out);
  /// data_loss when anything follows the last item, or the compressed stream ends wrongly.
  base::Status expect_end();

 private:
  IdxFile(std::filesystem::path path, void* stream);
  base::Status read_header();
  base::Status read(std::span<std::uint8_t> out, std::string_view what);
  base::Status damaged(std::string_view what) const;

  std::filesystem::path path_;
  void* stream_;  // gzFile
  std::vector<std::uint32_t> extents_;
  std::uint64_t item_bytes_ = 1;
  std::uint64_t read_items_ = 0;
};

}  // namespace troupe::data
