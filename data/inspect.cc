// SPDX-License-Identifier: Apache-2.0
// Checking of record files, record by record and against their index.
#include "data/inspect.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "data/image_decode.h"
#include "data/index.h"

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;
using base::Status;

namespace {

/// Looks into the records of one file.
class RecordChecker {
 public:
  RecordChecker(CheckReport& report, bool decode) : report_(report), decode_(decode) {}

  void check(const Record& record) {
    offsets_.push_back(record.offset);
    report_.split_records += record.split ? 1 : 0;
    // Not every record file holds images; what has no known mark is taken as it is.
    const Result<ImageRecord> image = decode_image_record(record.payload);
    if (!image.ok() || image_format(image->image) == ImageFormat::unknown) return;
    ++report_.images;
    const Status status = check_image(*image);
    if (status.ok()) return;
    ++report_.damaged_images;
    const std::string where =
        fmt::format("{}: record at offset {}", report_.path.string(), record.offset);
    note(record.offset, status.with_context(where));
  }

  void note(std::uint64_t offset, const Status& fault) {
    if (!report_.first_bad.ok() && report_.first_bad_offset <= offset) return;
    report_.first_bad = fault;
    report_.first_bad_offset = offset;
  }

  const std::vector<std::uint64_t>& offsets() const { return offsets_; }

 private:
  Status check_image(const ImageRecord& image) {
    TROUPE_TRY(verify_raw_checksum(image));
    TROUPE_TRY_ASSIGN(const ImageShape shape, decoder_.shape(image.image));
    if (!report_.first_image) report_.first_image = shape;
    if (!decode_) return {};
    if (shape.pixels() > kImagePixelsMax) {
      return error(Errc::data_loss, "an image of {} is too large", shape.to_string());
    }
    pixels_.resize(shape.bytes());
    return decoder_.decode(image.image, shape, pixels_);
  }

  CheckReport& report_;
  bool decode_;
  ImageDecoder decoder_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint64_t> offsets_;
};

Status check_index(const std::filesystem::path& path, std::uint64_t bytes,
                   const std::vector<std::uint64_t>& offsets) {
  const std::filesystem::path index = index_path(path);
  const Result<std::vector<IndexEntry>> entries = read_index(index, records_max(bytes));
  if (!entries.ok()) {
    return entries.status().code() == Errc::not_found ? Status() : entries.status();
  }
  for (const IndexEntry& entry : *entries) {
    if (std::binary_search(offsets.begin(), offsets.end(), entry.offset)) continue;
    return error(Errc::data_loss, "{}: key {} names offset {}, where no whole record begins",
                 index.string(), entry.key, entry.offset);
  }
  std::vector<std::uint64_t> named;
  for (const IndexEntry& entry : *entries) named.push_back(entry.offset);
  std::sort(named.begin(), named.end());
  const auto twice = std::adjacent_find(named.begin(), named.end());
  if (twice != named.end()) {
    return error(Errc::data_loss, "{}: offset {} is given twice", index.string(), *twice);
  }
  if (entries->size() == offsets.size()) return {};
  return error(Errc::data_loss, "{}: names {} records, {} were found", index.string(),
               entries->size(), offsets.size());
}

}  // namespace

Status CheckReport::status() const {
  return first_bad.ok() ? index_fault : first_bad;
}

std::string CheckReport::to_string() const {
  std::string text = fmt::format("{}: {} records, {} bytes, checksum {:#010x}",
                                 base::printable(path.string()), records, bytes, checksum);
  if (split_records > 0) text += fmt::format(", {} of them split", split_records);
  if (first_image)
    text += fmt::format(", {} images, the first {}", images, first_image->to_string());
  if (images < records) {
    text += fmt::format(", {} without an image", base::format_counted(records - images, "record"));
  }
  text += "\n";
  if (!first_bad.ok()) {
    text += fmt::format("damaged: {}, {}; first bad offset {}: {}\n",
                        base::format_counted(damaged_places, "place"),
                        base::format_counted(damaged_images, "image"), first_bad_offset,
                        base::printable(first_bad.text()));
  }
  if (!index_fault.ok()) text += fmt::format("index: {}\n", base::printable(index_fault.text()));
  return text;
}

Result<CheckReport> check_record_file(const std::filesystem::path& path, bool decode) {
  TROUPE_TRY_ASSIGN(const auto file, RecordFile::open(path));
  CheckReport report;
  report.path = path;
  RecordChecker checker(report, decode);
  RecordReaderOptions options;
  options.on_damage = OnDamage::skip;
  RecordReader reader(file, options);
  for (;;) {
    TROUPE_TRY_ASSIGN(const auto record, reader.next());
    if (!record) break;
    checker.check(*record);
  }
  const DamageReport& damage = reader.damage();
  report.damaged_places = damage.places;
  if (damage.places > 0) checker.note(damage.first_offset, damage.first);
  TROUPE_TRY_ASSIGN(report.checksum, file->checksum());
  report.records = checker.offsets().size();
  report.bytes = file->bytes();
  report.index_fault = check_index(path, file->bytes(), checker.offsets());
  return report;
}

std::string IndexReport::to_string() const {
  return fmt::format("{}: {} records\n", base::printable(path.string()), records);
}

Result<IndexReport> index_record_file(const std::filesystem::path& path) {
  IndexReport report{index_path(path)};
  if (path.extension() == ".idx") {
    return error(Errc::invalid_argument, "{}: is named as an index, not as a record file",
                 path.string());
  }
  TROUPE_TRY_ASSIGN(const auto file, RecordFile::open(path));
  TROUPE_TRY_ASSIGN(const auto entries, build_index(file, OnDamage::fail, nullptr));
  report.records = entries.size();
  TROUPE_TRY(write_index(report.path, entries));
  return report;
}

}  // namespace troupe::data
