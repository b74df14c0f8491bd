// SPDX-License-Identifier: Apache-2.0
// From record numbers to normalised samples.
#include "data/batch.h"

#include <fmt/core.h>

#include <cmath>

#include "base/log.h"
#include "base/units.h"

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;
using base::Status;

namespace {

// Of one maker; a file full of damage must not fill the log, the count goes on.
constexpr std::uint64_t kSkipsLoggedMax = 100;
constexpr std::uint32_t kLabelsMax = 1U << 20;

Status check_channel_values(std::string_view name, const std::vector<float>& values,
                            std::uint32_t channels) {
  if (values.size() > 1 && values.size() != channels) {
    return error(Errc::invalid_argument, "data.{} has {} values for images of {}", name,
                 values.size(), base::format_counted(channels, "channel"));
  }
  for (const float value : values) {
    if (!std::isfinite(value) || (name == "std" && value <= 0)) {
      return error(Errc::invalid_argument, "data.{} holds {}", name, value);
    }
  }
  return {};
}

float channel_value(const std::vector<float>& values, std::size_t channel, float absent) {
  if (values.empty()) return absent;
  return values.size() == 1 ? values[0] : values[channel];
}

}  // namespace

Status check_options(const SampleOptions& options) {
  const ImageShape& image = options.image;
  TROUPE_TRY(check_image_shape(image));
  if (options.labels == 0 || options.labels > kLabelsMax) {
    return error(Errc::invalid_argument, "records with {} labels cannot be read", options.labels);
  }
  TROUPE_TRY(check_channel_values("mean", options.mean, image.channels));
  TROUPE_TRY(check_channel_values("std", options.std, image.channels));
  return check_augmentation(options.augment, image);
}

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset, SampleOptions options,
                       base::BufferPool& pool, const base::Clock* clock)
    : dataset_(std::move(dataset)),
      options_(std::move(options)),
      pool_(pool),
      reader_(dataset_->file(), {.record_bytes_max = options_.record_bytes_max}),
      pixels_(options_.image.bytes()),
      tables_(options_.image.channels),
      augmenter_(options_.augment),
      clock_(clock) {
  TROUPE_CHECK(check_options(options_).ok(), check_options(options_).text());
  TROUPE_CHECK(pool_.device().host_memory(), "batches are decoded into host memory");
  for (std::size_t c = 0; c < tables_.size(); ++c) {
    const double mean = channel_value(options_.mean, c, 0);
    const double deviation = channel_value(options_.std, c, 1);
    for (std::size_t i = 0; i < tables_[c].size(); ++i) {
      tables_[c][i] = static_cast<float>((static_cast<double>(i) / 255.0 - mean) / deviation);
    }
  }
}

Result<Batch> BatchMaker::make(const BatchRequest& request) {
  times_ = {};
  const std::int64_t begin_ns = now_ns();
  Result<Batch> batch = fill(request);
  times_.total_ns = now_ns() - begin_ns;
  return batch;
}

Result<Batch> BatchMaker::fill(const BatchRequest& request) {
  Batch batch;
  batch.step = request.step;
  batch.epoch = request.epoch;
  if (request.records.empty()) return batch;
  const std::size_t image_bytes = options_.image.bytes() * sizeof(float);
  const std::size_t label_bytes = options_.labels * sizeof(float);
  const std::size_t n = request.records.size();
  TROUPE_TRY_ASSIGN(batch.images, pool_.allocate(n * image_bytes, "data: images of a batch"));
  TROUPE_TRY_ASSIGN(batch.labels, pool_.allocate(n * label_bytes, "data: labels of a batch"));
  batch.records.reserve(n);
  for (const std::uint64_t record : request.records) TROUPE_TRY(add_sample(record, batch));
  batch.images = batch.images.slice(0, batch.count() * image_bytes);
  batch.labels = batch.labels.slice(0, batch.count() * label_bytes);
  return batch;
}

Status BatchMaker::add_sample(std::uint64_t record, Batch& batch) {
  const Status status = decode_sample(record, batch);
  if (status.ok()) {
    batch.records.push_back(record);
    return {};
  }
  const bool damaged = status.code() == Errc::data_loss;
  if (!damaged || options_.on_bad_record == OnDamage::fail) return status;
  skip_sample(status, batch);
  return {};
}

// Writes the sample behind the last whole one; the caller counts it when all went well.
Status BatchMaker::decode_sample(std::uint64_t number, Batch& batch) {
  const std::uint64_t offset = dataset_->offset(number);
  const std::int64_t begin_ns = now_ns();
  TROUPE_TRY_ASSIGN(const Record record, reader_.read_at(offset, dataset_->reach(number)));
  const std::int64_t read_ns = now_ns();
  times_.read_ns += read_ns - begin_ns;
  const auto named = [&](const Status& status) {
    return status.with_context(
        fmt::format("{}: record at offset {}", dataset_->path().string(), offset));
  };
  const Result<ImageRecord> image = decode_image_record(record.payload);
  if (!image.ok()) return named(image.status());
  TROUPE_TRY(named(verify_raw_checksum(*image)));
  TROUPE_TRY(named(check_labels(*image)));
  TROUPE_TRY(named(decoder_.decode(image->image, options_.image, pixels_)));
  const std::size_t plane = options_.image.pixels();
  float* out = batch.images.as<float>().data() + batch.count() * pixels_.size();
  const Placement placement = augmenter_.place(batch.epoch, number);
  for (std::size_t c = 0; c < tables_.size(); ++c) {
    const std::span<const std::uint8_t> pixels(pixels_.data() + c * plane, plane);
    lay_plane(pixels, options_.image, placement, tables_[c], out + c * plane);
  }
  float* labels = batch.labels.as<float>().data() + batch.count() * options_.labels;
  for (std::size_t i = 0; i < options_.labels; ++i) labels[i] = image->label(i);
  batch.bytes += record.payload.size();
  times_.decode_ns += now_ns() - read_ns;
  return {};
}

Status BatchMaker::check_labels(const ImageRecord& image) const {
  if (image.label_count() != options_.labels) {
    return error(Errc::invalid_argument, "the record has {} labels, expected {}",
                 image.label_count(), options_.labels);
  }
  if (options_.classes == 0) return {};
  for (std::size_t i = 0; i < options_.labels; ++i) {
    const float label = image.label(i);
    const bool in_range = label >= 0 && label < static_cast<float>(options_.classes);
    if (in_range && label == std::floor(label)) continue;
    return error(Errc::invalid_argument, "label {} is none of the {} classes", label,
                 options_.classes);
  }
  return {};
}

void BatchMaker::skip_sample(const Status& reason, Batch& batch) {
  ++batch.skipped;
  if (++skips_logged_ > kSkipsLoggedMax) return;
  base::log_warn("step {}: skipped a record: {}{}", batch.step, reason.text(),
                 skips_logged_ == kSkipsLoggedMax ? " (further ones are only counted)" : "");
}

}  // namespace troupe::data
