// SPDX-License-Identifier: Apache-2.0
// Opening of record files with or without their index, and their fingerprint.
#include "data/dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"
#include "data/image_decode.h"
#include "data/index.h"

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;
using base::Status;

namespace {

Status check_offsets(const RecordFile& file, const std::filesystem::path& index,
                     const std::vector<std::uint64_t>& offsets) {
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::uint64_t offset = offsets[i];
    const char* fault = nullptr;
    if (offset >= file.bytes()) fault = "is behind the end of";
    if (offset % 4 != 0) fault = "is no multiple of 4, so no record of";
    if (i > 0 && offset == offsets[i - 1]) fault = "is given twice for";
    if (fault == nullptr) continue;
    return error(Errc::data_loss,
                 "{}: offset {} {} {} ({} bytes); make the index anew with `troupe data index`",
                 index.string(), offset, fault, file.path().string(), file.bytes());
  }
  return {};
}

/// Nobody sees an index of an older file, or of a part, but by what lies behind its last record.
void warn_of_rest(const std::shared_ptr<const RecordFile>& file, const std::filesystem::path& index,
                  const std::vector<std::uint64_t>& offsets) {
  if (offsets.empty()) return;
  RecordReaderOptions heads;
  heads.heads_only = true;
  const auto last = RecordReader(file, heads).read_at(offsets.back());
  if (!last.ok() || last->next_offset >= file->bytes()) return;  // whoever reads it is told
  base::log_warn(
      "{}: the last of its {} ends at byte {} of {}, which has {}: what follows is not "
      "used; `troupe data index` makes the index anew",
      index.string(), base::format_counted(offsets.size(), "record"), last->next_offset,
      file->path().string(), file->bytes());
}

/// Stretches of a large file that stand for the whole.
constexpr std::uint64_t kSamples = 256;
constexpr std::uint64_t kSampleBytes = 65'536;

/// See Fingerprint::checksum.
Result<std::uint32_t> sample(const RecordFile& file, const std::vector<std::uint64_t>& offsets) {
  if (file.bytes() <= kSamples * kSampleBytes) return file.checksum();
  std::uint32_t sum = base::crc32c(std::as_bytes(std::span(offsets)));
  std::vector<std::byte> stretch(kSampleBytes);
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t last = file.bytes() - kSampleBytes;
    const std::uint64_t offset = i + 1 == kSamples ? last : last / (kSamples - 1) * i;
    TROUPE_TRY(file.read(offset, stretch));
    sum = base::crc32c(stretch, sum);
  }
  return sum;
}

}  // namespace

std::string Fingerprint::to_string() const {
  return fmt::format("{} records, {} bytes, checksum {:#010x}", records, bytes, checksum);
}

Result<std::shared_ptr<const Dataset>> Dataset::open(const std::filesystem::path& path,
                                                     OnDamage on_damage) {
  TROUPE_TRY_ASSIGN(const auto file, RecordFile::open(path));
  const std::filesystem::path index = index_path(path);
  Result<std::vector<IndexEntry>> entries = read_index(index, records_max(file->bytes()));
  const bool indexed = entries.ok();
  if (!indexed) {
    if (entries.status().code() != Errc::not_found) return entries.status();
    DamageReport damage;
    entries = build_index(file, on_damage, &damage);
    TROUPE_TRY(entries.status());
    if (damage.places > 0) {
      base::log_warn("skipped {} of {} bytes in all; the first: {}",
                     base::format_counted(damage.places, "damaged place"), damage.bytes,
                     damage.first.text());
    }
  }
  std::vector<std::uint64_t> offsets(entries->size());
  std::transform(entries->begin(), entries->end(), offsets.begin(),
                 [](const IndexEntry& entry) { return entry.offset; });
  std::sort(offsets.begin(), offsets.end());
  if (indexed) {
    if (offsets.empty() && file->bytes() > 0) {
      return error(
          Errc::data_loss,
          "{}: names no records, but {} has {} bytes; make the index anew with `troupe data "
          "index`",
          index.string(), path.string(), file->bytes());
    }
    TROUPE_TRY(check_offsets(*file, index, offsets));
    warn_of_rest(file, index, offsets);
  }
  return std::shared_ptr<const Dataset>(new Dataset(file, std::move(offsets)));
}

std::uint64_t Dataset::offset(std::uint64_t number) const {
  TROUPE_CHECK(number < offsets_.size(), "record number behind the end of the file");
  return offsets_[number];
}

std::uint64_t Dataset::reach(std::uint64_t number) const {
  const std::uint64_t begin = offset(number);
  const bool last = number + 1 == offsets_.size();
  return (last ? file_->bytes() : offsets_[number + 1]) - begin;
}

Result<Fingerprint> Dataset::fingerprint() const {
  const base::MutexLock lock(mutex_);
  if (!checksum_) {
    TROUPE_TRY_ASSIGN(checksum_, sample(*file_, offsets_));
  }
  return Fingerprint{records(), file_->bytes(), *checksum_};
}

Result<ImageShape> Dataset::first_image_shape(OnDamage on_damage) const {
  if (offsets_.empty()) {
    return error(Errc::invalid_argument, "{}: holds no records", path().string());
  }
  Result<ImageShape> first = image_shape(0);
  if (on_damage == OnDamage::fail || first.ok()) return first;
  // Forged records may all reach to the file's end.
  constexpr std::uint64_t kTriesMost = 1'000;
  for (std::uint64_t number = 1; number < std::min(records(), kTriesMost); ++number) {
    Result<ImageShape> next = image_shape(number);
    if (next.ok()) return next;
  }
  return first;
}

Result<ImageShape> Dataset::image_shape(std::uint64_t number) const {
  const std::string where = fmt::format("{}: record at offset {}", path().string(), offset(number));
  // A coordinator looks here at files that a job names: what it reads must not be as large as they
  // say.
  RecordReaderOptions bounded;
  bounded.record_bytes_max = kImageRecordBytesMax;
  RecordReader reader(file_, bounded);
  TROUPE_TRY_ASSIGN(const Record record, reader.read_at(offset(number), reach(number)));
  const Result<ImageRecord> image = decode_image_record(record.payload);
  if (!image.ok()) return image.status().with_context(where);
  ImageDecoder decoder;
  Result<ImageShape> shape = decoder.shape(image->image);
  if (!shape.ok()) return shape.status().with_context(where);
  return shape;
}

}  // namespace troupe::data
