// SPDX-License-Identifier: Apache-2.0
// RecordIO over positioned reads: lengths are checked against the file before memory is taken for
// them, so a damaged length costs an error and nothing else. No mapping: a file that shrinks while
// it is read must be an error, not a SIGBUS.
#include "data/record_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/hash.h"
#include "data/bytes.h"

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;
using base::Status;

namespace {

// Kinds of parts, the three high bits of a part's second word.
constexpr std::uint32_t kWhole = 0;
constexpr std::uint32_t kFirst = 1;
constexpr std::uint32_t kMiddle = 2;
constexpr std::uint32_t kLast = 3;
constexpr std::uint32_t kKindShift = 29;
constexpr std::uint32_t kLengthMask = (1U << kKindShift) - 1;
constexpr std::uint64_t kHeadBytes = 8;
constexpr std::uint64_t kAlignment = 4;

constexpr std::size_t kWriteBytes = std::size_t{1} << 20;
constexpr std::uint64_t kRandomReadBytes = 4096;
constexpr std::size_t kChecksumBytes = std::size_t{1} << 20;

std::uint64_t align_up(std::uint64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

/// The head of a record's first or only part stands at `at`; 8 bytes are there.
bool begins_record(std::span<const std::byte> bytes, std::size_t at) {
  if (load<std::uint32_t>(bytes, at) != kRecordMagic) return false;
  const std::uint32_t kind = load<std::uint32_t>(bytes, at + 4) >> kKindShift;
  return kind == kWhole || kind == kFirst;
}

}  // namespace

RecordWriter::RecordWriter(std::filesystem::path path) : file_(std::move(path)) {}

Status RecordWriter::open() {
  return file_.open();
}

Result<std::uint64_t> RecordWriter::append(std::span<const std::byte> payload) {
  if (payload.size() > kRecordBytesMax) {
    return error(Errc::invalid_argument, "a record of {} bytes is above the format's limit of {}",
                 payload.size(), kRecordBytesMax);
  }
  const std::uint64_t offset = bytes_;
  std::size_t begin = 0;
  for (std::size_t at = 0; at + kAlignment <= payload.size(); at += kAlignment) {
    if (load<std::uint32_t>(payload, at) != kRecordMagic) continue;
    put_part(begin == 0 ? kFirst : kMiddle, payload.subspan(begin, at - begin));
    begin = at + kAlignment;
  }
  put_part(begin == 0 ? kWhole : kLast, payload.subspan(begin));
  ++records_;
  if (pending_.size() >= kWriteBytes) TROUPE_TRY(flush());
  return offset;
}

void RecordWriter::put_part(std::uint32_t kind, std::span<const std::byte> bytes) {
  store(pending_, kRecordMagic);
  store(pending_, kind << kKindShift | static_cast<std::uint32_t>(bytes.size()));
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  const std::uint64_t padded = align_up(bytes.size());
  pending_.resize(pending_.size() + (padded - bytes.size()));
  bytes_ += kHeadBytes + padded;
}

Status RecordWriter::flush() {
  TROUPE_TRY(file_.write(pending_));
  pending_.clear();
  return {};
}

Status RecordWriter::commit() {
  TROUPE_TRY(flush());
  return file_.commit();
}

Result<std::shared_ptr<const RecordFile>> RecordFile::open(std::filesystem::path path) {
  TROUPE_TRY_ASSIGN(const int descriptor, base::open_regular_file(path));
  struct stat info {};
  const bool known = ::fstat(descriptor, &info) == 0;
  // From here on the object closes the descriptor.
  std::shared_ptr<const RecordFile> file(
      new RecordFile(std::move(path), descriptor, static_cast<std::uint64_t>(info.st_size)));
  if (!known) return base::file_error(file->path(), "stat", errno);
  return file;
}

RecordFile::RecordFile(std::filesystem::path path, int descriptor, std::uint64_t bytes)
    : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes) {}

RecordFile::~RecordFile() {
  ::close(descriptor_);
}

Status RecordFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int number = errno;
      return error(base::errc_of_errno(number), "{}: cannot read at offset {}: {}", path_.string(),
                   offset, std::strerror(number));
    }
    if (n == 0) {
      return error(Errc::data_loss, "{}: ends at offset {}, but had {} bytes when it was opened",
                   path_.string(), offset, bytes_);
    }
    offset += static_cast<std::uint64_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::uint32_t> RecordFile::checksum() const {
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kChecksumBytes, bytes_));
  std::uint32_t sum = 0;
  for (std::uint64_t offset = 0; offset < bytes_; offset += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(chunk.size(), bytes_ - offset));
    TROUPE_TRY(read(offset, chunk));
    sum = base::crc32c(chunk, sum);
  }
  return sum;
}

