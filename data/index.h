// SPDX-License-Identifier: Apache-2.0
// The index beside a record file (.idx): text lines `key TAB offset of the record's head`.
// Record number i of a file is its i-th record by offset, with an index and without. Functions of
// files, any thread; blocking.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/record_file.h"

namespace troupe::data {

/// One line of an index.
struct IndexEntry {
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const IndexEntry&, const IndexEntry&) = default;
};

/// "a/train.rec" -> "a/train.idx", "a/part.000" -> "a/part.000.idx".
std::filesystem::path index_path(const std::filesystem::path& record_file);

/// Lines as they stand, read piece by piece. A malformed line is data_loss and named by file and
/// line number, and so is the first one beyond `entries_max`: as many as fit into the record file
/// (records_max).
base::Result<std::vector<IndexEntry>> read_index(const std::filesystem::path& path,
                                                 std::uint64_t entries_max);
/// So many records fit into a file of `bytes`.
std::uint64_t records_max(std::uint64_t bytes);
/// The lines in MXNet's form.
std::string index_text(std::span<const IndexEntry> entries);
/// Writes them, whole or not at all.
base::Status write_index(const std::filesystem::path& path, std::span<const IndexEntry> entries);

/// Keys 0, 1, ... for the records found by reading the whole file. With OnDamage::skip damaged
/// stretches are passed over and reported in `damage` (may be null).
base::Result<std::vector<IndexEntry>> build_index(const std::shared_ptr<const RecordFile>& file,
                                                  OnDamage on_damage, DamageReport* damage);

}  // namespace troupe::data
