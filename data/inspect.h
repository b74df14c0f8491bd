// SPDX-License-Identifier: Apache-2.0
// `troupe data check` and `troupe data index`: what a record file holds, what is damaged, and its
// index made anew. Blocking; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "data/dataset.h"
#include "data/image_record.h"

namespace troupe::data {

/// What a record file holds.
struct CheckReport {
  std::filesystem::path path;
  std::uint64_t records = 0;        ///< whole ones
  std::uint64_t bytes = 0;          ///< of the file
  std::uint32_t checksum = 0;       ///< CRC-32C of the whole file
  std::uint64_t split_records = 0;  ///< records in several parts
  std::uint64_t images = 0;         ///< records with an image in a known format
  std::optional<ImageShape> first_image;
  std::uint64_t damaged_places = 0;  ///< stretches that form no record
  std::uint64_t damaged_images = 0;  ///< records whose checksum or image is wrong
  std::uint64_t first_bad_offset = 0;
  base::Status first_bad;    ///< ok, or the first damage by offset, naming file and offset
  base::Status index_fault;  ///< ok, or how the .idx beside it disagrees

  /// data_loss (exit code 3) with first_bad or index_fault when either is there.
  base::Status status() const;
  /// One line, or more when something is wrong.
  std::string to_string() const;
};

/// Reads the whole file. Raw images are checked by checksum, others by their header, or by decoding
/// them when `decode`. Damage is part of the report; an error means the file could not be read.
base::Result<CheckReport> check_record_file(const std::filesystem::path& path, bool decode = false);

/// What index_record_file() wrote.
struct IndexReport {
  std::filesystem::path path;  ///< of the index
  std::uint64_t records = 0;
  std::string to_string() const;
};

/// Writes the .idx beside a record file by reading that file; data_loss where it is damaged.
base::Result<IndexReport> index_record_file(const std::filesystem::path& path);

}  // namespace troupe::data
