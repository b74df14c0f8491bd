// SPDX-License-Identifier: Apache-2.0
// Reading and checking chunks of a shard's file, and the header in its first ones.
#include "store/shard_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/file.h"
#include "base/hash.h"

namespace troupe::store {

namespace fs = std::filesystem;

void ChunkChecksums::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (filled_ == 0) checksums_.push_back(0);
    const auto part = bytes.first(static_cast<std::size_t>(
        std::min<std::uint64_t>(kChecksumChunkBytes - filled_, bytes.size())));
    checksums_.back() = base::crc32c(part, checksums_.back());
    filled_ = (filled_ + part.size()) % kChecksumChunkBytes;
    bytes = bytes.subspan(part.size());
  }
}

base::Result<OpenedFile> open_checkpoint_file(const fs::path& path, std::uint64_t bytes_most) {
  // What is looked at is what was opened: the file of this name may be another one by now.
  auto file = std::make_unique<base::Descriptor>(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file->open() && errno == ELOOP) {
    return base::error(base::Errc::data_loss, "{}: is a symbolic link, no file of a checkpoint",
                       path.string());
  }
  const bool socket = !file->open() && errno == ENXIO;
  if (!file->open() && !socket) return base::file_error(path, "open", errno);
  struct stat info {};
  if (!socket && ::fstat(file->get(), &info) != 0) return base::file_error(path, "stat", errno);
  if (!S_ISREG(info.st_mode)) {
    return base::error(base::Errc::data_loss, "{}: is no regular file", path.string());
  }
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  if (bytes <= bytes_most) return OpenedFile{std::move(file), bytes};
  return base::error(base::Errc::data_loss, "{}: {} bytes, at most {} make sense", path.string(),
                     bytes, bytes_most);
}

base::Result<std::unique_ptr<const ShardReader>> ShardReader::open(
    const fs::path& path, const schemas::ShardFile& expected) {
  TROUPE_TRY_ASSIGN(const OpenedFile opened, open_checkpoint_file(path, expected.bytes));
  if (opened.bytes != expected.bytes || expected.chunk_bytes != kChecksumChunkBytes) {
    return base::error(base::Errc::data_loss, "{}: {} bytes, the manifest says {}", path.string(),
                       opened.bytes, expected.bytes);
  }
  return std::unique_ptr<const ShardReader>(
      new ShardReader(path, expected, opened.file->release()));
}

ShardReader::ShardReader(fs::path path, schemas::ShardFile expected, int descriptor)
    : path_(std::move(path)), expected_(std::move(expected)), descriptor_(descriptor) {}

ShardReader::~ShardReader() {
  ::close(descriptor_);
}

base::Status ShardReader::verify(
    const std::function<base::Status(std::uint64_t chunk)>& each) const {
  const base::MutexLock lock(mutex_);
  for (std::uint64_t chunk = 0; chunk < expected_.checksums.size(); ++chunk) {
    TROUPE_TRY(load_chunk(chunk));
    if (each) TROUPE_TRY(each(chunk));
  }
  return load_header();
}

base::Result<std::optional<ndarray::TensorPlace>> ShardReader::find(std::string_view name) const {
  const base::MutexLock lock(mutex_);
  TROUPE_TRY(load_header());
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::optional<ndarray::TensorPlace>();
  return std::optional(found->second);
}

base::Result<std::optional<std::string>> ShardReader::metadata(const std::string& name) const {
  const base::MutexLock lock(mutex_);
  TROUPE_TRY(load_header());
  const auto found = metadata_.find(name);
  if (found == metadata_.end()) return std::optional<std::string>();
  return std::optional(found->second);
}

base::Status ShardReader::read(const ndarray::TensorPlace& tensor, std::span<std::byte> out) const {
  const base::MutexLock lock(mutex_);
  TROUPE_TRY(load_header());
  TROUPE_CHECK(out.size() == tensor.end - tensor.begin, "a place of another size than the tensor");
  return copy(*data_begin_ + tensor.begin, out);
}

base::Status ShardReader::load_header() const {
  if (data_begin_) return {};
  std::vector<std::byte> first(
      std::min<std::uint64_t>(ndarray::kSafetensorsLengthBytes, expected_.bytes));
  TROUPE_TRY(copy(0, first));
  const auto begin = ndarray::safetensors_data_begin(first, expected_.bytes);
  if (!begin.ok()) return begin.status().with_context(path_.string());
  std::vector<std::byte> text(static_cast<std::size_t>(*begin) - first.size());
  TROUPE_TRY(copy(first.size(), text));
  auto header = ndarray::parse_safetensors_header(
      {reinterpret_cast<const char*>(text.data()), text.size()}, expected_.bytes - *begin);
  if (!header.ok()) return header.status().with_context(path_.string());
  for (ndarray::TensorPlace& tensor : header->tensors) {
    if (!tensor.foreign.empty()) {
      return base::error(base::Errc::data_loss, "{}: '{}' has {}, as no checkpoint has",
                         path_.string(), tensor.name, tensor.foreign);
    }
    std::string name = tensor.name;
    tensors_.emplace(std::move(name), std::move(tensor));
  }
  metadata_ = std::move(header->metadata);
  data_begin_ = *begin;
  return {};
}

base::Status ShardReader::load_chunk(std::uint64_t chunk) const {
  if (chunk_ == chunk) return {};
  chunk_.reset();
  // Wrong bytes may have been read wrongly; twice the same are damage.
  for (const bool again : {false, true}) {
    TROUPE_TRY(read_chunk(chunk));
    if (chunk < expected_.checksums.size() &&
        base::crc32c(chunk_bytes_) == expected_.checksums[chunk]) {
      chunk_ = chunk;
      return {};
    }
    if (!again) static_cast<void>(::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED));
  }
  const std::uint64_t begin = chunk * kChecksumChunkBytes;
  return base::error(base::Errc::data_loss, "{}: damaged between bytes {} and {}", path_.string(),
                     begin, begin + chunk_bytes_.size());
}

base::Status ShardReader::read_chunk(std::uint64_t chunk) const {
  const std::uint64_t begin = chunk * kChecksumChunkBytes;
  chunk_bytes_.resize(std::min<std::uint64_t>(kChecksumChunkBytes, expected_.bytes - begin));
  for (std::size_t done = 0; done < chunk_bytes_.size();) {
    const ssize_t n = ::pread(descriptor_, chunk_bytes_.data() + done, chunk_bytes_.size() - done,
                              static_cast<off_t>(begin + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::file_error(path_, "read", errno);
    if (n == 0) {
      return base::error(base::Errc::data_loss, "{}: ends at byte {}, had {} when it was opened",
                         path_.string(), begin + done, expected_.bytes);
    }
    done += static_cast<std::size_t>(n);
  }
  return {};
}

base::Status ShardReader::copy(std::uint64_t begin, std::span<std::byte> out) const {
  while (!out.empty()) {
    TROUPE_TRY(load_chunk(begin / kChecksumChunkBytes));
    const std::size_t from = begin % kChecksumChunkBytes;
    const std::size_t size = std::min(out.size(), chunk_bytes_.size() - from);
    std::copy_n(chunk_bytes_.begin() + static_cast<std::ptrdiff_t>(from), size, out.begin());
    begin += size;
    out = out.subspan(size);
  }
  return {};
}

}  // namespace troupe::store