/// The head of a part whose bytes lie within the file.
struct RecordReader::Part {
  std::uint32_t kind = kWhole;
  std::uint64_t data = 0;    // offset of its bytes
  std::uint64_t length = 0;  // without padding
  std::uint64_t end = 0;     // behind the padding
};

RecordReader::RecordReader(std::shared_ptr<const RecordFile> file, RecordReaderOptions options)
    : file_(std::move(file)), options_(options) {
  TROUPE_CHECK(options_.window_bytes >= kHeadBytes, "window of a record reader below 8 bytes");
}

Result<Record> RecordReader::read_at(std::uint64_t offset, std::uint64_t bytes_hint) {
  broken_bytes_ = 0;  // only who goes on where a record broke off meets its parts again
  // The next record's head is looked at, too.
  const std::uint64_t want = bytes_hint == 0 ? kRandomReadBytes : bytes_hint + kHeadBytes;
  return read_record(offset, std::min(want, options_.window_bytes));
}

Result<std::optional<Record>> RecordReader::next() {
  while (position_ < file_->bytes()) {
    Result<Record> record = read_record(position_, options_.window_bytes);
    if (record.ok()) {
      position_ = record->next_offset;
      in_damage_ = false;
      return std::optional<Record>(*record);
    }
    const bool skip =
        options_.on_damage == OnDamage::skip && record.status().code() == Errc::data_loss;
    if (!skip) return record.status();
    TROUPE_TRY_ASSIGN(const std::uint64_t head, find_head(position_ + 1, file_->bytes()));
    if (damage_.first.ok()) {
      damage_.first = record.status();
      damage_.first_offset = position_;
    }
    if (!in_damage_) ++damage_.places;
    in_damage_ = true;
    damage_.bytes += head - position_;
    position_ = head;
  }
  return std::optional<Record>();
}

Result<Record> RecordReader::read_record(std::uint64_t offset, std::uint64_t want) {
  if (offset % kAlignment != 0) return damaged(offset, "the offset is no multiple of 4");
  if (offset >= file_->bytes()) {
    return damaged(offset, fmt::format("the file ends at {}", file_->bytes()));
  }
  TROUPE_TRY_ASSIGN(const Part part, read_part(offset, want));
  if (part.kind == kFirst) return join_parts(offset, part, want);
  if (part.kind != kWhole) return damaged(offset, "begins with a later part of a split record");
  const std::uint64_t before = read_bytes_;
  const Status end = check_end(offset, part, want);
  if (!end.ok()) {
    TROUPE_TRY(count_broken(2 * (read_bytes_ - before)));
    return end;
  }
  if (options_.heads_only) return Record{offset, part.end, false, {}};
  TROUPE_TRY_ASSIGN(const auto bytes, window(part.data, part.length, want));
  return Record{offset, part.end, false, bytes.first(part.length)};
}

/// A damaged length of a record's last part may lead past the records behind it, to where none
/// begins, or to the end. No payload has a head inside, so the first one found is the next
/// record's.
Status RecordReader::check_end(std::uint64_t offset, const Part& last, std::uint64_t want) {
  if (last.end + kHeadBytes <= file_->bytes()) {
    // The end of a long payload is looked at first: where its length is wrong, none of it is read.
    const std::uint64_t need = last.end + kHeadBytes - last.data;
    const bool together = !options_.heads_only && need <= want;
    const std::uint64_t from = together ? last.data : last.end;
    const std::uint64_t ahead = together || options_.heads_only ? want : kHeadBytes;
    TROUPE_TRY_ASSIGN(const auto bytes, window(from, last.end + kHeadBytes - from, ahead));
    if (begins_record(bytes, last.end - from)) return {};
  }
  TROUPE_TRY_ASSIGN(const std::uint64_t head, find_head(last.data, last.end));
  if (head >= last.end) return {};
  return damaged(offset, fmt::format("a length of {} leads past the record at {} to where none "
                                     "begins",
                                     last.length, head));
}

