// SPDX-License-Identifier: Apache-2.0
// RecordIO: the record files of MXNet and dmlc-core (.rec), written and read byte for byte alike.
// A record is one or more parts {magic u32, kind << 29 | length u32, bytes, zeros to a multiple of
// 4}, little-endian. The writer cuts a payload wherever the magic stands in it at a multiple of 4
// and drops those four bytes; the reader puts them back. So the magic at a multiple of 4 is always
// a part's head, and a reader finds its way again behind damage; a length that leads past the next
// record to where none begins is damage, too. The format has no checksum.
// A RecordFile is immutable and read by any thread; writers and readers belong to one thread each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace troupe::data {

/// First word of every part.
inline constexpr std::uint32_t kRecordMagic = 0xced7230a;
/// Longest payload: its length has 29 bits.
inline constexpr std::uint64_t kRecordBytesMax = (std::uint64_t{1} << 29) - 1;

/// Writes a record file that appears under its name, whole, at commit().
class RecordWriter {
 public:
  explicit RecordWriter(std::filesystem::path path);

  base::Status open();
  /// Adds one record and returns the offset of its head. invalid_argument above kRecordBytesMax.
  base::Result<std::uint64_t> append(std::span<const std::byte> payload);
  /// Writes what is left of the records, so that a full disk shows before commit().
  base::Status flush();
  /// Makes the file durable and visible. Without it nothing remains.
  base::Status commit();

  std::uint64_t records() const { return records_; }
  /// Bytes of the file so far.
  std::uint64_t bytes() const { return bytes_; }

 private:
  void put_part(std::uint32_t kind, std::span<const std::byte> bytes);

  base::AtomicFile file_;
  std::vector<std::byte> pending_;
  std::uint64_t records_ = 0;
  std::uint64_t bytes_ = 0;
};

/// An open record file. Reads are positioned, so threads do not disturb each other.
class RecordFile {
 public:
  /// Opens a regular file; not_found, permission_denied or invalid_argument name it.
  static base::Result<std::shared_ptr<const RecordFile>> open(std::filesystem::path path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Size when it was opened.
  std::uint64_t bytes() const { return bytes_; }
  /// Fills `out` from `offset` on; data_loss when the file has shrunk, io_error when the disk
  /// fails.
  base::Status read(std::uint64_t offset, std::span<std::byte> out) const;
  /// CRC-32C of the whole file, read in order with little memory.
  base::Result<std::uint32_t> checksum() const;

 private:
  RecordFile(std::filesystem::path path, int descriptor, std::uint64_t bytes);

  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t bytes_;
};

/// One record as it was read. `payload` is valid until the reader's next call.
struct Record {
  std::uint64_t offset = 0;       ///< of its head
  std::uint64_t next_offset = 0;  ///< behind its last padding
  bool split = false;             ///< it came in several parts
  std::span<const std::byte> payload;
};

/// What to do with bytes that form no record.
enum class OnDamage : std::uint8_t { fail, skip };

/// Limits of a reader.
struct RecordReaderOptions {
  OnDamage on_damage = OnDamage::fail;               ///< for next() alone; read_at() always fails
  std::uint64_t record_bytes_max = kRecordBytesMax;  ///< longer ones are damage, never allocated
  std::uint64_t window_bytes = std::uint64_t{1} << 20;  ///< read ahead at most
  bool heads_only = false;  ///< payloads are not read and stay empty, whatever their lengths
};

/// What next() skipped so far.
struct DamageReport {
  std::uint64_t places = 0;  ///< damaged stretches
  std::uint64_t bytes = 0;   ///< in all of them
  std::uint64_t first_offset = 0;
  base::Status first;  ///< ok while nothing was skipped
};

/// Reads records of one file, in order or by offset. Every error names file and offset; damage is
/// data_loss.
class RecordReader {
 public:
  explicit RecordReader(std::shared_ptr<const RecordFile> file, RecordReaderOptions options = {});

  /// The record whose head is at `offset`. `bytes_hint` (0: unknown) is how far it is likely to
  /// reach and saves a second read.
  base::Result<Record> read_at(std::uint64_t offset, std::uint64_t bytes_hint = 0);
  /// The record at position(), or nothing at the end of the file. With OnDamage::skip damaged
  /// stretches are counted and passed over.
  base::Result<std::optional<Record>> next();
  /// Where next() goes on.
  std::uint64_t position() const { return position_; }
  void seek(std::uint64_t offset) { position_ = offset; }
  const DamageReport& damage() const { return damage_; }
  const RecordFile& file() const { return *file_; }

 private:
  struct Part;
  base::Result<Part> read_part(std::uint64_t offset, std::uint64_t want);
  base::Result<Record> join_parts(std::uint64_t offset, const Part& first, std::uint64_t want);
  base::Result<Record> read_record(std::uint64_t offset, std::uint64_t want);
  base::Status check_end(std::uint64_t offset, const Part& last, std::uint64_t want);
  /// The first head of a record in [from, to), or `to`.
  base::Result<std::uint64_t> find_head(std::uint64_t from, std::uint64_t to);
  base::Result<std::span<const std::byte>> window(std::uint64_t offset, std::uint64_t need,
                                                  std::uint64_t want);
  base::Status count_broken(std::uint64_t bytes);
  base::Status damaged(std::uint64_t offset, std::string_view what) const;

  std::shared_ptr<const RecordFile> file_;
  RecordReaderOptions options_;
  std::uint64_t position_ = 0;
  std::vector<std::byte> window_;
  std::uint64_t window_begin_ = 0;
  std::uint64_t window_size_ = 0;
  std::vector<std::byte> joined_;
  DamageReport damage_;
  bool in_damage_ = false;
  std::uint64_t read_bytes_ = 0;    ///< that windows have read
  std::uint64_t broken_bytes_ = 0;  ///< for split records that came to no end, since read_at()
};

}  // namespace troupe::data
