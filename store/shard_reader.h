// SPDX-License-Identifier: Apache-2.0
// ShardReader: one shard's file of a checkpoint, read in checksummed chunks of kChecksumChunkBytes,
// so that whoever wants a slice reads little more than that slice, and believes no byte unchecked.
// Blocking; never call from an actor. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/mutex.h"
#include "base/status.h"
#include "ndarray/safetensors.h"
#include "schemas/manifest.h"

namespace troupe::store {

/// Checksummed pieces of a shard file.
inline constexpr std::uint64_t kChecksumChunkBytes = 1u << 20;

/// CRC-32C of each chunk of bytes that come piece by piece.
class ChunkChecksums {
 public:
  void add(std::span<const std::byte> bytes);
  /// Of all chunks, the last of which may be shorter; nothing is added behind.
  std::vector<std::uint32_t> take() { return std::move(checksums_); }

 private:
  std::vector<std::uint32_t> checksums_;
  std::uint64_t filled_ = 0;  // bytes of the last chunk; 0: it is full, or there is none
};

/// A regular file that is open for reading, and its size when it was opened.
struct OpenedFile {
  std::unique_ptr<base::Descriptor> file;
  std::uint64_t bytes = 0;
};
/// Opens a file of a checkpoint; waits for nobody. data_loss when `path` is a symbolic link, which
/// may lead anywhere, no regular file, or has more bytes than `bytes_most`: such damage would
/// otherwise look like a lack of memory. not_found: there is no such file.
base::Result<OpenedFile> open_checkpoint_file(const std::filesystem::path& path,
                                              std::uint64_t bytes_most);

/// An open file of a shard. Errors name the file; data_loss: it is not what the manifest says.
class ShardReader {
 public:
  /// data_loss also when it has another size than `expected` says.
  static base::Result<std::unique_ptr<const ShardReader>> open(const std::filesystem::path& path,
                                                               const schemas::ShardFile& expected);
  ~ShardReader();
  ShardReader(const ShardReader&) = delete;
  ShardReader& operator=(const ShardReader&) = delete;

  /// Reads the whole file, a chunk at a time. `each` is called after each, with its number; it may
  /// not use this reader.
  base::Status verify(const std::function<base::Status(std::uint64_t chunk)>& each = {}) const;
  /// The tensor called `name`, or nothing.
  base::Result<std::optional<ndarray::TensorPlace>> find(std::string_view name) const;
  /// What the file's metadata says under `name`, or nothing.
  base::Result<std::optional<std::string>> metadata(const std::string& name) const;
  /// The bytes of a tensor of this file; `out` has its size.
  base::Status read(const ndarray::TensorPlace& tensor, std::span<std::byte> out) const;

 private:
  ShardReader(std::filesystem::path path, schemas::ShardFile expected, int descriptor);
  base::Status load_header() const TROUPE_REQUIRES(mutex_);
  base::Status load_chunk(std::uint64_t chunk) const TROUPE_REQUIRES(mutex_);
  base::Status read_chunk(std::uint64_t chunk) const TROUPE_REQUIRES(mutex_);
  base::Status copy(std::uint64_t begin, std::span<std::byte> out) const TROUPE_REQUIRES(mutex_);

  const std::filesystem::path path_;
  const schemas::ShardFile expected_;
  const int descriptor_;
  mutable base::Mutex mutex_;
  // The chunk read last: the next tensor most often begins where the last one ended.
  mutable std::optional<std::uint64_t> chunk_ TROUPE_GUARDED_BY(mutex_);
  mutable std::vector<std::byte> chunk_bytes_ TROUPE_GUARDED_BY(mutex_);
  mutable std::optional<std::uint64_t> data_begin_ TROUPE_GUARDED_BY(mutex_);  // the header is read
  mutable std::map<std::string, std::string> metadata_ TROUPE_GUARDED_BY(mutex_);
  mutable std::map<std::string, ndarray::TensorPlace, std::less<>> tensors_
      TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::store
