// SPDX-License-Identifier: Apache-2.0
// IDX over zlib, which also reads files that are not compressed.
#include "data/idx_file.h"

#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/file.h"

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;
using base::Status;

namespace {

constexpr std::uint8_t kTypeU8 = 8;
constexpr unsigned kStreamBufferBytes = 1U << 17;

gzFile stream_of(void* stream) {
  return static_cast<gzFile>(stream);
}

}  // namespace

Result<IdxFile> IdxFile::open(const std::filesystem::path& path) {
  TROUPE_TRY_ASSIGN(const int descriptor, base::open_regular_file(path));
  gzFile stream = ::gzdopen(descriptor, "rb");  // closes it at its own end
  if (stream == nullptr) {
    ::close(descriptor);
    return base::file_error(path, "open", ENOMEM);
  }
  ::gzbuffer(stream, kStreamBufferBytes);
  IdxFile file(path, stream);
  TROUPE_TRY(file.read_header());
  return file;
}

IdxFile::IdxFile(std::filesystem::path path, void* stream)
    : path_(std::move(path)), stream_(stream) {}

IdxFile::IdxFile(IdxFile&& other) noexcept
    : path_(std::move(other.path_)),
      stream_(std::exchange(other.stream_, nullptr)),
      extents_(std::move(other.extents_)),
      item_bytes_(other.item_bytes_),
      read_items_(other.read_items_) {}

IdxFile::~IdxFile() {
  if (stream_ != nullptr) ::gzclose(stream_of(stream_));
}

Status IdxFile::read_header() {
  std::array<std::uint8_t, 4> head{};
  TROUPE_TRY(read(head, "its header"));
  if (head[0] != 0 || head[1] != 0) {
    return damaged(fmt::format("is no IDX file: begins with {:02x} {:02x}", head[0], head[1]));
  }
  if (head[2] != kTypeU8) return damaged(fmt::format("holds values of type {}, not u8", head[2]));
  if (head[3] < 1 || head[3] > kIdxRankMax) {
    return damaged(fmt::format("has {} axes, 1 to {} are read", head[3], kIdxRankMax));
  }
  for (int axis = 0; axis < head[3]; ++axis) {
    std::array<std::uint8_t, 4> b{};
    TROUPE_TRY(read(b, "its header"));
    extents_.push_back(std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 |
                       std::uint32_t{b[2]} << 8 | b[3]);
    if (axis > 0) item_bytes_ *= extents_.back();
    // Checked at every axis, so the product of 32-bit extents cannot overflow.
    if (item_bytes_ > kIdxItemBytesMax) {
      return damaged(fmt::format("an item is larger than the limit of {} bytes", kIdxItemBytesMax));
    }
  }
  return {};
}

Status IdxFile::read_item(std::span<std::uint8_t> out) {
  TROUPE_CHECK(out.size() == item_bytes_, "an item of another size");
  const std::string what = fmt::format("item {} of {}", read_items_, items());
  if (read_items_ == items()) return damaged("has no further item");
  TROUPE_TRY(read(out, what));
  ++read_items_;
  return {};
}

Status IdxFile::read(std::span<std::uint8_t> out, std::string_view what) {
  // An item is below 2^31 bytes, as zlib's lengths need it.
  const int n = ::gzread(stream_of(stream_), out.data(), static_cast<unsigned>(out.size()));
  if (n == static_cast<int>(out.size())) return {};
  int code = Z_OK;
  const char* text = ::gzerror(stream_of(stream_), &code);
  if (code == Z_ERRNO) {
    const int number = errno;
    return error(base::errc_of_errno(number), "{}: cannot read: {}", path_.string(),
                 std::strerror(number));
  }
  return damaged(
      fmt::format("truncated in {}{}{}", what, code == Z_OK ? "" : ": ", code == Z_OK ? "" : text));
}

Status IdxFile::expect_end() {
  std::uint8_t extra = 0;
  const int n = ::gzread(stream_of(stream_), &extra, 1);
  if (n == 0) {
    int code = Z_OK;
    const char* text = ::gzerror(stream_of(stream_), &code);
    return code == Z_OK ? Status() : damaged(text);
  }
  if (n > 0) return damaged(fmt::format("holds more than the {} items of its header", items()));
  int code = Z_OK;
  return damaged(::gzerror(stream_of(stream_), &code));
}

Status IdxFile::damaged(std::string_view what) const {
  return error(Errc::data_loss, "{}: {}", path_.string(), what);
}

}  // namespace troupe::data
