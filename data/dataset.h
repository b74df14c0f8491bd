// SPDX-License-Identifier: Apache-2.0
// Dataset: a record file with the offsets of its records, opened once and shared by the ranks and
// threads of a process. Immutable after opening; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "data/image_record.h"
#include "data/record_file.h"

namespace troupe::data {

/// What all ranks of a job must find alike before training begins.
struct Fingerprint {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;  ///< of the record file
  /// CRC-32C of the whole record file up to 16 MiB; of a larger one over the offsets of all records
  /// and 256 stretches of 64 KiB, evenly spread, its begin and end among them. So a job on a large
  /// file begins without reading it; `troupe data check` takes the checksum of the whole.
  std::uint32_t checksum = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  /// "60000 records, 49920000 bytes, checksum 0x0123abcd".
  std::string to_string() const;
};

/// See the top of the file.
class Dataset {
 public:
  /// Takes the offsets from the .idx beside the file, or finds them by reading the file when there
  /// is none (with `on_damage` = skip, damaged stretches are passed over and logged). An index that
  /// names offsets outside the file, unaligned or twice is data_loss.
  static base::Result<std::shared_ptr<const Dataset>> open(const std::filesystem::path& path,
                                                           OnDamage on_damage = OnDamage::fail);

  const std::shared_ptr<const RecordFile>& file() const { return file_; }
  const std::filesystem::path& path() const { return file_->path(); }
  std::uint64_t records() const { return offsets_.size(); }
  /// Offset of record `number`; CHECKs the number.
  std::uint64_t offset(std::uint64_t number) const;
  /// Bytes up to the next record known, a hint for reading in one go.
  std::uint64_t reach(std::uint64_t number) const;

  /// Reads at most 16 MiB the first time, and keeps what it found.
  base::Result<Fingerprint> fingerprint() const;
  /// Size of the first record's image; invalid_argument when there is no record. With `on_damage` =
  /// skip, of the first one that is sound, where there is one.
  base::Result<ImageShape> first_image_shape(OnDamage on_damage = OnDamage::fail) const;

 private:
  base::Result<ImageShape> image_shape(std::uint64_t number) const;
  Dataset(std::shared_ptr<const RecordFile> file, std::vector<std::uint64_t> offsets)
      : file_(std::move(file)), offsets_(std::move(offsets)) {}

  std::shared_ptr<const RecordFile> file_;
  std::vector<std::uint64_t> offsets_;  // ascending
  mutable base::Mutex mutex_;
  mutable std::optional<std::uint32_t> checksum_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::data