Result<Record> RecordReader::join_parts(std::uint64_t offset, const Part& first,
                                        std::uint64_t want) {
  joined_.clear();
  std::uint64_t length = 0, heads = 0;
  const std::uint64_t before = read_bytes_;
  // What was read is read once more where the search goes on.
  const auto walked = [&] { return kHeadBytes * heads + 2 * (read_bytes_ - before); };
  Part part = first;
  for (;;) {
    length += part.length;
    if (!options_.heads_only) {
      TROUPE_TRY_ASSIGN(const auto bytes, window(part.data, part.length, want));
      const auto own = bytes.first(part.length);
      joined_.insert(joined_.end(), own.begin(), own.end());
    }
    if (part.kind == kLast) {
      const Status end = check_end(offset, part, want);
      if (end.ok()) return Record{offset, part.end, true, joined_};
      TROUPE_TRY(count_broken(walked()));
      return end;
    }
    const std::uint64_t at = part.end;
    ++heads;
    Result<Part> next = read_part(at, want);
    if (!next.ok()) {
      TROUPE_TRY(count_broken(walked()));
      return next.status();
    }
    part = *next;
    if (part.kind != kMiddle && part.kind != kLast) {
      TROUPE_TRY(count_broken(walked()));
      return damaged(offset, fmt::format("a new record begins at {} before its last part", at));
    }
    if (!options_.heads_only) store(joined_, kRecordMagic);
    length += sizeof(kRecordMagic);
    if (length + part.length > options_.record_bytes_max) {
      TROUPE_TRY(count_broken(walked()));
      return damaged(offset, fmt::format("its parts are longer than the limit of {} bytes",
                                         options_.record_bytes_max));
    }
  }
}

/// Damaged records hardly overlap. Forged ones may all lead into the same parts, which each of them
/// would walk through.
Status RecordReader::count_broken(std::uint64_t bytes) {
  constexpr std::uint64_t kTimes = 16, kAlways = std::uint64_t{1} << 20;
  broken_bytes_ += bytes;
  if (broken_bytes_ <= kTimes * file_->bytes() + kAlways) return {};
  return error(Errc::invalid_argument,
               "{}: records without an end overlap so much that {} bytes of them were read, "
               "of a file of {}",
               file_->path().string(), broken_bytes_, file_->bytes());
}

Result<RecordReader::Part> RecordReader::read_part(std::uint64_t offset, std::uint64_t want) {
  const std::uint64_t left = file_->bytes() - offset;
  if (left < kHeadBytes) {
    return damaged(offset, fmt::format("truncated: {} bytes are left for a head of 8", left));
  }
  TROUPE_TRY_ASSIGN(const auto head, window(offset, kHeadBytes, want));
  const auto magic = load<std::uint32_t>(head, 0);
  const auto word = load<std::uint32_t>(head, 4);
  if (magic != kRecordMagic) {
    // What stands there is not quoted: who reads the error may not read the file.
    return damaged(offset, fmt::format("the magic {:#010x} is not there", kRecordMagic));
  }
  Part part;
  part.kind = word >> kKindShift;
  part.data = offset + kHeadBytes;
  part.length = word & kLengthMask;
  part.end = part.data + align_up(part.length);
  if (part.kind > kLast) return damaged(offset, fmt::format("unknown kind of part {}", part.kind));
  if (part.length > options_.record_bytes_max) {
    return damaged(offset, fmt::format("length {} is above the limit of {} bytes", part.length,
                                       options_.record_bytes_max));
  }
  if (part.end > file_->bytes()) {
    return damaged(offset, fmt::format("truncated: a length of {} needs {} bytes, {} are left",
                                       part.length, part.end - offset, left));
  }
  return part;
}

Result<std::uint64_t> RecordReader::find_head(std::uint64_t from, std::uint64_t to) {
  std::uint64_t at = align_up(from);
  while (at < to && at + kHeadBytes <= file_->bytes()) {
    TROUPE_TRY_ASSIGN(const auto bytes, window(at, kHeadBytes, options_.window_bytes));
    std::size_t i = 0;
    for (; at + i < to && i + kHeadBytes <= bytes.size(); i += kAlignment) {
      if (begins_record(bytes, i)) return at + i;
    }
    at += i;
  }
  return to;
}

// At least `need` bytes from `offset` on, read with up to `want` in one go. The caller has checked
// that `need` bytes lie within the file and within the limits.
Result<std::span<const std::byte>> RecordReader::window(std::uint64_t offset, std::uint64_t need,
                                                        std::uint64_t want) {
  const bool held = offset >= window_begin_ && offset + need <= window_begin_ + window_size_;
  if (!held) {
    const std::uint64_t size = std::min(std::max(need, want), file_->bytes() - offset);
    if (window_.size() < size) window_.resize(size);
    window_size_ = 0;
    TROUPE_TRY(file_->read(offset, std::span(window_).first(size)));
    window_begin_ = offset;
    window_size_ = size;
    read_bytes_ += size;
  }
  const std::uint64_t skip = offset - window_begin_;
  return std::span<const std::byte>(window_).subspan(skip, window_size_ - skip);
}

Status RecordReader::damaged(std::uint64_t offset, std::string_view what) const {
  return error(Errc::data_loss, "{}: record at offset {}: {}", file_->path().string(), offset,
               what);
}

}  // namespace troupe::data
