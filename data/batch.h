// SPDX-License-Identifier: Apache-2.0
// Batch: decoded, normalised samples in pooled memory; BatchMaker: makes them from record numbers.
// A Batch is a value that shares its buffers; nobody writes them once it is made. A BatchMaker
// belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/status.h"
#include "data/augment.h"
#include "data/dataset.h"
#include "data/image_decode.h"
#include "data/image_record.h"
#include "data/record_file.h"

namespace troupe::data {

/// What becomes of a record.
struct SampleOptions {
  ImageShape image;          ///< every image must have this size
  std::vector<float> mean;   ///< per channel or one for all, of pixels in [0, 1]; empty: 0
  std::vector<float> std;    ///< likewise; empty: 1. sample = (pixel / 255 - mean) / std
  std::uint32_t labels = 1;  ///< labels of every record
  /// Each label must be in [0, classes), which is invalid_argument like another size; 0: any label.
  std::uint32_t classes = 0;
  /// skip: a damaged record (not one of another size) is left out, counted and logged.
  OnDamage on_bad_record = OnDamage::fail;
  std::uint64_t record_bytes_max = kRecordBytesMax;  ///< a longer record is a damaged one
  Augmentation augment;                              ///< by default none, as for scoring
};

/// invalid_argument for sizes or numbers that no batch can have.
base::Status check_options(const SampleOptions& options);

/// The samples of one rank and step. With no sample the buffers are empty.
struct Batch {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::vector<std::uint64_t> records;  ///< their numbers, sample by sample, without skipped ones
  std::uint64_t skipped = 0;           ///< damaged records left out
  std::uint64_t bytes = 0;             ///< of the payloads read
  base::Buffer images;                 ///< f32, (count, channels, height, width)
  base::Buffer labels;                 ///< f32, (count, SampleOptions::labels)

  std::uint64_t count() const { return records.size(); }
};

/// Where the time of making batches went.
struct StageTimes {
  std::int64_t read_ns = 0;
  std::int64_t decode_ns = 0;  ///< and normalising
  std::int64_t total_ns = 0;   ///< with all the rest
};

/// Which batch to make.
struct BatchRequest {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::span<const std::uint64_t> records;
};

/// Reads, decodes and normalises, straight into buffers of a pool.
class BatchMaker {
 public:
  /// CHECKs the options; the pool outlives the maker and everything it made, and so does the clock,
  /// if the maker is to take its times.
  BatchMaker(std::shared_ptr<const Dataset> dataset, SampleOptions options, base::BufferPool& pool,
             const base::Clock* clock = nullptr);

  /// The batch, or the first error of its records in the batch's order, naming file and offset.
  base::Result<Batch> make(const BatchRequest& request);
  /// Of the last make(); zeros without a clock.
  const StageTimes& times() const { return times_; }

 private:
  std::int64_t now_ns() const { return clock_ == nullptr ? 0 : clock_->now_ns(); }
  base::Result<Batch> fill(const BatchRequest& request);
  base::Status add_sample(std::uint64_t record, Batch& batch);
  base::Status decode_sample(std::uint64_t record, Batch& batch);
  base::Status check_labels(const ImageRecord& image) const;
  void skip_sample(const base::Status& reason, Batch& batch);

  std::shared_ptr<const Dataset> dataset_;
  SampleOptions options_;
  base::BufferPool& pool_;
  RecordReader reader_;
  ImageDecoder decoder_;
  std::vector<std::uint8_t> pixels_;
  std::vector<PixelTable> tables_;  // one per channel; computed in f64, rounded once
  Augmenter augmenter_;
  std::uint64_t skips_logged_ = 0;
  const base::Clock* clock_;
  StageTimes times_;
};

}  // namespace troupe::data
